/** A UDP load balancer in the kernel of its own namespace, with health checks from the lab's process. */

import {
  type HealthPolicy,
  healthAtStart,
  stepHealth,
  type TargetHealth,
} from "./balancer-health.ts";
import { type BalancerState, balancerRules, balancerTable } from "./balancer-rules.ts";
import type { Namespace } from "./namespace.ts";
import { setUdpTimeout } from "./nat.ts";
import type { BalancerMode, BalancerSpec, Topology } from "./topology.ts";
import { portsOf, switchMachine } from "./wiring.ts";

const probeTimeoutMsDefault = 1_000;
const probeIntervalMsDefault = 1_000;
/** More than one segment: what a veth has when nobody limits it. */
const gsoSegmentsUnlimited = 65_535;

export interface TargetCounters {
  readonly packetsIn: number;
  readonly bytesIn: number;
  readonly packetsOut: number;
  readonly bytesOut: number;
}

export interface HealthCheck extends Partial<HealthPolicy> {
  /** Default 0: a target that fails one probe is taken out. A slow balancer has 60,000. */
  readonly healthDelayMs?: number;
  /** Default 0. */
  readonly recoverDelayMs?: number;
  /** Default 1 s. */
  readonly intervalMs?: number;
  /** A TCP port that answers on a healthy target, or the caller's own look. */
  readonly probe: { readonly tcpPort: number } | ((target: string) => boolean | Promise<boolean>);
}

export interface Balancer {
  readonly namespace: Namespace;
  /** The public address as it is now, without prefix length. */
  address(): string;
  readonly port: number;
  mode(): BalancerMode;
  setMode(mode: BalancerMode): Promise<void>;
  /** The targets that get packets now, by name. */
  serving(): readonly string[];
  /** Gives packets to these targets only, and ends the health check. Flows of a target that left are forgotten. */
  setTargets(names: readonly string[]): Promise<void>;
  /** Spreads all flows anew over the same targets, live ones included. */
  rehash(): Promise<void>;
  /** Replaces the public address; nobody is told, the old one answers nothing any more. */
  moveAddress(address: string): Promise<void>;
  /** Forgets which flow goes to which target. */
  forgetFlows(): Promise<void>;
  /** Seconds after which an idle flow is forgotten. */
  setUdpTimeout(seconds: number): Promise<void>;
  /** Probes every target in a loop until `setTargets`, another check, or the lab's end. */
  startHealthCheck(check: HealthCheck): void;
  counters(): Promise<Readonly<Record<string, TargetCounters>>>;
  /** Packets dropped because no target serves, and answers dropped because their flow is forgotten. */
  drops(): Promise<{ readonly noTarget: number; readonly stale: number }>;
  close(): void;
}

export interface BalancerOptions {
  readonly topology: Topology;
  readonly spec: BalancerSpec;
  readonly namespace: (machine: string) => Namespace;
}

/** Starts to balance as the spec says; all targets serve until a health check says otherwise. */
export const openBalancer = async (options: BalancerOptions): Promise<Balancer> => {
  const { spec } = options;
  const inside = options.namespace(spec.machine);
  const kernel = new KernelBalancer(options);
  await kernel.start();
  let stopCheck = (): void => {};
  return {
    namespace: inside,
    port: spec.port,
    address: () => kernel.state.address,
    mode: () => kernel.state.mode,
    serving: () => kernel.state.serving,
    setMode: (mode) => kernel.change({ mode }, { forget: "all" }),
    setTargets: (names) => {
      stopCheck();
      for (const name of names) {
        if (!(name in spec.targets)) throw new Error(`The balancer has no target "${name}".`);
      }
      return kernel.serve(names);
    },
    rehash: () => kernel.change({ hashSeed: kernel.state.hashSeed + 1 }, { forget: "all" }),
    moveAddress: (address) => kernel.moveAddress(address),
    forgetFlows: () => kernel.change({}, { forget: "all" }),
    setUdpTimeout: (seconds) => setUdpTimeout(inside, seconds),
    startHealthCheck: (check) => {
      stopCheck();
      stopCheck = watchHealth(kernel, check);
    },
    counters: () => kernel.counters(),
    drops: () => kernel.drops(),
    close: () => stopCheck(),
  };
};

type Forget = "all" | readonly string[];

/** Holds what the kernel was told and changes it one transaction after the other. */
class KernelBalancer {
  state: BalancerState;
  readonly inside: Namespace;
  readonly #switch: Namespace;
  /** The switch's end of the cable to the public side. */
  readonly #outsidePort: string;
  readonly #udpTimeoutSeconds: number | undefined;
  #queue: Promise<void> = Promise.resolve();

  constructor({ topology, spec, namespace }: BalancerOptions) {
    this.inside = namespace(spec.machine);
    this.#switch = namespace(switchMachine);
    this.#outsidePort =
      portsOf(topology).find(
        (each) => each.machine === spec.machine && each.interface === spec.outside,
      )?.port ?? "";
    this.#udpTimeoutSeconds = spec.udpTimeoutSeconds;
    this.state = {
      mode: spec.mode,
      outside: spec.outside,
      address: spec.address,
      port: spec.port,
      targetPort: spec.targetPort,
      targets: Object.fromEntries(
        Object.entries(spec.targets).map(([name, { address }]) => [name, address]),
      ),
      serving: Object.keys(spec.targets),
      hashSeed: 1,
    };
  }

  async start(): Promise<void> {
    if (this.#udpTimeoutSeconds !== undefined)
      await setUdpTimeout(this.inside, this.#udpTimeoutSeconds);
    await this.#address("add", this.state.address);
    await this.change({}, { forget: [] });
  }

  serve(names: readonly string[]): Promise<void> {
    if (this.state.mode === "moving") {
      return this.change({ serving: names, hashSeed: this.state.hashSeed + 1 }, { forget: "all" });
    }
    return this.change(
      { serving: names },
      { forget: this.state.serving.filter((name) => !names.includes(name)) },
    );
  }

  moveAddress(address: string): Promise<void> {
    const old = this.state.address;
    return this.change({ address }, { forget: "all" }, async () => {
      await this.#address("add", address);
      await this.#address("del", old);
    });
  }

  /** Rules first, then the flows that they no longer mean. */
  change(
    change: Partial<BalancerState>,
    { forget }: { readonly forget: Forget },
    before: () => Promise<void> = async () => {},
  ): Promise<void> {
    this.state = { ...this.state, ...change };
    const wanted = this.state;
    const done = this.#queue.then(async () => {
      await before();
      await this.#limitSegments(wanted.mode);
      await this.inside.run(["nft", "-f", "-"], { input: balancerRules(wanted) });
      await this.#forget(forget);
    });
    // The caller hears of a failure; the next change must not.
    this.#queue = done.catch(() => {});
    return done;
  }

  async counters(): Promise<Record<string, TargetCounters>> {
    const all = await this.#readCounters();
    return Object.fromEntries(
      Object.keys(this.state.targets).map((name) => {
        const into = all.get(`${name}_in`);
        const out = all.get(`${name}_out`);
        return [
          name,
          {
            packetsIn: into?.packets ?? 0,
            bytesIn: into?.bytes ?? 0,
            packetsOut: out?.packets ?? 0,
            bytesOut: out?.bytes ?? 0,
          },
        ];
      }),
    );
  }

  async drops(): Promise<{ noTarget: number; stale: number }> {
    const all = await this.#readCounters();
    return { noTarget: all.get("no_target")?.packets ?? 0, stale: all.get("stale")?.packets ?? 0 };
  }

  async #readCounters(): Promise<Map<string, { packets: number; bytes: number }>> {
    const { stdout } = await this.inside.run([
      "nft",
      "list",
      "counters",
      "table",
      "ip",
      balancerTable,
    ]);
    const counters = /counter (\S+) \{\s*packets (\d+) bytes (\d+)/g;
    return new Map(
      [...stdout.matchAll(counters)].map(([, name = "", packets, bytes]) => [
        name,
        { packets: Number(packets), bytes: Number(bytes) },
      ]),
    );
  }

  async #address(verb: "add" | "del", address: string): Promise<void> {
    await this.inside.run(["ip", "addr", verb, `${address}/32`, "dev", this.state.outside]);
  }

  /** A batch of datagrams that crosses as one (UDP GSO) would be balanced as one: per packet it must be cut first. */
  async #limitSegments(mode: BalancerMode): Promise<void> {
    const segments = mode === "per-packet" ? 1 : gsoSegmentsUnlimited;
    await this.#switch.run(["ip", "link", "set", this.#outsidePort, "gso_max_segs", `${segments}`]);
  }

  async #forget(forget: Forget): Promise<void> {
    // conntrack(8) ends with 1 when there was nothing to delete.
    if (forget === "all") {
      await this.inside.run(["conntrack", "-F"], { check: false });
      return;
    }
    for (const name of forget) {
      const address = this.state.targets[name];
      if (address === undefined) continue;
      await this.inside.run(["conntrack", "-D", "-p", "udp", "--reply-src", address], {
        check: false,
      });
    }
  }
}

/** Probes until the returned function is called; a probe that is under way then changes nothing any more. */
const watchHealth = (kernel: KernelBalancer, check: HealthCheck): (() => void) => {
  const policy: HealthPolicy = {
    healthDelayMs: check.healthDelayMs ?? 0,
    recoverDelayMs: check.recoverDelayMs ?? 0,
  };
  const believed = new Map<string, TargetHealth>();
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  const round = async (): Promise<void> => {
    const names = Object.keys(kernel.state.targets);
    const answers = await Promise.all(
      names.map(async (name) => [name, await probe(kernel, check, name)] as const),
    );
    if (isStopped) return;
    for (const [name, isHealthy] of answers) {
      const health = believed.get(name) ?? healthAtStart;
      believed.set(name, stepHealth(health, { isHealthy, nowMs: performance.now() }, policy));
    }
    const serving = names.filter((name) => believed.get(name)?.isServing ?? true);
    if (serving.join() !== kernel.state.serving.join()) await kernel.serve(serving);
  };
  const loop = (): void => {
    if (isStopped) return;
    round().then(
      () => {
        timer = setTimeout(loop, check.intervalMs ?? probeIntervalMsDefault);
      },
      () => {
        // The namespace is gone when the lab closes under a round; the loop ends with it.
        isStopped = true;
      },
    );
  };
  loop();
  return () => {
    isStopped = true;
    clearTimeout(timer);
  };
};

const probe = async (
  kernel: KernelBalancer,
  check: HealthCheck,
  name: string,
): Promise<boolean> => {
  if (typeof check.probe === "function") return check.probe(name);
  const address = kernel.state.targets[name] ?? "";
  const { code } = await kernel.inside
    .run(["bash", "-c", 'exec 3<>"/dev/tcp/$0/$1"', address, `${check.probe.tcpPort}`], {
      check: false,
      timeoutMs: probeTimeoutMsDefault,
    })
    .catch(() => ({ code: 1 }));
  return code === 0;
};
