/** Memory and CPU time of a process, from proc(5). */

import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { basename } from "node:path";

/** In MB of a million bytes. */
export interface Memory {
  /** Everything resident, shared files included. */
  readonly rss: number;
  /** Shared pages divided by those who share them. */
  readonly pss: number;
  /** What would be free again if the process ended. */
  readonly uss: number;
}

/** Reads the text of `/proc/PID/smaps_rollup`. */
export const parseMemory = (text: string): Memory => {
  const megabytes = (name: string): number =>
    (Number(new RegExp(`^${name}: +(\\d+) kB$`, "m").exec(text)?.[1] ?? Number.NaN) * 1024) / 1e6;
  return {
    rss: megabytes("Rss"),
    pss: megabytes("Pss"),
    uss: megabytes("Private_Clean") + megabytes("Private_Dirty"),
  };
};

/** The memory of a process now. */
export const memoryOf = (pid: number): Memory =>
  parseMemory(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"));

/** Milliseconds on a CPU in the text of a `schedstat`: its first number, in nanoseconds. */
export const parseCpuMs = (text: string): number => Number(text.split(" ")[0]) / 1e6;

/** CPU time of all living threads of a process since they began, in milliseconds. */
export const cpuMsOf = (pid: number): number => {
  let sum = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      sum += parseCpuMs(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8"));
    } catch {
      // The thread has ended since the folder was read.
    }
  }
  return sum;
};

/**
 * The process that runs a program: `pid` itself, or its descendant where `pid` only waits for it (nsenter(1) into a
 * PID namespace forks).
 */
export const programPid = (pid: number, program = basename(process.execPath)): number => {
  const seen = [pid];
  for (const each of seen) {
    if (basename(readlinkSync(`/proc/${each}/exe`)) === program) return each;
    const children = readFileSync(`/proc/${each}/task/${each}/children`, "utf8").trim();
    if (children !== "") seen.push(...children.split(" ").map(Number));
  }
  throw new Error(`neither process ${pid} nor a child of it runs ${program}`);
};
