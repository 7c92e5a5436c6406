/** A UDP load balancer in the kernel of its own namespace, with health checks from the lab's process. */

import { setTimeout as after } from "node:timers/promises";

import {
  type HealthPolicy,
  healthAtStart,
  stepHealth,
  type TargetHealth,
} from "./balancer-health.ts";
import {
  type Addresses,
  type BalancerState,
  balancerRules,
  balancerTable,
  families,
} from "./balancer-rules.ts";
import type { Namespace } from "./namespace.ts";
import { setUdpTimeout } from "./nat.ts";
import type { BalancerMode, BalancerSpec, Topology } from "./topology.ts";
import { portsOf, switchMachine } from "./wiring.ts";

const probeTimeoutMsDefault = 1_000;
const probeIntervalMsDefault = 1_000;
/** As nft lists them. */
const counterPattern = /counter (\S+) \{\s*packets (\d+) bytes (\d+)/g;
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
  /** Null: the balancer knows no IPv6. */
  address6(): string | null;
  readonly port: number;
  mode(): BalancerMode;
  setMode(mode: BalancerMode): Promise<void>;
  /** The targets that get packets now, by name; throws when the health check could not go on. */
  serving(): readonly string[];
  /** Gives packets to these targets only, and ends the health check. Flows of a target that left are forgotten. */
  setTargets(names: readonly string[]): Promise<void>;
  /** Spreads all flows anew over the same targets, live ones included. */
  rehash(): Promise<void>;
  /** Replaces the public address of the same family; nobody is told, the old one answers nothing any more. */
  moveAddress(address: string): Promise<void>;
  /** Forgets which flow goes to which target. */
  forgetFlows(): Promise<void>;
  /** Seconds after which an idle flow is forgotten. */
  setUdpTimeout(seconds: number): Promise<void>;
  /** Probes every target in a loop until `setTargets`, another check, or the lab's end. */
  startHealthCheck(check: HealthCheck): Promise<void>;
  /** A batch of datagrams that crosses as one (UDP GSO) counts once, unless the mode is per-packet. */
  counters(): Promise<Readonly<Record<string, TargetCounters>>>;
  /** Packets dropped because no target serves, and answers dropped because their flow is forgotten. */
  drops(): Promise<{ readonly noTarget: number; readonly stale: number }>;
  /** Ends the health check; the rules go with the namespace. */
  close(): Promise<void>;
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
  let watch: Watch | null = null;
  return {
    namespace: inside,
    port: spec.port,
    address: () => kernel.state.addresses.ip ?? "",
    address6: () => kernel.state.addresses.ip6 ?? null,
    mode: () => kernel.state.mode,
    serving: () => {
      const failure = watch?.failure() ?? null;
      if (failure !== null) throw failure;
      return kernel.state.serving;
    },
    setMode: (mode) => kernel.change({ mode }, { forget: "all" }),
    setTargets: async (names) => {
      await watch?.stop();
      watch = null;
      for (const name of names) {
        if (!(name in spec.targets)) throw new Error(`The balancer has no target "${name}".`);
      }
      await kernel.serve(names);
    },
    rehash: () => kernel.change({ hashSeed: kernel.state.hashSeed + 1 }, { forget: "all" }),
    moveAddress: (address) => kernel.moveAddress(address),
    forgetFlows: () => kernel.change({}, { forget: "all" }),
    setUdpTimeout: (seconds) => setUdpTimeout(inside, seconds),
    startHealthCheck: async (check) => {
      await watch?.stop();
      watch = watchHealth(kernel, check);
    },
    counters: () => kernel.counters(),
    drops: () => kernel.drops(),
    close: async () => {
      await watch?.stop();
    },
  };
};

const addressesOf = (each: {
  readonly address: string;
  readonly address6?: string;
}): Addresses => ({
  ip: each.address,
  ...(each.address6 === undefined ? {} : { ip6: each.address6 }),
});

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
      addresses: addressesOf(spec),
      port: spec.port,
      targetPort: spec.targetPort,
      targets: Object.fromEntries(
        Object.entries(spec.targets).map(([name, target]) => [name, addressesOf(target)]),
      ),
      serving: Object.keys(spec.targets),
      hashSeed: 1,
    };
  }

  async start(): Promise<void> {
    if (this.#udpTimeoutSeconds !== undefined)
      await setUdpTimeout(this.inside, this.#udpTimeoutSeconds);
    for (const address of Object.values(this.state.addresses)) await this.#address("add", address);
    await this.change({}, { forget: [] });
  }

  serve(names: readonly string[]): Promise<void> {
    const left = this.state.serving.filter((name) => !names.includes(name));
    return this.change({ serving: names }, { forget: left });
  }

  moveAddress(address: string): Promise<void> {
    const family = address.includes(":") ? "ip6" : "ip";
    const old = this.state.addresses[family];
    const addresses = { ...this.state.addresses, [family]: address };
    return this.change({ addresses }, { forget: "all" }, async () => {
      await this.#address("add", address);
      if (old !== undefined) await this.#address("del", old);
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

  /** The sums over both families. */
  async #readCounters(): Promise<Map<string, { packets: number; bytes: number }>> {
    const sums = new Map<string, { packets: number; bytes: number }>();
    for (const family of families.filter((each) => this.state.addresses[each] !== undefined)) {
      const argv = ["nft", "list", "counters", "table", family, balancerTable];
      const { stdout } = await this.inside.run(argv);
      for (const [, name = "", packets, bytes] of stdout.matchAll(counterPattern)) {
        const sum = sums.get(name) ?? { packets: 0, bytes: 0 };
        sums.set(name, {
          packets: sum.packets + Number(packets),
          bytes: sum.bytes + Number(bytes),
        });
      }
    }
    return sums;
  }

  async #address(verb: "add" | "del", address: string): Promise<void> {
    const size = address.includes(":") ? "128" : "32";
    const flags = verb === "add" && size === "128" ? ["nodad"] : [];
    await this.inside.run([
      "ip",
      "addr",
      verb,
      `${address}/${size}`,
      "dev",
      this.state.outside,
      ...flags,
    ]);
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
    for (const address of forget.flatMap((name) => Object.values(this.state.targets[name] ?? {}))) {
      const family = address.includes(":") ? "ipv6" : "ipv4";
      await this.inside.run(
        ["conntrack", "-D", "-f", family, "-p", "udp", "--reply-src", address],
        {
          check: false,
        },
      );
    }
  }
}

interface Watch {
  /** Why the check has ended by itself; null while it runs. */
  failure(): Error | null;
  /** Resolves when no probe is under way any more. */
  stop(): Promise<void>;
}

/** Probes until it is stopped; a round that is under way then changes nothing any more. */
const watchHealth = (kernel: KernelBalancer, check: HealthCheck): Watch => {
  const policy: HealthPolicy = {
    healthDelayMs: check.healthDelayMs ?? 0,
    recoverDelayMs: check.recoverDelayMs ?? 0,
  };
  const believed = new Map<string, TargetHealth>();
  const stopping = new AbortController();
  let failure: Error | null = null;
  const round = async (): Promise<void> => {
    const names = Object.keys(kernel.state.targets);
    const answers = await Promise.all(
      names.map(async (name) => [name, await probe(kernel, check, name)] as const),
    );
    if (stopping.signal.aborted) return;
    for (const [name, isHealthy] of answers) {
      const health = believed.get(name) ?? healthAtStart;
      believed.set(name, stepHealth(health, { isHealthy, nowMs: performance.now() }, policy));
    }
    const serving = names.filter((name) => believed.get(name)?.isServing ?? true);
    if (serving.join() !== kernel.state.serving.join()) await kernel.serve(serving);
  };
  const loop = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      await round();
      await after(check.intervalMs ?? probeIntervalMsDefault, undefined, {
        signal: stopping.signal,
      });
    }
  };
  const ended = loop().catch((cause: unknown) => {
    if (!stopping.signal.aborted) failure = new Error("The health check has failed.", { cause });
  });
  return {
    failure: () => failure,
    stop: () => {
      stopping.abort();
      return ended;
    },
  };
};

const probe = async (
  kernel: KernelBalancer,
  check: HealthCheck,
  name: string,
): Promise<boolean> => {
  if (typeof check.probe === "function") return check.probe(name);
  const address = kernel.state.targets[name]?.ip ?? "";
  const { code } = await kernel.inside
    .run(["bash", "-c", 'exec 3<>"/dev/tcp/$0/$1"', address, `${check.probe.tcpPort}`], {
      check: false,
      timeoutMs: probeTimeoutMsDefault,
    })
    .catch(() => ({ code: 1 }));
  return code === 0;
};
