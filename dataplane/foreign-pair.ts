/** A pair of which one end is wireguard-go, told over its own control socket. Needs root and XYLEM_WIREGUARD_GO. */

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as after } from "node:timers/promises";
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
/** Why the tests with wireguard-go are skipped; false: they are not. */
export const skip = reason();

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
export const openForeignPair = async (begins: "gateway" | "agent", outer: "ipv4" | "ipv6") => {
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
