/** wireguard-go between the seed's pod and one node of the drawing: the peer that the data plane is measured against. */

import { generateKeyPairSync } from "node:crypto";
import { existsSync } from "node:fs";
import { connect } from "node:net";
import type { Namespace } from "#netsim/lab/namespace.ts";
import type { Running } from "#netsim/lab/process.ts";
import { twoNetworksPlan } from "#netsim/lab/two-networks.ts";
import { waitFor } from "#netsim/lab/wait.ts";

const seedAddress = "198.18.0.1";
const stopGraceMs = 2_000;

export interface ForeignTunnel {
  readonly pids: readonly number[];
  readonly stop: () => Promise<void>;
}

export interface ForeignTunnelOptions {
  /** Path of wireguard-go. */
  readonly program: string;
  readonly seed: Namespace;
  readonly node: Namespace;
  readonly mtu: number;
}

interface KeyPair {
  readonly privateHex: string;
  readonly publicHex: string;
}

/** Starts both ends; the node's address is reached through them as through the product. */
export const startForeignTunnel = async (options: ForeignTunnelOptions): Promise<ForeignTunnel> => {
  const { program, seed, node, mtu } = options;
  const ends: Running[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(ends.map((end) => end.stop(stopGraceMs)));
  };
  try {
    const keys = { seed: newKeyPair(), node: newKeyPair() };
    const start = async (where: Namespace, link: string): Promise<void> => {
      const env = { WG_PROCESS_FOREGROUND: "1", LOG_LEVEL: "error" };
      ends.push(where.spawn([program, "--foreground", link], { log: `${link}.log`, env }));
      const socket = socketOf(link);
      await waitFor(`wireguard-go listens on ${socket}`, () => existsSync(socket));
    };
    const [seedLink, nodeLink] = ["s", "n"].map((end) => `xwg${process.pid}${end}`);
    if (seedLink === undefined || nodeLink === undefined)
      throw new Error("two ends have two names");
    await start(seed, seedLink);
    await start(node, nodeLink);
    const { balancerAddress, tunnelPort, nodeRange } = twoNetworksPlan;
    await configure(seedLink, [
      `private_key=${keys.seed.privateHex}`,
      `public_key=${keys.node.publicHex}`,
      `endpoint=${balancerAddress}:${tunnelPort}`,
      `allowed_ip=${nodeRange}`,
    ]);
    await configure(nodeLink, [
      `private_key=${keys.node.privateHex}`,
      `listen_port=${tunnelPort}`,
      `public_key=${keys.seed.publicHex}`,
      `allowed_ip=${seedAddress}/32`,
    ]);
    await batch(seed, [
      `addr add ${seedAddress}/32 dev ${seedLink}`,
      `link set ${seedLink} mtu ${mtu} up`,
      `route add ${nodeRange} dev ${seedLink} src ${seedAddress}`,
    ]);
    await batch(node, [
      `link set ${nodeLink} mtu ${mtu} up`,
      `route add ${seedAddress}/32 dev ${nodeLink}`,
    ]);
  } catch (error) {
    await stop();
    throw error;
  }
  return { pids: ends.map(({ pid }) => pid), stop };
};

const socketOf = (link: string): string => `/var/run/wireguard/${link}.sock`;

const newKeyPair = (): KeyPair => {
  const { d = "", x = "" } = generateKeyPairSync("x25519").privateKey.export({ format: "jwk" });
  const hex = (text: string): string => Buffer.from(text, "base64url").toString("hex");
  return { privateHex: hex(d), publicHex: hex(x) };
};

const batch = async (where: Namespace, lines: readonly string[]): Promise<void> => {
  await where.run(["ip", "-batch", "-"], { input: `${lines.join("\n")}\n` });
};

/** One `set` of the cross-platform userspace protocol (wireguard.com/xplatform); its socket is found by path. */
const configure = (link: string, lines: readonly string[]): Promise<void> =>
  new Promise((resolve, reject) => {
    const socket = connect(socketOf(link));
    let answer = "";
    socket.setTimeout(5_000, () => socket.destroy(new Error(`${link} does not answer`)));
    socket.setEncoding("utf8").on("error", reject);
    socket.on("connect", () => socket.write(`set=1\n${lines.join("\n")}\n\n`));
    socket.on("data", (part: string) => {
      answer += part;
      if (!answer.endsWith("\n\n")) return;
      socket.destroy();
      if (answer.includes("errno=0\n")) resolve();
      else reject(new Error(`wireguard-go refused the configuration of ${link}: ${answer.trim()}`));
    });
  });
