/** What tests do with a hosted control plane: look at its pods, ask one API server, ask all of them without a pause. */

import { setTimeout as after } from "node:timers/promises";
import { waitFor } from "#netsim/lab/wait.ts";
import { apiServerName } from "./hosted-control-plane.ts";
import { hostedApiServerPort, type HostedCluster } from "./hosted-cluster.ts";
import { webPod } from "./workloads.ts";

/** The parts of a Pod that tests read. */
export interface PodObject {
  readonly metadata: {
    readonly name: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly deletionTimestamp?: string;
  };
  readonly spec: {
    readonly initContainers?: readonly {
      readonly name: string;
      readonly restartPolicy?: string;
      readonly securityContext?: { readonly capabilities?: { readonly add?: readonly string[] } };
    }[];
  };
  readonly status: {
    readonly podIP?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly { readonly containerID?: string }[];
  };
}

const rolloutTimeoutMs = 180_000;
/** As many as a person who is patient would wait for an exec. */
const execTimeoutMs = 25_000;

/** The pods of a label, without those that are going. */
export async function livePods(
  kubectl: HostedCluster["shoot"]["kubectl"],
  options: { readonly namespace: string; readonly label: string },
): Promise<readonly PodObject[]> {
  const { namespace, label } = options;
  const { stdout } = await kubectl.run(["get", "pod", "-n", namespace, "-l", label, "-o", "json"]);
  const { items } = JSON.parse(stdout) as { items: readonly PodObject[] };
  return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

/** The API servers that serve or will. */
export function apiServers({ seed, namespace }: HostedCluster): Promise<readonly PodObject[]> {
  return livePods(seed.kubectl, { namespace, label: `app=${apiServerName}` });
}

/** Sets the number of pods of Deployments in the shoot's namespace. */
export async function scale(
  { seed, namespace }: HostedCluster,
  names: readonly string[],
  replicas: number,
): Promise<void> {
  const deployments = names.map((name) => `deployment/${name}`);
  await seed.kubectl.run(["scale", ...deployments, "-n", namespace, `--replicas=${replicas}`]);
}

/** Resolves when a Deployment or DaemonSet has the pods that it wants, all Ready. */
export async function rolledOut(
  kubectl: HostedCluster["shoot"]["kubectl"],
  what: string,
  namespace: string,
): Promise<void> {
  const args = ["rollout", "status", what, "-n", namespace, "--timeout=170s"];
  await kubectl.run(args, { timeoutMs: rolloutTimeoutMs });
}

/** One exec in the web pod of a node; the milliseconds that it took. Rejects with kubectl's words. */
export async function execOn(
  { shoot }: HostedCluster,
  node: string,
  options: { readonly timeoutMs?: number; readonly through?: PodObject } = {},
): Promise<number> {
  const { timeoutMs = execTimeoutMs, through } = options;
  const startMs = performance.now();
  const args = ["exec", webPod(node), "--", "true"];
  await shoot.kubectl.run([...serverFlags(through), ...args], { timeoutMs });
  return performance.now() - startMs;
}

/** Flags that make kubectl ask one API server and no other; its certificate does not name its pod. */
export function serverFlags(pod: PodObject | undefined): readonly string[] {
  if (pod === undefined) return [];
  const address = pod.status.podIP ?? "";
  return [`--server=https://${address}:${hostedApiServerPort}`, "--tls-server-name=kubernetes"];
}

/** Tries until an exec works on every node, each by short tries; the milliseconds until then. */
export async function execWorksEverywhere(
  cluster: HostedCluster,
  options: { readonly timeoutMs: number },
): Promise<number> {
  const startMs = performance.now();
  await Promise.all(
    cluster.nodes.map(({ name }) =>
      waitFor(
        `exec works on ${name}`,
        async () => (await execOn(cluster, name, { timeoutMs: 5_000 })) > 0,
        { timeoutMs: options.timeoutMs, intervalMs: 200 },
      ),
    ),
  );
  return performance.now() - startMs;
}

export interface LoadReport {
  readonly done: number;
  readonly longestMs: number;
  /** What kubectl said where an API server did not reach a node. */
  readonly unreached: readonly string[];
  /** What it said where it lost the API server itself, as every client of one that ends may. */
  readonly disconnected: readonly string[];
}

/** Execs without a pause, nodes in turn, each through the API server that the Service picks, while `work` runs. */
export async function underExecs(
  cluster: HostedCluster,
  work: () => Promise<void>,
): Promise<LoadReport> {
  const unreached: string[] = [];
  const disconnected: string[] = [];
  const tookMs: number[] = [];
  const state = { isOver: false };
  const asking = (async () => {
    for (let turn = 0; !state.isOver; turn += 1) {
      const node = cluster.nodes[turn % cluster.nodes.length]?.name ?? "";
      try {
        tookMs.push(await execOn(cluster, node));
      } catch (error) {
        const text = error instanceof Error ? error.message : String(error);
        const isOurs = /error dialing backend|did not end within/u.test(text);
        (isOurs ? unreached : disconnected).push(text.slice(-300));
      }
      await after(100);
    }
  })();
  try {
    await work();
  } finally {
    state.isOver = true;
    await asking;
  }
  return { done: tookMs.length, longestMs: Math.max(0, ...tookMs), unreached, disconnected };
}
