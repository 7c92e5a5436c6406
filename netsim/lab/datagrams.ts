/** Sends numbered UDP datagrams through a lab and tells who answered, and what the answerer saw. */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import type { Namespace } from "./namespace.ts";
import type { Running } from "./process.ts";
import { waitFor } from "./wait.ts";

const program = fileURLToPath(new URL("datagram-program.ts", import.meta.url));

/** Starts to answer datagrams on a UDP port with the machine's name; resolves once it listens. */
export const startEcho = async (namespace: Namespace, port: number): Promise<Running> => {
  const log = `${namespace.machine}-echo-${port}.log`;
  const running = namespace.spawn(
    [process.execPath, program, "echo", `${port}`, namespace.machine],
    { log },
  );
  await waitFor(`${namespace.machine} answers on UDP ${port}`, () =>
    readFileSync(running.log, "utf8").includes("listening"),
  );
  return running;
};

export interface SendOptions {
  readonly address: string;
  readonly port: number;
  readonly count: number;
  /** Time between datagrams of one socket; default 10 ms. */
  readonly intervalMs?: number;
  /** How many sockets send at the same time, each `count` datagrams; default 1. */
  readonly sockets?: number;
  /** Default: any free port. With several sockets: the first of a run of ports. */
  readonly sourcePort?: number;
  /** How long to wait for the next answer when some are missing; default 1.5 s. */
  readonly waitMs?: number;
}

/** One answer as the sender got it. */
export interface Answer {
  /** The sender's socket, from 0, and the datagram's number on it, from 0. */
  readonly socket: number;
  readonly sequence: number;
  /** The machine that answered. */
  readonly machine: string;
  /** Where the answerer saw the datagram come from. */
  readonly seenAddress: string;
  readonly seenPort: number;
  /** Where the sender saw the answer come from. */
  readonly fromAddress: string;
  readonly fromPort: number;
}

/** Sends datagrams from a machine and returns the answers in the order of arrival. */
export const sendDatagrams = async (from: Namespace, options: SendOptions): Promise<Answer[]> => {
  const { stdout } = await from.run([process.execPath, program, "send", JSON.stringify(options)], {
    timeoutMs: options.count * (options.intervalMs ?? 10) + 15_000,
  });
  const answers: Answer[] = JSON.parse(stdout);
  return answers;
};

/** How many answers came from each machine. */
export const answersByMachine = (answers: readonly Answer[]): Readonly<Record<string, number>> => {
  const counts: Record<string, number> = {};
  for (const { machine } of answers) counts[machine] = (counts[machine] ?? 0) + 1;
  return counts;
};
