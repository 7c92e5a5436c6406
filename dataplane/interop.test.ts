/** Our device against wireguard-go, over its own control socket: both ends begin, keys are renewed, 10,000 pings. Needs root and XYLEM_WIREGUARD_GO. */

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import { PORT, TunnelPair, type KeyPair } from "./tunnel-pair.ts";

/** `npm test` names the one that it has built. */
const binary = process.env["XYLEM_WIREGUARD_GO"] ?? "wireguard-go";

const reason = (): string | false => {
  if (process.getuid?.() !== 0) return "needs root";
  if (spawnSync("test", ["-c", "/dev/net/tun"]).status !== 0) return "needs /dev/net/tun";
  try {
    accessSync(binary, constants.X_OK);
    return false;
  } catch {
    return `needs wireguard-go: run it through npm test, or set XYLEM_WIREGUARD_GO`;
  }
};
const skip = reason();

const hex = (text: string): string => Buffer.from(text, "base64").toString("hex");

/** wireguard-go in one of the pair's namespaces. */
class Foreign {
  readonly #child: ChildProcess;
  readonly #socket: string;

  private constructor(child: ChildProcess, socket: string) {
    this.#child = child;
    this.#socket = socket;
  }

  static async start(namespace: string, link: string): Promise<Foreign> {
    const command = [`--net=/run/netns/${namespace}`, binary, "--foreground", link];
    const child = spawn("nsenter", command, {
      stdio: "ignore",
      env: { ...process.env, WG_PROCESS_FOREGROUND: "1", LOG_LEVEL: "error" },
    });
    const socket = `/var/run/wireguard/${link}.sock`;
    while (!existsSync(socket)) {
      if (child.exitCode !== null) throw new Error(`wireguard-go ended with ${child.exitCode}`);
      await after(20);
    }
    return new Foreign(child, socket);
  }

  /** One exchange of the cross-platform userspace protocol. */
  async command(text: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const socket = connect(this.#socket, () => socket.write(`${text}\n\n`));
      let answer = "";
      socket.setEncoding("utf8").on("error", reject);
      socket.on("data", (part: string) => {
        answer += part;
        if (!answer.endsWith("\n\n")) return;
        socket.end();
        if (answer.includes("errno=0")) resolve(answer);
        else reject(new Error(answer));
      });
    });
  }

  async configure(options: {
    own: KeyPair;
    peer: string;
    endpoint: string | null;
    allowedIps: readonly string[];
    port: number;
  }): Promise<void> {
    const own = Buffer.from(options.own.privateKey, "base64url").toString("hex");
    const endpoint = options.endpoint === null ? [] : [`endpoint=${options.endpoint}`];
    const lines = [
      "set=1",
      `private_key=${own}`,
      `listen_port=${options.port}`,
      "replace_peers=true",
      `public_key=${hex(options.peer)}`,
      ...endpoint,
      ...options.allowedIps.map((ip) => `allowed_ip=${ip}`),
    ];
    await this.command(lines.join("\n"));
  }

  async stop(): Promise<void> {
    const exited = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.kill("SIGTERM");
    await exited;
  }
}

const link = `xw${process.pid % 100_000}`;

/** Our gateway and a wireguard-go agent; `begins` has the other's endpoint. */
const open = async (begins: "gateway" | "agent", outer: "ipv4" | "ipv6") => {
  const pair = await TunnelPair.open({ outer, sides: ["gateway"], gatewayPort: PORT });
  const foreign = await Foreign.start(pair.namespaces.agent, link);
  await foreign.configure({
    own: pair.keys.agent,
    peer: pair.keys.gateway.publicKey,
    endpoint: begins === "agent" ? pair.endpoint("gateway") : null,
    allowedIps: ["10.99.0.1/32", "fd99::1/128"],
    port: PORT,
  });
  pair.configure("agent", link);
  const desired = pair.desired("gateway");
  const peers =
    begins === "agent" ? desired.peers.map((p) => ({ ...p, endpoint: null })) : desired.peers;
  await pair.gateway.set({ ...desired, peers });
  const close = async (): Promise<void> => {
    await foreign.stop();
    await pair.close();
  };
  return { pair, foreign, close };
};

t.test("with wireguard-go", { skip, timeout: 400_000 }, async (t) => {
  for (const outer of ["ipv4", "ipv6"] as const) {
    t.test(`our end begins over ${outer}: every one of 10,000 pings is answered`, async (t) => {
      const { pair, close } = await open("gateway", outer);
      t.teardown(close);
      pair.greet("gateway", "10.99.0.2");
      const before = await pair.gateway.stats();
      const flood = pair.startPing("gateway", "10.99.0.2", ["-c", "10000", "-i", "0.002"]);
      const result = await flood.done;
      t.match(result, { sent: 10_000, received: 10_000 });
      if (result.received !== 10_000) t.comment(result.output, await pair.gateway.stats());
      t.match(pair.ping("gateway", "fd99::2", 3), { received: 3 });
      t.match(pair.ping("agent", "10.99.0.1", 3), { received: 3 });
      const { counters, paths } = await pair.gateway.stats();
      t.equal(counters["drop_refused"], 0);
      t.strictSame(paths, before.paths, "a peer that answers no probes makes no path suspect");
    });
  }

  t.test("the foreign end begins: its random index is answered with ours", async (t) => {
    const { pair, close } = await open("agent", "ipv4");
    t.teardown(close);
    t.match(pair.ping("agent", "10.99.0.1", 5), { received: 5 });
    const { index = 0 } = await pair.gateway.event("handshake");
    t.equal(index >>> 16, 4711);
    t.match(pair.ping("gateway", "10.99.0.2", 5), { received: 5 });
    t.match(pair.ping("agent", "fd99::1", 5), { received: 5 });
  });

  t.test(
    "keys are renewed after two minutes and no ping is lost",
    { skip: process.env["XYLEM_SLOW"] === undefined ? "takes 135 s: set XYLEM_SLOW" : false },
    async (t) => {
      const { pair, close } = await open("gateway", "ipv4");
      t.teardown(close);
      pair.greet("gateway", "10.99.0.2");
      const pings = pair.startPing("gateway", "10.99.0.2", ["-c", "1350", "-i", "0.1"]);
      t.match(await pings.done, { sent: 1350, received: 1350 });
      const made = pair.gateway.events.filter((e) => e.kind === "handshake");
      t.ok(made.length >= 2, `${made.length} handshakes`);
      t.ok(
        made.every((e) => (e.index ?? 0) >>> 8 === ((4711 << 8) | 3)),
        "every session has our index",
      );
    },
  );
});
