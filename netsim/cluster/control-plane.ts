/** One cluster's etcd, kube-apiserver, controllers and scheduler, as processes of one namespace of the lab. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Namespace } from "#netsim/lab/namespace.ts";
import type { Running } from "#netsim/lab/process.ts";
import { apiServerFlags, etcdFlags, managerFlags, schedulerFlags } from "./control-plane-flags.ts";
import { flagList } from "./flags.ts";
import { openKubectl, waitUntilReady } from "./kubectl.ts";
import type { Kubectl, KubectlSpec } from "./kubectl.ts";
import { administrator } from "./pki.ts";
import type { ClusterKeys } from "./pki.ts";
import type { Programs } from "./programs.ts";

export interface ControlPlaneSpec {
  readonly name: string;
  readonly programs: Programs;
  readonly keys: ClusterKeys;
  /** Where the processes run. */
  readonly namespace: Namespace;
  /** Where kubectl runs; it dials `address`. */
  readonly kubectlNamespace: Namespace;
  /** Everything the cluster writes is below it. */
  readonly folder: string;
  readonly logs: string;
  /** The namespace's own address. */
  readonly address: string;
  /** Where the cluster's nodes and pods find the API server. */
  readonly publicAddress: string;
  /** With a comma between two families. */
  readonly serviceRange: string;
  /** First address of the service range: the `kubernetes` Service. */
  readonly serviceAddress: string;
  readonly controllers: readonly string[];
  readonly hasScheduler: boolean;
  readonly apiServerArguments?: readonly string[];
}

export interface ControlPlane {
  readonly name: string;
  readonly keys: ClusterKeys;
  readonly kubectl: Kubectl;
  /** Admin kubeconfigs by where they are used: beside the API server, in the seed, anywhere with a way to its public address. */
  readonly kubeconfigs: {
    readonly local: string;
    readonly private: string;
    readonly public: string;
  };
  readonly servers: {
    readonly local: string;
    readonly private: string;
    readonly public: string;
  };
  /** Starts the controllers and the scheduler; on nobody's critical path. */
  readonly startControllers: () => Promise<void>;
  /** Ends the API server and starts it again on the same data; resolves when it is ready. */
  readonly restartApiServer: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** Controllers that every cluster of the lab needs. */
export const basicControllers: readonly string[] = [
  "serviceaccount-controller",
  "root-ca-certificate-publisher-controller",
  "namespace-controller",
  "garbage-collector-controller",
  "clusterrole-aggregation-controller",
];

/** What a cluster with nodes needs in addition. */
export const workloadControllers: readonly string[] = [
  "endpointslice-controller",
  "deployment-controller",
  "replicaset-controller",
  "daemonset-controller",
  "job-controller",
  "node-lifecycle-controller",
  "taint-eviction-controller",
];

const port = 6443;
const readyTimeoutMs = 60_000;

/** Starts etcd and the API server together and resolves when the API server is ready. */
export async function startControlPlane(spec: ControlPlaneSpec): Promise<ControlPlane> {
  const { keys } = spec;
  const servers = {
    local: `https://127.0.0.1:${port}`,
    private: `https://${spec.address}:${port}`,
    public: `https://${spec.publicAddress}:${port}`,
  };
  await Promise.all([mkdir(join(spec.folder, "run"), { recursive: true }), issueAll(spec, keys)]);
  const [local, inSeed, anywhere] = await Promise.all([
    keys.kubeconfig({ name: "admin-local", server: servers.local, user: administrator }),
    keys.kubeconfig({ name: "admin", server: servers.private, user: administrator }),
    keys.kubeconfig({ name: "admin-public", server: servers.public, user: administrator }),
  ]);
  const kubectlSpec: KubectlSpec = {
    programs: spec.programs,
    namespace: spec.kubectlNamespace,
    kubeconfig: inSeed,
    server: servers.private,
    keys: keys.folder,
    home: join(spec.folder, "run"),
  };
  const etcd = spawn(
    spec,
    "etcd",
    flagList(etcdFlags({ dataFolder: join(spec.folder, "etcd"), address: "127.0.0.1" })),
  );
  const serverArguments = [
    ...flagList(
      apiServerFlags({
        etcdServer: "http://127.0.0.1:2379",
        port,
        advertiseAddress: spec.publicAddress,
        serviceRange: spec.serviceRange,
        keys,
        runFolder: join(spec.folder, "run"),
      }),
    ),
    ...(spec.apiServerArguments ?? []),
  ];
  const serve = (): Running => spawn(spec, "kube-apiserver", serverArguments);
  let apiServer = serve();
  const controllers: Running[] = [];
  const isReady = (): Promise<void> => waitUntilReady(kubectlSpec, readyTimeoutMs);
  await isReady();
  return {
    name: spec.name,
    keys,
    kubectl: openKubectl(kubectlSpec),
    kubeconfigs: { local, private: inSeed, public: anywhere },
    servers,
    startControllers: async () => {
      controllers.push(...(await startControllers(spec, keys, servers.local)));
    },
    restartApiServer: async () => {
      apiServer.kill("SIGKILL");
      await apiServer.exited;
      apiServer = serve();
      await isReady();
    },
    // Nothing here has state worth a graceful end: the data is on a tmpfs that goes away too.
    stop: async () => {
      const all = [...controllers, apiServer, etcd];
      for (const process of all) process.kill("SIGKILL");
      await Promise.all(all.map(({ exited }) => exited));
    },
  };
}

function spawn(spec: ControlPlaneSpec, program: string, args: readonly string[]): Running {
  return spec.namespace.spawn([spec.programs.hyperkube, ...args], {
    argv0: program,
    log: join(spec.logs, `${spec.name}-${program}.log`),
  });
}

async function issueAll(spec: ControlPlaneSpec, keys: ClusterKeys): Promise<void> {
  const names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"];
  const addresses = [spec.address, spec.publicAddress, spec.serviceAddress, "127.0.0.1"];
  await Promise.all([
    keys.issue("apiserver", {
      commonName: "kube-apiserver",
      hosts: [...new Set([...names, ...addresses])],
    }),
    keys.issue("kubelet-client", {
      commonName: "kube-apiserver-kubelet-client",
      organizations: ["system:masters"],
    }),
    keys.issue("front-proxy", { commonName: "front-proxy" }),
    keys.issue("admin", { commonName: "admin", organizations: ["system:masters"] }),
  ]);
}

async function startControllers(
  spec: ControlPlaneSpec,
  keys: ClusterKeys,
  server: string,
): Promise<readonly Running[]> {
  const conf = (name: string): Promise<string> => {
    const commonName = `system:${name}`;
    return keys.kubeconfig({ name, server, user: { kind: "certificate", commonName } });
  };
  const [manager, scheduler] = await Promise.all([
    conf("kube-controller-manager"),
    conf("kube-scheduler"),
  ]);
  const runFolder = join(spec.folder, "run");
  const flags = managerFlags({
    kubeconfig: manager,
    keys,
    controllers: spec.controllers,
    runFolder,
  });
  const started = [spawn(spec, "kube-controller-manager", flagList(flags))];
  if (spec.hasScheduler) {
    const flags = schedulerFlags({ kubeconfig: scheduler, runFolder });
    started.push(spawn(spec, "kube-scheduler", flagList(flags)));
  }
  return started;
}
