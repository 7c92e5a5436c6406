/** A whole seed in the lab: a cluster with a node of its own, where a shoot's control plane runs as pods. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { hostedPlan } from "#netsim/lab/hosted-networks.ts";
import type { Lab } from "#netsim/lab/lab.ts";
import type { Machine } from "#netsim/lab/machine.ts";
import { twoNetworksPlan } from "#netsim/lab/two-networks.ts";
import { writeBaseImages } from "./base-images.ts";
import { basicControllers, startControlPlane, workloadControllers } from "./control-plane.ts";
import type { ControlPlane } from "./control-plane.ts";
import { hostedControlPlane } from "./hosted-control-plane.ts";
import { openKubectl, waitUntilReady } from "./kubectl.ts";
import type { Kubectl, KubectlSpec } from "./kubectl.ts";
import { Nodes } from "./nodes.ts";
import { administrator, openKeys } from "./pki.ts";
import type { ClusterKeys } from "./pki.ts";
import type { Programs } from "./programs.ts";
import { twoNetworksSite } from "./site.ts";
import type { NodeSite, ShootRanges } from "./site.ts";
import * as workload from "./workloads.ts";

export interface HostedOptions {
  readonly programs: Programs;
  /** More OCI archives for the nodes of each cluster. */
  readonly images: { readonly seed: readonly string[]; readonly shoot: readonly string[] };
  /** Told when a step is done, with the time since the start. */
  readonly onProgress?: (step: string, elapsedMs: number) => void;
}

export interface HostedCluster {
  readonly lab: Lab;
  readonly programs: Programs;
  /** Everything written for the clusters is below it; gone with the lab. */
  readonly folder: string;
  /** Namespace of the shoot's control plane in the seed. */
  readonly namespace: string;
  readonly seed: ControlPlane;
  readonly shoot: {
    /** Asks whichever API server its Service picks. */
    readonly kubectl: Kubectl;
    readonly keys: ClusterKeys;
    /** https://address of the API server's Service, from inside of the seed. */
    readonly server: string;
  };
  readonly nodes: readonly NodeSite[];
  readonly ranges: ShootRanges;
  /** All namespaces of a shoot's node. */
  readonly machine: (node: string) => Machine;
  /** Pulls the plug of every node of the shoot. */
  readonly killNodes: () => Promise<void>;
  /** Boots every node of the shoot on its old disks. */
  readonly bootNodes: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** The API server listens here in its pod. */
export const hostedApiServerPort = 6443;
const shootNamespace = "shoot--lab--alpha";
const seedNode: NodeSite = {
  name: "seed",
  address: twoNetworksPlan.seedAddress,
  podRange: hostedPlan.seedPodRange,
};
const services = { etcd: "172.21.4.20", apiserver: "172.21.4.21" };
/** What the seed's workloads need besides. */
const seedControllers = [
  ...basicControllers,
  ...workloadControllers,
  "statefulset-controller",
  "disruption-controller",
];
const readyTimeoutMs = 90_000;
const { nodes, ranges, serviceAddress, dnsAddress, seed: seedSite } = twoNetworksSite;
const { apiserverPublicAddress: publicAddress } = twoNetworksPlan;

interface Context extends HostedOptions {
  readonly lab: Lab;
  readonly folder: string;
  readonly logs: string;
  readonly keys: { readonly seed: ClusterKeys; readonly shoot: ClusterKeys };
  readonly done: (step: string) => void;
}

/** Brings up both clusters on `hostedNetworks`, without the product; resolves when all nodes and pods are Ready. */
export async function openHostedCluster(lab: Lab, options: HostedOptions): Promise<HostedCluster> {
  const context = await prepare(lab, options);
  const { folder, programs, done, keys } = context;
  const base = writeBaseImages({ lab, programs, folder: join(folder, "images") });
  const seedNodes = nodesOfSeed(context, base);
  const shootNodes = nodesOfShoot(context, base);
  const [seed] = await Promise.all([
    startSeed(context).finally(() => done("the seed's API server is ready")),
    seedNodes.bootAll().finally(() => done("the seed's node has its images")),
    shootNodes.bootAll().finally(() => done("the shoot's nodes have their images")),
  ]);
  await apply(seed.kubectl, workload.nodeObjects([seedNode]));
  seedNodes.startAll();
  await seed.startControllers();
  const shoot = await startShoot(context, seed);
  done("the shoot's API server is ready");
  await apply(shoot.kubectl, [...workload.nodeObjects(nodes), publicEndpoint()]);
  shootNodes.startAll();
  await Promise.all(
    ["default", "kube-system"].map((name) => waitForNamespace(shoot.kubectl, name)),
  );
  const workloads = { nodes: nodes.map(({ name }) => name), keys: keys.shoot, programs };
  await apply(shoot.kubectl, workload.workloads(workloads));
  await Promise.all([
    waitForReady(shoot.kubectl, ["node", "--all"]),
    waitForReady(shoot.kubectl, ["pod", "--all"]),
    waitForReady(seed.kubectl, ["pod", "--all", "-n", shootNamespace]),
  ]);
  await apply(shoot.kubectl, workload.registrations(workloads));
  done("all nodes and pods are Ready");
  return {
    lab,
    programs,
    folder,
    namespace: shootNamespace,
    seed,
    shoot,
    nodes,
    ranges,
    machine: (node) => shootNodes.machine(node),
    killNodes: () => shootNodes.kill(),
    bootNodes: async () => {
      await Promise.all(nodes.map(({ name }) => shootNodes.restart(name)));
    },
    close: async () => {
      await Promise.all([shootNodes.kill(), seedNodes.kill()]);
      await seed.stop();
    },
  };
}

async function prepare(lab: Lab, options: HostedOptions): Promise<Context> {
  const startMs = performance.now();
  const folder = join(lab.ram, "cluster");
  await mkdir(join(folder, "etcd"), { recursive: true });
  const [seed, shoot] = await Promise.all([
    openKeys("seed", join(folder, "seed", "pki")),
    openKeys("shoot", join(folder, "shoot", "pki")),
  ]);
  await shoot.issue("webhook", { commonName: "webhook", hosts: workload.servingHosts });
  return {
    ...options,
    lab,
    folder,
    logs: join(lab.dir, "log"),
    keys: { seed, shoot },
    done: (step) => options.onProgress?.(step, performance.now() - startMs),
  };
}

function nodesOfSeed(context: Context, base: Promise<readonly string[]>): Nodes {
  const { address, serviceRange } = seedSite;
  return new Nodes({
    ...context,
    nodes: [seedNode],
    ranges: { nodes: `${address}/32`, pods: seedNode.podRange, services: serviceRange },
    // The seed has no cluster DNS; nothing there asks.
    dnsAddress: "172.21.4.10",
    server: `https://${address}:6443`,
    keys: context.keys.seed,
    images: base.then((images) => [...images, ...context.images.seed]),
  });
}

function nodesOfShoot(context: Context, base: Promise<readonly string[]>): Nodes {
  return new Nodes({
    ...context,
    nodes,
    ranges,
    dnsAddress,
    server: `https://${publicAddress}:6443`,
    keys: context.keys.shoot,
    images: base.then((images) => [...images, ...context.images.shoot]),
  });
}

function startSeed({ lab, programs, folder, logs, keys }: Context): Promise<ControlPlane> {
  const namespace = lab.namespace(seedSite.machine);
  return startControlPlane({
    name: "seed",
    programs,
    keys: keys.seed,
    namespace,
    kubectlNamespace: namespace,
    folder: join(folder, "seed"),
    logs,
    address: seedSite.address,
    publicAddress: seedSite.address,
    serviceRange: seedSite.serviceRange,
    serviceAddress: seedSite.serviceAddress,
    controllers: seedControllers,
    hasScheduler: true,
  });
}

async function startShoot(context: Context, seed: ControlPlane): Promise<HostedCluster["shoot"]> {
  const { programs, folder, keys, lab } = context;
  const server = `https://${services.apiserver}`;
  const [admin, manager, scheduler] = await Promise.all([
    keys.shoot.kubeconfig({ name: "admin", server, user: administrator }),
    ...["kube-controller-manager", "kube-scheduler"].map((name) =>
      keys.shoot.kubeconfig({
        name,
        server,
        user: { kind: "certificate", commonName: `system:${name}` },
      }),
    ),
    issueAll(keys.shoot),
  ]);
  if (manager === undefined || scheduler === undefined) throw new Error("no kubeconfigs");
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: shootNamespace } };
  const pods = hostedControlPlane({
    namespace: shootNamespace,
    programs,
    keys: keys.shoot,
    kubeconfigs: { manager, scheduler },
    etcdFolder: join(folder, "etcd"),
    publicAddress,
    publicPort: hostedApiServerPort,
    nodePort: hostedPlan.apiserverNodePort,
    serviceRange: ranges.services,
    etcdService: services.etcd,
    apiServerService: services.apiserver,
  });
  await apply(seed.kubectl, [namespace, ...pods]);
  const kubectlSpec: KubectlSpec = {
    programs,
    namespace: lab.namespace(seedSite.machine),
    kubeconfig: admin,
    server,
    keys: keys.shoot.folder,
    home: join(folder, "shoot"),
  };
  await waitUntilReady(kubectlSpec, readyTimeoutMs);
  return { kubectl: openKubectl(kubectlSpec), keys: keys.shoot, server };
}

async function issueAll(keys: ClusterKeys): Promise<void> {
  const names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"];
  const addresses = [publicAddress, seedSite.address, services.apiserver, serviceAddress];
  const hosts = [...names, ...addresses, "127.0.0.1"];
  const masters = ["system:masters"];
  await Promise.all([
    keys.issue("apiserver", { commonName: "kube-apiserver", hosts }),
    keys.issue("kubelet-client", { commonName: "kube-apiserver", organizations: masters }),
    keys.issue("front-proxy", { commonName: "front-proxy" }),
    keys.issue("admin", { commonName: "admin", organizations: masters }),
  ]);
}

/** What replicas behind one public address can't keep for themselves: where the Service `kubernetes` leads. */
function publicEndpoint(): workload.Manifest[number] {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      namespace: "default",
      name: "kubernetes",
      labels: { "kubernetes.io/service-name": "kubernetes" },
    },
    addressType: "IPv4",
    endpoints: [{ addresses: [publicAddress], conditions: { ready: true } }],
    ports: [{ name: "https", port: 6443, protocol: "TCP" }],
  };
}

/** Not `create`: the controllers may have made a namespace's service account first. */
async function apply(kubectl: Kubectl, objects: workload.Manifest): Promise<void> {
  const input = workload.asList(objects);
  await kubectl.run(["apply", "--server-side", "--validate=false", "-f", "-"], { input });
}

/** The API server makes them a moment after it says it is ready. */
async function waitForNamespace(kubectl: Kubectl, name: string): Promise<void> {
  await kubectl.run(["wait", "--for=create", `namespace/${name}`, "--timeout=20s"]);
}

async function waitForReady(kubectl: Kubectl, what: readonly string[]): Promise<void> {
  const timeoutMs = readyTimeoutMs + 5_000;
  await kubectl.run(["wait", "--for=condition=Ready", ...what, "--timeout=90s"], { timeoutMs });
}
