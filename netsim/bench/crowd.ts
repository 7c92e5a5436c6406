/** Makes a shoot look big: Nodes without machines and the TunnelAgents that they would have registered. */

import { randomBytes } from "node:crypto";
import { preferredAgentId } from "#src/plan/agent-id-plan.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import { asList, type Manifest } from "#netsim/cluster/workloads.ts";
import type { EndStatus, ProductProgram } from "#netsim/cluster/product.ts";
import type { Kubectl } from "#netsim/cluster/kubectl.ts";
import type { BenchCluster } from "./bench-cluster.ts";

const createTimeoutMs = 300_000;
const seenTimeoutMs = 180_000;
const settleTimeoutMs = 300_000;
/** Several kubectl side by side: each limits its own requests. */
const writers = 4;

/**
 * Makes as many Nodes as are missing to `count` and resolves when the gateway has them as peers. The product is stopped
 * meanwhile: a thousand nodes do not join within a minute, and following each of them would be measured as rest.
 */
export const makeCrowd = async (bench: BenchCluster, count: number): Promise<void> => {
  const { cluster, product, say } = bench;
  const real = cluster.site.nodes.map(({ name }) => name);
  say(`making ${count - real.length} nodes without machines`);
  await product.stop();
  const taken = new Set<number>(real.map(preferredAgentId));
  const objects = Array.from({ length: count - real.length }, (_, index) =>
    crowdMember(index, taken),
  );
  const share = Math.ceil(objects.length / writers);
  await Promise.all(
    Array.from({ length: writers }, async (_, writer) => {
      const items = objects.slice(writer * share, (writer + 1) * share).flat();
      const create = ["create", "--validate=false", "-f", "-"];
      const options = { input: asList(items), timeoutMs: createTimeoutMs };
      await cluster.shoot.kubectl.run(create, options);
    }),
  );
  await settles(cluster.shoot.kubectl);
  say("nobody writes to the nodes without machines any more");
  await product.start();
  await takesIn(product.gateways.apiserver, (status) => status.device?.peers.length === count);
  say(`the gateway has ${count} peers`);
};

/** The node lifecycle controller looks after every new Node, ten a second; each write is an event for all who watch. */
const settles = async (kubectl: Kubectl): Promise<void> => {
  const versions = async (): Promise<string> => {
    const path = "{range .items[*]}{.metadata.name} {.metadata.resourceVersion}{'\\n'}{end}";
    const { stdout } = await kubectl.run(["get", "nodes", "-o", `jsonpath=${path}`]);
    return stdout.replaceAll(/^node.*\n/gm, "");
  };
  let before = await versions();
  await waitFor(
    "the nodes without machines are left alone",
    async () => {
      const now = await versions();
      const isQuiet = now === before;
      before = now;
      return isQuiet;
    },
    { timeoutMs: settleTimeoutMs, intervalMs: 10_000 },
  );
};

const takesIn = async (
  program: ProductProgram,
  isDone: (status: EndStatus) => boolean,
): Promise<void> => {
  await waitFor(
    `${program.name} has taken the crowd in`,
    async () => {
      const status = await program.status();
      if (status !== null && isDone(status)) return true;
      throw new Error(`${status?.device?.peers.length} peers`);
    },
    { timeoutMs: seenTimeoutMs, intervalMs: 1_000 },
  );
};

/**
 * One Node and its TunnelAgent, with addresses that are free in the drawing. The Node is in the state that the node
 * lifecycle controller would bring it to, so that nothing is left to write.
 */
const crowdMember = (index: number, taken: Set<number>): Manifest => {
  const name = `crowd${index}`;
  let agentId = 1 + index;
  while (taken.has(agentId)) agentId += 1000;
  taken.add(agentId);
  const podCidr = `10.128.${64 + Math.floor(index / 16)}.${(index % 16) * 16}/28`;
  const now = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const conditions = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"].map((type) => ({
    type,
    status: "Unknown",
    reason: "NodeStatusNeverUpdated",
    message: "Kubelet never posted node status.",
    lastHeartbeatTime: now,
    lastTransitionTime: now,
  }));
  const address = `10.250.${4 + Math.floor((index + 1) / 256)}.${(index + 1) % 256}`;
  const labels = {
    "kubernetes.io/hostname": name,
    "kubernetes.io/os": "linux",
    "beta.kubernetes.io/os": "linux",
  };
  const unreachable = { key: "node.kubernetes.io/unreachable", timeAdded: now };
  return [
    {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name, labels },
      spec: {
        podCIDR: podCidr,
        podCIDRs: [podCidr],
        taints: ["NoSchedule", "NoExecute"].map((effect) => ({ ...unreachable, effect })),
      },
      status: { addresses: [{ type: "InternalIP", address }], conditions },
    },
    {
      apiVersion: "xylem.dev/v1alpha1",
      kind: "TunnelAgent",
      metadata: { namespace: "kube-system", name },
      spec: {
        publicKey: randomBytes(32).toString("base64"),
        agentId,
        port: 51820,
        version: "0.1.0",
      },
    },
  ];
};
