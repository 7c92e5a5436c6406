/**
 * One tunnel end as a program of its own, inside one namespace of a lab: the real device, routes and filter, told by
 * the test what to hold. Speaks JSON lines over a Unix socket, which is found by path from every network namespace.
 *   node end-process.ts SOCKET
 */

import { rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { AddonDeviceFactory } from "#src/host/device/addon-device.ts";
import { NftFirewall } from "#src/host/firewall/nft-firewall.ts";
import { NetlinkNetwork } from "#src/host/network/netlink-network.ts";
import { parsePrivateKey } from "#src/model/key.ts";
import type { DeviceOptions } from "#src/ports/device.ts";
import { TunnelEnd, type TunnelEndDesired } from "#src/reconcile/tunnel-end.ts";

/** `privateKey` is base64: a key class does not cross a socket. */
export interface EndDesiredWire extends Omit<TunnelEndDesired, "options"> {
  readonly options: Omit<DeviceOptions, "privateKey"> & { readonly privateKey: string };
}

export type EndCall =
  | { readonly call: "apply"; readonly desired: EndDesiredWire }
  | { readonly call: "stats" }
  | { readonly call: "close" };

const readDesired = ({ options, ...rest }: EndDesiredWire): TunnelEndDesired => {
  const key = parsePrivateKey(Buffer.from(options.privateKey, "base64"));
  if (!key.ok) throw new Error(key.problem);
  return { ...rest, options: { ...options, privateKey: key.value } };
};

const serve = (socket: Socket, end: TunnelEnd): void => {
  const answer = async (line: string): Promise<void> => {
    const { id, ...call } = JSON.parse(line) as EndCall & { id: number };
    try {
      const result = await run(call, end);
      socket.write(`${JSON.stringify({ id, result })}\n`);
    } catch (error) {
      const { message, code } = error as Error & { code?: string };
      socket.write(`${JSON.stringify({ id, error: { message, code } })}\n`);
    }
  };
  // One after the other: a TunnelEnd is not made for concurrent calls.
  let last = Promise.resolve();
  createInterface({ input: socket }).on("line", (line) => {
    last = last.then(() => answer(line));
  });
};

const run = async (call: EndCall, end: TunnelEnd): Promise<unknown> => {
  switch (call.call) {
    case "apply": {
      const { writes, operations, errors } = await end.apply(readDesired(call.desired));
      return { writes, operations, errors: errors.map(({ code, message }) => ({ code, message })) };
    }
    case "stats":
      return end.stats();
    case "close":
      await end.close();
      return null;
  }
};

const [path] = process.argv.slice(2);
if (path === undefined) throw new Error("usage: end-process.ts SOCKET");
const quiet = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
const sockets = new Set<Socket>();
const end = new TunnelEnd(
  {
    network: new NetlinkNetwork(),
    firewall: new NftFirewall(),
    devices: new AddonDeviceFactory(),
    log: quiet,
  },
  (event) => {
    for (const socket of sockets) socket.write(`${JSON.stringify({ event })}\n`);
  },
);
rmSync(path, { force: true });
createServer((socket) => {
  sockets.add(socket);
  socket.on("close", () => sockets.delete(socket));
  socket.on("error", () => sockets.delete(socket));
  serve(socket, end);
}).listen(path);
