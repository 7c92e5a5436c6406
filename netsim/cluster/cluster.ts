/** Real Kubernetes in a lab: a seed with its API server, and a shoot with a hosted API server and real nodes. */

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Lab } from "#netsim/lab/lab.ts";
import { enterNamespace } from "#netsim/lab/namespace.ts";
import type { Machine } from "#netsim/lab/machine.ts";
import { writeBaseImages } from "./base-images.ts";
import { basicControllers, startControlPlane, workloadControllers } from "./control-plane.ts";
import type { ControlPlane } from "./control-plane.ts";
import type { Kubectl } from "./kubectl.ts";
import { Nodes } from "./nodes.ts";
import { openKeys } from "./pki.ts";
import type { ClusterKeys } from "./pki.ts";
import { preparePlainRoutes } from "./plain-routes.ts";
import type { NoRoute, PlainRoutes } from "./plain-routes.ts";
import type { Programs } from "./programs.ts";
import { startPrometheus } from "./prometheus.ts";
import type { Prometheus } from "./prometheus.ts";
import { bothFamilies, twoNetworksSite } from "./site.ts";
import type { ClusterSite } from "./site.ts";
import * as workload from "./workloads.ts";

export interface ClusterOptions {
  readonly programs: Programs;
  /** Told when a step is done, with the time since the start. */
  readonly onProgress?: (step: string, elapsedMs: number) => void;
  /** Default: the drawing in netsim/lab/two-networks.ts. */
  readonly site?: ClusterSite;
  /** Default "unreachable". */
  readonly noRoute?: NoRoute;
  /** More arguments of the shoot's kube-apiserver, e.g. an egress selector's configuration. */
  readonly apiServerArguments?: readonly string[];
}

export interface Cluster {
  readonly lab: Lab;
  readonly site: ClusterSite;
  readonly programs: Programs;
  /** Everything written for the clusters is below it; gone with the lab. */
  readonly folder: string;
  readonly seed: ControlPlane;
  readonly shoot: ControlPlane;
  readonly prometheus: Prometheus;
  /** Routes from the seed to the shoot without the product; closed at first. */
  readonly plainRoutes: PlainRoutes;
  /** Scripts that are kubectl for the administrator of a cluster, from any shell of this machine. */
  readonly scripts: { readonly seed: string; readonly shoot: string };
  /** All namespaces of a node, not only its network. */
  readonly machine: (node: string) => Machine;
  /**
   * Boots a node again, whether it runs (the plug is pulled) or was killed; its disks are kept. Resolves when the
   * kubelet is started: its pods come back by themselves, with new addresses.
   */
  readonly restartNode: (node: string) => Promise<void>;
  /** Tells Prometheus the pods' addresses of now. */
  readonly refreshTargets: () => Promise<void>;
  /** Makes the agents' ServiceAccount `xylem-agent` in `kube-system`; doing it again changes nothing. */
  readonly installAgentsIdentity: () => Promise<void>;
  /** A token of the agents' ServiceAccount that is bound to a Node, as a pod's token is; good for a day. */
  readonly nodeToken: (node: string) => Promise<string>;
  /** Ends every process of the clusters; the lab stays. */
  readonly close: () => Promise<void>;
}

const agentAccount = "xylem-agent";

/**
 * Brings both clusters up and resolves when the nodes and the pods of the default namespace are Ready, and
 * Prometheus answers. metrics-server needs another 10 to 20 s of its own before `top` works.
 */
export async function openCluster(lab: Lab, options: ClusterOptions): Promise<Cluster> {
  const startMs = performance.now();
  const done = (step: string): void => options.onProgress?.(step, performance.now() - startMs);
  const context = await prepare(lab, options);
  const plainRoutes = await routesOf(context, options.noRoute ?? "unreachable");
  const { site, programs, folder } = context;
  const nodes = shootNodes(context);
  const [seed, shoot] = await Promise.all([
    startSeed(context).finally(() => done("seed's API server is ready")),
    startShoot(context).finally(() => done("shoot's API server is ready")),
    nodes.bootAll().finally(() => done("machines and containerd are up")),
  ]);
  await populate({ context, seed, shoot, nodes, done });
  const workloadSpec = workloadsOf(context);
  const [prometheus] = await Promise.all([
    watch(context, shoot.kubectl),
    create(shoot.kubectl, workload.registrations(workloadSpec)),
  ]);
  done("Prometheus answers");
  const identity = agentsIdentity(shoot.kubectl);
  return {
    lab,
    site,
    programs,
    folder,
    seed,
    shoot,
    prometheus,
    plainRoutes,
    scripts: await writeScripts(context, { seed, shoot }),
    machine: (node) => nodes.machine(node),
    restartNode: (node) => nodes.restart(node),
    refreshTargets: async () => prometheus.setPods(await podTargets(shoot.kubectl)),
    ...identity,
    close: async () => {
      await prometheus.stop();
      await nodes.kill();
      await Promise.all([shoot.stop(), seed.stop()]);
    },
  };
}

interface Populating {
  readonly context: Context;
  readonly seed: ControlPlane;
  readonly shoot: ControlPlane;
  readonly nodes: Nodes;
  readonly done: (step: string) => void;
}

/** Makes the Node objects and the workloads, starts what works on them, and waits until all is Ready. */
async function populate({ context, seed, shoot, nodes, done }: Populating): Promise<void> {
  const { kubectl } = shoot;
  await create(kubectl, workload.nodeObjects(context.site.nodes));
  nodes.startAll();
  await Promise.all([seed.startControllers(), shoot.startControllers()]);
  await Promise.all(["default", "kube-system"].map((name) => waitForNamespace(kubectl, name)));
  await create(kubectl, workload.workloads(workloadsOf(context)));
  done("workloads are made");
  await Promise.all([
    waitForReady(kubectl, ["node", "--all"]).finally(() => done("nodes are Ready")),
    waitForReady(kubectl, ["pod", "--all"]).finally(() => done("pods are Ready")),
  ]);
}

function workloadsOf({ site, keys, programs }: Context): workload.WorkloadSpec {
  return { nodes: site.nodes.map(({ name }) => name), keys: keys.shoot, programs };
}

async function watch(context: Context, kubectl: Kubectl): Promise<Prometheus> {
  const { lab, site, programs, folder, logs, keys } = context;
  return startPrometheus({
    namespace: lab.namespace(site.prometheus.machine),
    keys: keys.shoot,
    folder: join(folder, "prometheus"),
    logs,
    labpod: programs.labpod,
    kubelets: site.nodes.map(({ address }) => `${address}:10250`),
    pods: await podTargets(kubectl),
  });
}

interface Context {
  readonly lab: Lab;
  readonly site: ClusterSite;
  readonly programs: Programs;
  readonly folder: string;
  readonly logs: string;
  readonly keys: { readonly seed: ClusterKeys; readonly shoot: ClusterKeys };
  readonly apiServerArguments: readonly string[];
}

async function prepare(lab: Lab, options: ClusterOptions): Promise<Context> {
  const folder = join(lab.ram, "cluster");
  const logs = join(lab.dir, "log");
  await mkdir(folder, { recursive: true });
  const [seed, shoot] = await Promise.all(
    ["seed", "shoot"].map((name) => openKeys(name, join(folder, name, "pki"))),
  );
  if (seed === undefined || shoot === undefined) throw new Error("the clusters have no keys");
  await shoot.issue("webhook", { commonName: "webhook", hosts: workload.servingHosts });
  return {
    lab,
    site: options.site ?? twoNetworksSite,
    programs: options.programs,
    folder,
    logs,
    keys: { seed, shoot },
    apiServerArguments: options.apiServerArguments ?? [],
  };
}

function startSeed({ lab, site, programs, folder, logs, keys }: Context): Promise<ControlPlane> {
  const namespace = lab.namespace(site.seed.machine);
  return startControlPlane({
    name: "seed",
    programs,
    keys: keys.seed,
    namespace,
    kubectlNamespace: namespace,
    folder: join(folder, "seed"),
    logs,
    address: site.seed.address,
    publicAddress: site.seed.address,
    serviceRange: site.seed.serviceRange,
    serviceAddress: site.seed.serviceAddress,
    controllers: basicControllers,
    hasScheduler: false,
  });
}

function startShoot(context: Context): Promise<ControlPlane> {
  const { lab, site, programs, folder, logs, keys } = context;
  return startControlPlane({
    name: "shoot",
    programs,
    keys: keys.shoot,
    namespace: lab.namespace(site.apiserver.machine),
    kubectlNamespace: lab.namespace(site.seed.machine),
    folder: join(folder, "shoot"),
    logs,
    address: site.apiserver.address,
    publicAddress: site.apiserver.publicAddress,
    serviceRange: bothFamilies(site.ranges.services, site.ranges6?.services).join(","),
    serviceAddress: site.serviceAddress,
    controllers: [...basicControllers, ...workloadControllers],
    hasScheduler: true,
    apiServerArguments: context.apiServerArguments,
  });
}

function shootNodes(context: Context): Nodes {
  const { site, lab, programs, folder } = context;
  return new Nodes({
    ...context,
    nodes: site.nodes,
    ranges: site.ranges,
    ranges6: site.ranges6,
    dnsAddress: site.dnsAddress,
    server: `https://${site.apiserver.publicAddress}:6443`,
    keys: context.keys.shoot,
    images: writeBaseImages({ lab, programs, folder: join(folder, "images") }),
  });
}

async function create(kubectl: Kubectl, objects: workload.Manifest): Promise<void> {
  const input = workload.asList(objects);
  await kubectl.run(["create", "--validate=false", "-f", "-"], { input });
}

/** The API server makes them a moment after it says it is ready. */
async function waitForNamespace(kubectl: Kubectl, name: string): Promise<void> {
  await kubectl.run(["wait", "--for=create", `namespace/${name}`, "--timeout=20s"]);
}

async function waitForReady(kubectl: Kubectl, what: readonly string[]): Promise<void> {
  const timeoutMs = 95_000;
  await kubectl.run(["wait", "--for=condition=Ready", ...what, "--timeout=90s"], { timeoutMs });
}

async function writeScripts(
  { lab, site, programs }: Context,
  clusters: { readonly seed: ControlPlane; readonly shoot: ControlPlane },
): Promise<Cluster["scripts"]> {
  const enter = enterNamespace(lab.namespace(site.seed.machine).name).join(" ");
  const write = async (name: string, kubeconfig: string): Promise<string> => {
    const file = join(lab.dir, name);
    const command = `${enter} ${programs.hyperkube} kubectl --kubeconfig ${kubeconfig} "$@"`;
    await writeFile(file, `#!/bin/sh\nexec ${command}\n`, { mode: 0o755 });
    return file;
  };
  const { seed, shoot } = clusters;
  const [ofSeed, ofShoot] = await Promise.all([
    write("kubectl-seed", seed.kubeconfigs.private),
    write("kubectl-shoot", shoot.kubeconfigs.private),
  ]);
  return { seed: ofSeed, shoot: ofShoot };
}

async function podTargets(kubectl: Kubectl): Promise<readonly string[]> {
  const path = "{range .items[*]}{.status.podIP}{'\\n'}{end}";
  const found = await kubectl.run(["get", "pod", "-l", "app=web", "-o", `jsonpath=${path}`]);
  const addresses = found.stdout.split("\n").filter((line) => line !== "");
  return addresses.map((address) => `${address}:${workload.webPort}`);
}

function agentsIdentity(kubectl: Kubectl): Pick<Cluster, "installAgentsIdentity" | "nodeToken"> {
  return {
    installAgentsIdentity: async () => {
      const metadata = { name: agentAccount, namespace: "kube-system" };
      const input = JSON.stringify({ apiVersion: "v1", kind: "ServiceAccount", metadata });
      await kubectl.run(["apply", "--server-side", "-f", "-"], { input });
    },
    nodeToken: async (node) => {
      const bound = ["--bound-object-kind", "Node", "--bound-object-name", node];
      const args = [
        "create",
        "token",
        agentAccount,
        "-n",
        "kube-system",
        "--duration",
        "24h",
        ...bound,
      ];
      return (await kubectl.run(args)).stdout.trim();
    },
  };
}

function routesOf({ lab, site }: Context, noRoute: NoRoute): Promise<PlainRoutes> {
  const seed = [site.seed.machine, site.apiserver.machine, site.prometheus.machine];
  return preparePlainRoutes({
    site,
    noRoute,
    seed: seed.map((machine) => lab.namespace(machine)),
    internet: lab.namespace("internet"),
    passage: lab.namespace("balancer"),
    passageAddress: "198.51.100.3",
    passageAddress6: "2001:db8:2::3",
    passageInside: "inside",
  });
}
