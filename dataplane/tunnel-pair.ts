/** A gateway and an agent, each a process in its own network namespace, joined by one veth pair: for tests of the data plane. */

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { setTimeout as after } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type {
  NativeDesired,
  NativeEvent,
  NativeForwardOptions,
  NativeOptions,
  NativeReport,
  NativeStats,
} from "./index.js";

export type Side = "gateway" | "agent";

/** A key pair as WireGuard writes it. */
export interface KeyPair {
  /** Base64url, as it goes over the process boundary. */
  readonly privateKey: string;
  /** Base64. */
  readonly publicKey: string;
}

export const newKeyPair = (): KeyPair => {
  const jwk = generateKeyPairSync("x25519").privateKey.export({ format: "jwk" });
  const publicKey = Buffer.from(jwk.x ?? "", "base64url").toString("base64");
  return { privateKey: jwk.d ?? "", publicKey };
};

interface Answer {
  readonly id?: number;
  readonly value?: unknown;
  readonly error?: { readonly code?: string; readonly message: string };
  readonly event?: NativeEvent;
}

const program = fileURLToPath(new URL("device-process.ts", import.meta.url));

/** Runs what follows as nobody: without any capability, and where there is no /dev/net/tun. */
const AS_NOBODY = [
  "unshare",
  "--mount",
  "sh",
  "-c",
  'mount -t tmpfs tmpfs /dev/net && exec setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --inh-caps=-all "$@"',
  "sh",
];

/** A device in a process of its own, inside a network namespace. */
export class DeviceProcess {
  readonly child: ChildProcess;
  readonly events: NativeEvent[] = [];
  #next = 0;
  #waiting = new Map<number, (answer: Answer) => void>();
  #watchers = new Set<() => void>();

  constructor(namespace: string, asNobody = false) {
    const command = [...(asNobody ? AS_NOBODY : []), process.execPath, program];
    this.child = spawn("nsenter", [`--net=/run/netns/${namespace}`, ...command], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    this.child.on("message", (answer: Answer) => this.#take(answer));
    this.child.once("exit", () => {
      const error = { message: "the device's process ended" };
      for (const id of this.#waiting.keys()) this.#take({ id, error });
    });
  }

  #take(answer: Answer): void {
    if (answer.event !== undefined) {
      this.events.push(answer.event);
      for (const watcher of this.#watchers) watcher();
    }
    if (answer.id !== undefined) {
      this.#waiting.get(answer.id)?.(answer);
      this.#waiting.delete(answer.id);
    }
  }

  async #call(method: string, argument: unknown): Promise<unknown> {
    const id = this.#next++;
    const answered = new Promise<Answer>((resolve) => this.#waiting.set(id, resolve));
    this.child.send({ id, method, argument }, (error) => {
      if (error !== null) this.#take({ id, error: { message: error.message } });
    });
    const { value, error } = await answered;
    if (error !== undefined) throw Object.assign(new Error(error.message), { code: error.code });
    return value;
  }

  async open(options: Omit<NativeOptions, "privateKey"> & { privateKey: string }): Promise<void> {
    await this.#call("open", options);
  }

  async set(desired: NativeDesired): Promise<NativeReport> {
    return (await this.#call("set", desired)) as NativeReport;
  }

  async stats(): Promise<NativeStats> {
    return (await this.#call("stats", null)) as NativeStats;
  }

  /** Resolves with the port that is listened on. */
  async forward(options: NativeForwardOptions): Promise<number | null> {
    return (await this.#call("forward", options)) as number | null;
  }

  /** Ends the forward that listens there. */
  async unforward(listen: string): Promise<void> {
    await this.#call("unforward", listen);
  }

  async close(): Promise<void> {
    await this.#call("close", null);
  }

  /** Waits for the first event of a kind, also one that came already. */
  async event(kind: NativeEvent["kind"]): Promise<NativeEvent> {
    for (;;) {
      const found = this.events.find((e) => e.kind === kind);
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => {
        const watcher = (): void => {
          this.#watchers.delete(watcher);
          resolve();
        };
        this.#watchers.add(watcher);
      });
    }
  }

  /** Lets go of the process without closing the device; resolves with its exit code. */
  async leave(): Promise<number | null> {
    const exited = new Promise<number | null>((resolve) => this.child.once("exit", resolve));
    this.child.disconnect();
    return exited;
  }

  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGKILL");
    await exited;
  }
}

export interface PingResult {
  readonly sent: number;
  readonly received: number;
  readonly output: string;
}

const pingResult = (output: string): PingResult => {
  const found = /(\d+) packets transmitted, (\d+) (?:packets )?received/u.exec(output);
  return { sent: Number(found?.[1] ?? 0), received: Number(found?.[2] ?? 0), output };
};

const sh = (command: readonly string[]): void => {
  const [name = "", ...args] = command;
  const { status, stderr } = spawnSync(name, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${command.join(" ")}: ${stderr}`);
};

const OUTER = {
  ipv4: { gateway: "192.0.2.1", agent: "192.0.2.2", length: 24 },
  ipv6: { gateway: "2001:db8::1", agent: "2001:db8::2", length: 64 },
} as const;

const INNER = {
  gateway: ["10.99.0.1", "fd99::1"],
  agent: ["10.99.0.2", "fd99::2"],
} as const;

export const AGENT_ID = 4711;
export const SLOT = 3;
export const PORT = 51_820;

export interface PairOptions {
  readonly outer: keyof typeof OUTER;
  /** Where our devices run, both when left out; something else may run on the other. */
  readonly sides?: readonly Side[];
  /** True when left out. */
  readonly offload?: boolean;
  /** The gateway's UDP port; any when left out. */
  readonly gatewayPort?: number;
  /** True: the gateway has no TUN and runs as nobody. */
  readonly noTun?: boolean;
}

/**
 * ```
 *  gateway netns                          agent netns
 *  xylem0 10.99.0.1 fd99::1               xylem0 10.99.0.2 fd99::2
 *  veth0 192.0.2.1 2001:db8::1 ---------- veth0 192.0.2.2 2001:db8::2
 * ```
 */
export class TunnelPair {
  gateway: DeviceProcess;
  agent: DeviceProcess;
  readonly keys = { gateway: newKeyPair(), agent: newKeyPair() };
  readonly namespaces: Readonly<Record<Side, string>>;
  readonly #outer: keyof typeof OUTER;
  readonly #offload: boolean;
  readonly #noTun: boolean;

  private constructor({ outer, offload = true, noTun = false }: PairOptions) {
    const tag = randomBytes(3).toString("hex");
    this.#outer = outer;
    this.#offload = offload;
    this.#noTun = noTun;
    this.namespaces = { gateway: `xdg-${tag}`, agent: `xda-${tag}` };
    const { gateway, agent } = this.namespaces;
    for (const name of [gateway, agent]) sh(["ip", "netns", "add", name]);
    sh([
      "ip",
      "-n",
      gateway,
      "link",
      "add",
      "veth0",
      "type",
      "veth",
      "peer",
      "veth0",
      "netns",
      agent,
    ]);
    for (const side of ["gateway", "agent"] as const) {
      for (const at of [OUTER.ipv4, OUTER.ipv6]) {
        const address = `${at[side]}/${at.length}`;
        const nodad = address.includes(":") ? ["nodad"] : [];
        sh(["ip", "-n", this.namespaces[side], "addr", "add", address, "dev", "veth0", ...nodad]);
      }
      for (const link of ["lo", "veth0"])
        sh(["ip", "-n", this.namespaces[side], "link", "set", link, "up"]);
    }
    this.gateway = new DeviceProcess(gateway, noTun);
    this.agent = new DeviceProcess(agent);
  }

  static async open(options: PairOptions): Promise<TunnelPair> {
    const pair = new TunnelPair(options);
    try {
      // A fresh veth may take a second to find its IPv6 neighbour.
      pair.greet("gateway", OUTER[options.outer].agent);
      for (const side of options.sides ?? (["agent", "gateway"] as const)) {
        await pair.#start(side, side === "agent" ? PORT : (options.gatewayPort ?? 0));
      }
    } catch (error) {
      await pair.close();
      throw error;
    }
    return pair;
  }

  async #start(side: Side, listenPort: number): Promise<void> {
    const isStack = this.#noTun && side === "gateway";
    await this[side].open({
      kind: side,
      agentId: AGENT_ID,
      slot: SLOT,
      privateKey: this.keys[side].privateKey,
      ...(isStack ? { interface: null, addresses: INNER[side] } : { interface: "xylem0" }),
      mtu: 1380,
      listenPort,
      paths: side === "agent" ? 1 : 3,
      offload: this.#offload,
    });
    if (!isStack) this.configure(side, "xylem0");
    await this[side].set(this.desired(side));
  }

  /** Kills the agent's process without a word and starts another with the same key. */
  async restartAgent(): Promise<void> {
    await this.agent.kill();
    this.agent = new DeviceProcess(this.namespaces.agent);
    await this.#start("agent", PORT);
  }

  /** Addresses and routes of an inner interface. */
  configure(side: Side, link: string): void {
    const namespace = this.namespaces[side];
    for (const address of INNER[side]) {
      const [length, flag] = address.includes(":") ? [64, ["nodad"]] : [24, []];
      sh(["ip", "-n", namespace, "addr", "add", `${address}/${length}`, "dev", link, ...flag]);
    }
    sh(["ip", "-n", namespace, "link", "set", link, "mtu", "1380", "up"]);
  }

  desired(side: Side): NativeDesired {
    const other = side === "gateway" ? "agent" : "gateway";
    return {
      peers: [
        {
          publicKey: this.keys[other].publicKey,
          agentId: AGENT_ID,
          slot: SLOT,
          endpoint: side === "gateway" ? this.endpoint("agent") : null,
          allowedIps: INNER[other].map((a) => (a.includes(":") ? `${a}/128` : `${a}/32`)),
        },
      ],
      steering: [],
    };
  }

  endpoint(side: Side): string {
    const address = OUTER[this.#outer][side];
    return address.includes(":") ? `[${address}]:${PORT}` : `${address}:${PORT}`;
  }

  run(
    side: Side,
    command: readonly string[],
  ): { status: number | null; stdout: string; stderr: string } {
    const args = [`--net=/run/netns/${this.namespaces[side]}`, ...command];
    return spawnSync("nsenter", args, { encoding: "utf8" });
  }

  /** Runs a Node program on one side; resolves with what it printed. */
  async start(side: Side, program: readonly string[]): Promise<string> {
    const netns = `--net=/run/netns/${this.namespaces[side]}`;
    const args = [netns, "timeout", "300", process.execPath, ...program];
    const child = spawn("nsenter", args, { stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    await new Promise((resolve) => child.once("close", resolve));
    return output;
  }

  /** Waits until a TCP port is listened on. */
  async waitForListener(side: Side, port: number): Promise<void> {
    for (let tries = 0; tries < 1_500; tries += 1) {
      if (this.run(side, ["ss", "-Hltn", `sport = :${port}`]).stdout !== "") return;
      await after(20);
    }
    throw new Error(`nobody listens on port ${port} of the ${side}`);
  }

  ping(side: Side, to: string, count: number): PingResult {
    return pingResult(
      this.run(side, ["ping", "-n", "-c", `${count}`, "-i", "0.05", "-W", "2", to]).stdout,
    );
  }

  /** Pings until one is answered: the kernel may need a second to find its neighbour. */
  greet(side: Side, to: string): void {
    for (let tries = 0; tries < 10; tries += 1) if (this.ping(side, to, 1).received === 1) return;
    throw new Error(`${to} does not answer the ${side}`);
  }

  startPing(
    side: Side,
    to: string,
    args: readonly string[],
  ): { isDone(): boolean; done: Promise<PingResult>; stop(): void } {
    const command = [`--net=/run/netns/${this.namespaces[side]}`, "ping", "-n", "-q", ...args, to];
    const child = spawn("nsenter", command, { stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    const done = new Promise<PingResult>((resolve) =>
      child.once("close", () => resolve(pingResult(output))),
    );
    const stop = (): void => void child.kill("SIGINT");
    return { isDone: () => child.exitCode !== null, done, stop };
  }

  async close(): Promise<void> {
    await Promise.all([this.gateway.kill(), this.agent.kill()]);
    for (const name of Object.values(this.namespaces)) spawnSync("ip", ["netns", "del", name]);
  }
}
