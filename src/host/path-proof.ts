/** Proves which way packets take: the kernel's own choice without a packet, and a connection that was answered. */

import { createSocket } from "node:dgram";
import { isIPv6 } from "node:net";
import { probeTcp } from "./tcp-probe.ts";

/** Any port will do: connect(2) on a UDP socket looks up the route and sends nothing. */
const ANY_PORT = 9;

/** The source address that the kernel would use towards `address`; null when there is no route. Sends no packet. */
export const localAddressTowards = (address: string): Promise<string | null> =>
  new Promise((resolve) => {
    const socket = createSocket(isIPv6(address) ? "udp6" : "udp4");
    const finish = (found: string | null): void => {
      socket.close();
      resolve(found);
    };
    socket.once("error", () => finish(null));
    // Not as connect's callback: that one also gets the failure, in place of the event.
    socket.once("connect", () => finish(socket.address().address));
    socket.connect(ANY_PORT, address);
  });

export interface PathTarget {
  readonly address: string;
  /** A port on which something listens, or which refuses: both are answers. */
  readonly port: number;
  readonly timeoutMs: number;
  /** The addresses that a packet through the tunnel has as its source. */
  readonly sources: readonly string[];
}

/** Both proofs as one thing that tests replace. */
export interface PathProver {
  proveRoute(target: Pick<PathTarget, "address" | "sources">): Promise<string | null>;
  provePath(target: PathTarget): Promise<string | null>;
}

/** Null: the path is proven; else the sentence that says what is wrong and what to do. */
export const provePath = async (target: PathTarget): Promise<string | null> => {
  const wrongWay = await proveRoute(target);
  if (wrongWay !== null) return wrongWay;
  const outcome = await probeTcp(target);
  if (outcome.kind === "connected" || outcome.code === "ECONNREFUSED") return null;
  return `no answer from ${target.address}:${target.port} through the tunnel (${outcome.code}): look whether UDP reaches the agents' balancer and whether an agent runs on that node`;
};

/** The half of `provePath` that sends nothing. */
export const proveRoute = async (
  target: Pick<PathTarget, "address" | "sources">,
): Promise<string | null> => {
  const local = await localAddressTowards(target.address);
  if (local !== null && target.sources.includes(local)) return null;
  const seen =
    local === null ? "there is no route" : `packets would leave with the source ${local}`;
  return `the way to ${target.address} does not lead through the tunnel (${seen} instead of ${target.sources.join(" or ")}): remove the route that is more specific than ours`;
};

export const realPathProver: PathProver = { proveRoute, provePath };
