/** A gateway between a seed and a shoot in memory, on a machine in memory, for this room's tests. */

import type { IpAddress } from "#src/model/ip.ts";
import { publicKeyFromBytes, type PublicKey } from "#src/model/key.ts";
import { valueOf } from "#src/model/parsed.ts";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeHost } from "#src/host/fake-host.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import type { PathTarget } from "#src/host/path-proof.ts";
import { seededRandom } from "#src/host/random.ts";
import {
  LEASES,
  NODES,
  SECRETS,
  SERVICES,
  TUNNELS,
  TUNNEL_AGENTS,
} from "#src/ports/kube-resource.ts";
import type { KubeObject } from "#src/ports/kube.ts";
import { createEndLoop } from "#src/reconcile/end-loop.ts";
import type { GatewayConfig } from "./config.ts";
import { Gateway } from "./gateway.ts";
import { ShootView } from "./shoot-view.ts";
import { TunnelView } from "./tunnel-view.ts";

export const NAME = { namespace: "shoot--lab--alpha", name: "alpha" };
export const SECRET = { namespace: NAME.namespace, name: "alpha-xylem" };
export const MASTER = Buffer.alloc(32, 7).toString("base64");

export const CONFIG: GatewayConfig = {
  seedKubeconfig: null,
  shootKubeconfig: "shoot.kubeconfig",
  namespace: NAME.namespace,
  tunnel: NAME.name,
  identity: "uid-of-the-pod",
  stateDir: null,
  paths: 4,
  discoverPods: null,
  interface: "xylem0",
  offload: true,
  statusAddress: "127.0.0.1",
  statusPort: 0,
  logLevel: "info",
};

/** The public key of node `n`. */
export const keyOf = (n: number): PublicKey =>
  valueOf(publicKeyFromBytes(new Uint8Array(32).fill(n)));

export const tunnel = (spec: object = {}): KubeObject => ({
  metadata: NAME,
  spec: {
    ranges: { nodes: ["10.250.0.0/20"], pods: ["10.222.0.0/17"], services: ["10.97.0.0/22"] },
    ...spec,
  },
});

export const secret = (master = MASTER): KubeObject => ({ metadata: SECRET, data: { master } });

export const node = (n: number, isReady = true): KubeObject => ({
  metadata: { name: `n${n}` },
  spec: { podCIDRs: [`10.222.${n}.0/24`] },
  status: {
    addresses: [{ type: "InternalIP", address: `10.250.0.${n}` }],
    conditions: [{ type: "Ready", status: isReady ? "True" : "False" }],
  },
});

export const agent = (n: number, spec: object = {}): KubeObject => ({
  metadata: { namespace: "kube-system", name: `n${n}` },
  spec: { publicKey: keyOf(n), agentId: 100 + n, port: 51820, version: "0.1.0", ...spec },
});

export const service = (): KubeObject => ({
  metadata: { namespace: "kube-system", name: "xylem-agent" },
  spec: { ports: [{ port: 51820, protocol: "UDP" }] },
  status: { loadBalancer: { ingress: [{ ip: "192.0.2.10" }] } },
});

/** Answers proofs as a test tells it, instead of the kernel and the far end. */
export class FakePaths {
  /** Null: routes lead into the tunnel. */
  wrongWay: string | null = null;
  /** Null: connections are answered; "never": the answer does not come. */
  noAnswer: string | null = null;
  readonly asked: PathTarget[] = [];
  /** Proofs that wait, when `isHeld`. */
  readonly held: ((problem: string | null) => void)[] = [];
  isHeld = false;

  proveRoute(): Promise<string | null> {
    return Promise.resolve(this.wrongWay);
  }

  provePath(target: PathTarget): Promise<string | null> {
    this.asked.push(target);
    if (!this.isHeld) return Promise.resolve(this.noAnswer);
    return new Promise((resolve) => this.held.push(resolve));
  }
}

/** Nothing is stored; `start` begins the gateway's life. */
export const world = () => {
  const clock = new FakeClock();
  const log = new FakeLog();
  const seed = new FakeKube({ clock, log });
  const shoot = new FakeKube({ clock, log });
  const host = new FakeHost();
  const paths = new FakePaths();
  /** What the pod needs in the seed. */
  const needed: IpAddress[] = [];
  const strictInterfaces: string[] = [];
  const start = () => {
    const common = { clock, random: seededRandom(1), log };
    const passes: { writes: number; isReached: boolean }[] = [];
    const trigger = (reason: string): void => void loop.trigger(reason);
    const { network, firewall, devices } = host;
    const tunnels = new TunnelView({ ...common, config: CONFIG, kube: seed, onChange: trigger });
    const gateway = new Gateway({
      config: CONFIG,
      ports: { network, firewall, devices, log },
      tunnels,
      shoot: new ShootView(shoot, trigger),
      paths,
      pod: () => Promise.resolve({ needed, strictInterfaces }),
      clock,
      log,
      trigger,
    });
    const loop = createEndLoop({
      ...common,
      name: "gateway",
      pass: (reasons) => gateway.reconcile(reasons),
      onPass: (done) => passes.push(done),
    });
    loop.trigger("start");
    const stop = async (): Promise<void> => {
      await loop.stop();
      await gateway.close();
      await tunnels.close();
      for (const kube of [seed, shoot]) kube.close();
    };
    return { gateway, tunnels, passes, stop };
  };
  const leases = (): readonly KubeObject[] => seed.peekAll(LEASES);
  return { clock, log, seed, shoot, host, paths, needed, strictInterfaces, start, leases };
};

/** A gateway that is ready, with two nodes. */
export const readyWorld = async () => {
  const made = world();
  made.seed.seed(TUNNELS, tunnel());
  made.seed.seed(SECRETS, secret());
  made.shoot.seed(NODES, node(1), node(2));
  made.shoot.seed(TUNNEL_AGENTS, agent(1), agent(2));
  made.shoot.seed(SERVICES, service());
  const started = made.start();
  await made.clock.advance(2_000);
  return { ...made, ...started };
};
