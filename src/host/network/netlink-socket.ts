/** One rtnetlink socket: requests and dumps with typed errno, on the npm package `netlink` (docs/decisions/netlink.md). */

import { getSystemErrorName } from "node:util";
// Not the package's index: that loads the tables of nl80211, genl and wg too.
import { createNetlink, type NetlinkSocket } from "netlink/dist/netlink.js";
import { HostError } from "#src/ports/host-error.ts";
import { dumpRequest, NLM, NLMSG_ERROR, readErrno } from "./rtnetlink-messages.ts";

const NETLINK_ROUTE = 0;
/** Kernel answers are immediate; longer means that the answer was lost (receive buffer full). */
const REQUEST_TIMEOUT_MS = 5_000;
/** Bytes; a dump arrives in 32 KiB datagrams and the kernel waits for the reader. */
const BUFFER_BYTES = 1 << 20;
/** A dump that the kernel changed under us (NLM_F_DUMP_INTR) is read again at most this often. */
const DUMP_TRIES = 5;

/** Errno by name (`ENODEV`), which callers match instead of text. */
export interface NetlinkFailure {
  readonly errno: string;
}

/** The outcome of a request: the answers' bodies, or why the kernel refused. */
export type NetlinkAnswer =
  | { readonly ok: true; readonly bodies: readonly Buffer[] }
  | { readonly ok: false; readonly failure: NetlinkFailure };

type Messages = Awaited<ReturnType<NetlinkSocket["request"]>>[0];

/** A connection to the kernel of this process's network namespace. */
export class RtnetlinkSocket {
  readonly #socket: NetlinkSocket;
  /** The kernel runs one dump per socket (EBUSY else), so requests take turns. */
  #turn: Promise<unknown> = Promise.resolve();

  /** `family`: a number of linux/netlink.h; default: links, addresses, routes. */
  constructor(family = NETLINK_ROUTE) {
    try {
      this.#socket = createNetlink(family, {
        recvBufferSize: BUFFER_BYTES,
        sendBufferSize: BUFFER_BYTES,
      });
    } catch (cause) {
      throw new HostError(
        "unsupported",
        `A netlink socket of family ${family} can't be opened on this machine.`,
        { cause },
      );
    }
    // A lost datagram ends in the timeout of the request that waits for it.
    this.#socket.on("error", () => undefined);
    this.#socket.socket.on("error", () => undefined);
  }

  /** Sends one request and waits for its acknowledgement or answer. */
  async request(options: { type: number; flags: number; body: Buffer }): Promise<NetlinkAnswer> {
    const messages = await this.#send(options);
    for (const message of messages) {
      if (message.type !== NLMSG_ERROR) continue;
      const errno = readErrno(message.data);
      if (errno !== 0) return { ok: false, failure: { errno: getSystemErrorName(-errno) } };
    }
    return {
      ok: true,
      bodies: messages.filter((m) => m.type !== NLMSG_ERROR).map((m) => m.data),
    };
  }

  /** Reads a whole table; repeats when the kernel says that it changed meanwhile. */
  async dump(type: number): Promise<readonly Buffer[]> {
    for (let tries = 1; tries <= DUMP_TRIES; tries++) {
      const messages = await this.#send({ type, flags: NLM.dump, body: dumpRequest() });
      const refusal = messages.find((m) => m.type === NLMSG_ERROR && readErrno(m.data) !== 0);
      if (refusal !== undefined) {
        const errno = getSystemErrorName(-readErrno(refusal.data));
        throw new HostError("io", `The kernel refused to list its network state (${errno}).`);
      }
      const isInterrupted = messages.some((m) => (m.flags & NLM.dumpInterrupted) !== 0);
      if (!isInterrupted) return messages.map((m) => m.data);
    }
    throw new HostError(
      "io",
      "The kernel's network state changes faster than it can be listed; trying again later.",
    );
  }

  /** Closes the socket; nothing may be asked afterwards. */
  close(): void {
    this.#socket.close();
  }

  async #send(options: { type: number; flags: number; body: Buffer }): Promise<Messages> {
    const answer = this.#turn.then(() => this.#exchange(options));
    this.#turn = answer.catch(() => undefined);
    return answer;
  }

  async #exchange(options: { type: number; flags: number; body: Buffer }): Promise<Messages> {
    try {
      const [messages] = await this.#socket.request(options.type, options.body, {
        flags: options.flags,
        timeout: REQUEST_TIMEOUT_MS,
        checkError: false,
      });
      return messages;
    } catch (cause) {
      throw new HostError("io", "The kernel did not answer a netlink request.", { cause });
    }
  }
}
