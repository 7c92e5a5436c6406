/** An agent on a node in memory, in a shoot in memory, for this room's tests. */

import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeHost } from "#src/host/fake-host.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { seededRandom } from "#src/host/random.ts";
import { publicKeyOf } from "#src/host/slot-keys.ts";
import { parsePrivateKey, publicKeyFromBytes } from "#src/model/key.ts";
import { valueOf } from "#src/model/parsed.ts";
import { preferredAgentId } from "#src/plan/agent-id-plan.ts";
import { NODES, TUNNEL_GATEWAYS } from "#src/ports/kube-resource.ts";
import type { KubeObject } from "#src/ports/kube.ts";
import { createEndLoop } from "#src/reconcile/end-loop.ts";
import { Agent } from "./agent.ts";
import { ClusterView } from "./cluster-view.ts";
import type { AgentConfig } from "./config.ts";

export const privateKey = valueOf(parsePrivateKey(new Uint8Array(32).fill(5)));
export const publicKey = publicKeyOf(privateKey);
export const GATEWAYS = { namespace: "kube-system", name: "xylem" };
/** The TunnelAgent of the agent's own node. */
export const OWN = { namespace: "kube-system", name: "n1" };
export const OWN_ID: number = preferredAgentId("n1");

const CONFIG: AgentConfig = {
  kubeconfig: null,
  node: "n1",
  keyFile: "agent.key",
  port: 51_820,
  interface: "xylem0",
  offload: true,
  statusAddress: "127.0.0.1",
  statusPort: 0,
  logLevel: "info",
};

/** The public key of slot or node `n`. */
export const keyOf = (n: number): string =>
  valueOf(publicKeyFromBytes(new Uint8Array(32).fill(100 + n)));

export const gateways = (spec: object = {}): KubeObject => ({
  metadata: GATEWAYS,
  spec: {
    slots: [0, 1].map((slot) => ({
      slot,
      publicKey: keyOf(slot),
      addresses: [`198.18.0.${slot + 1}`],
    })),
    transit: ["198.18.0.0/23"],
    ranges: { nodes: ["10.250.0.0/20"], pods: ["10.222.0.0/17"], services: ["10.97.0.0/22"] },
    mtu: 1380,
    ...spec,
  },
});

export const node = (n: number): KubeObject => ({
  metadata: { name: `n${n}`, uid: `uid-of-n${n}` },
  spec: { podCIDRs: [`10.222.${n}.0/24`] },
  status: {
    addresses: [{ type: "InternalIP", address: `10.250.0.${n}` }],
    conditions: [{ type: "Ready", status: "True" }],
  },
});

/** The TunnelAgent of another node. */
export const rival = (n: number, spec: object = {}, metadata: object = {}): KubeObject => ({
  metadata: { namespace: "kube-system", name: `n${n}`, ...metadata },
  spec: { publicKey: keyOf(n), agentId: 100 + n, port: 51820, version: "0.1.0", ...spec },
});

/** Nothing is stored; `start` begins the agent's life. */
export const world = () => {
  const clock = new FakeClock();
  const log = new FakeLog();
  const kube = new FakeKube({ clock, log });
  const host = new FakeHost();
  const start = () => {
    const passes: { writes: number; isReached: boolean }[] = [];
    const trigger = (reason: string): void => void loop.trigger(reason);
    const { network, firewall, devices } = host;
    const agent = new Agent({
      config: CONFIG,
      version: "0.1.0",
      ports: { network, firewall, devices, log },
      kube,
      cluster: new ClusterView(kube, () => clock.nowMs(), trigger),
      privateKey,
      publicKey,
      log,
      trigger,
    });
    const loop = createEndLoop({
      name: "agent",
      pass: () => agent.reconcile(),
      clock,
      random: seededRandom(1),
      log,
      onPass: (done) => passes.push(done),
    });
    loop.trigger("start");
    const stop = async (): Promise<void> => {
      await loop.stop();
      kube.close();
      await agent.close();
    };
    return { agent, passes, stop };
  };
  return { clock, log, kube, host, start };
};

/** An agent that is ready, on the first of two nodes. */
export const readyWorld = async () => {
  const made = world();
  made.kube.seed(NODES, node(1), node(2));
  made.kube.seed(TUNNEL_GATEWAYS, gateways());
  const started = made.start();
  await made.clock.advance(2_000);
  return { ...made, ...started };
};
