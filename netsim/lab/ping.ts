/** Pings at an interval and tells loss, round trip times and the longest silence. */

import type { Namespace } from "./namespace.ts";
import { runCommand } from "./process.ts";

export interface PingOptions {
  readonly count: number;
  /** Default 100 ms. */
  readonly intervalMs?: number;
  /** How long to wait for the last answer; default 1 s. */
  readonly waitMs?: number;
}

export interface PingReport {
  readonly sent: number;
  readonly received: number;
  readonly lost: number;
  readonly rttMsMin: number;
  readonly rttMsMedian: number;
  readonly rttMsMax: number;
  /** The longest run of unanswered pings, in time; 0 when none was lost. */
  readonly gapMsMax: number;
  /** Sequence numbers without an answer, from 0. */
  readonly lostSequences: readonly number[];
}

/** Pings and resolves when all is sent and answered or given up. Also when nothing answers: look at `received`. */
export const ping = async (
  from: Pick<Namespace, "run">,
  address: string,
  options: PingOptions,
): Promise<PingReport> => {
  const intervalMs = options.intervalMs ?? 100;
  const waitMs = options.waitMs ?? 1_000;
  const program = await pingProgram();
  const seconds = [`${intervalMs / 1_000}`, "-W", `${Math.ceil(waitMs / 1_000)}`];
  const argv = [...program.argv, "-c", `${options.count}`, "-i", ...seconds, address];
  const { stdout } = await from.run(argv, {
    check: false,
    timeoutMs: options.count * intervalMs + waitMs + 10_000,
  });
  return parsePing(stdout, {
    sent: options.count,
    intervalMs,
    firstSequence: program.firstSequence,
  });
};

export interface PingContext {
  readonly sent: number;
  readonly intervalMs: number;
  /** What the program calls its first ping. */
  readonly firstSequence: number;
}

/** Reads what ping of iputils or busybox has printed; duplicates count once. */
export const parsePing = (text: string, context: PingContext): PingReport => {
  const rtts = new Map<number, number>();
  for (const [, sequence, rtt] of text.matchAll(/seq=(\d+) ttl=\d+ time=([\d.]+) ms/g)) {
    const index = Number(sequence) - context.firstSequence;
    if (!rtts.has(index)) rtts.set(index, Number(rtt));
  }
  const lostSequences = Array.from({ length: context.sent }, (_, index) => index).filter(
    (index) => !rtts.has(index),
  );
  const sorted = [...rtts.values()].sort((a, b) => a - b);
  return {
    sent: context.sent,
    received: rtts.size,
    lost: lostSequences.length,
    rttMsMin: sorted[0] ?? Number.NaN,
    rttMsMedian: sorted[Math.floor(sorted.length / 2)] ?? Number.NaN,
    rttMsMax: sorted.at(-1) ?? Number.NaN,
    gapMsMax: longestRun(lostSequences) * context.intervalMs,
    lostSequences,
  };
};

const longestRun = (sequences: readonly number[]): number => {
  let longest = 0;
  let run = 0;
  let previous = Number.NaN;
  for (const sequence of sequences) {
    run = sequence === previous + 1 ? run + 1 : 1;
    longest = Math.max(longest, run);
    previous = sequence;
  }
  return longest;
};

interface PingProgram {
  readonly argv: readonly string[];
  readonly firstSequence: number;
}

let knownProgram: Promise<PingProgram> | undefined;

const pingProgram = (): Promise<PingProgram> => (knownProgram ??= findPing());

/** The ping of iputils where it is installed, else the one of busybox, which counts from 0. */
const findPing = async (): Promise<PingProgram> => {
  const { code } = await runCommand(["bash", "-c", "command -v ping"], { check: false });
  return code === 0
    ? { argv: ["ping", "-n"], firstSequence: 1 }
    : { argv: ["busybox", "ping"], firstSequence: 0 };
};
