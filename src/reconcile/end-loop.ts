/** The work loop of one tunnel end: runs its pass, counts what it did, retries what failed. */

import type { Clock } from "#src/ports/clock.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import type { HostReport } from "./host.ts";
import { type RunResult, type Work, WorkLoop } from "./loop.ts";

export interface EndLoopOptions {
  readonly name: string;
  /** `reasons`: what asked for the pass; see Work. */
  readonly pass: (reasons: readonly string[]) => Promise<HostReport>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Hears of every pass: how many changes it made, and whether all that was wanted is there. */
  readonly onPass: (done: { readonly writes: number; readonly isReached: boolean }) => void;
}

/** Makes the loop; it starts with its first trigger. */
export const createEndLoop = (options: EndLoopOptions): WorkLoop => {
  const { name, pass, clock, random, log, onPass } = options;
  const run = async ({ reasons }: Work): Promise<RunResult> => {
    const { writes, operations, errors } = await pass(reasons);
    onPass({ writes, isReached: errors.length === 0 });
    if (writes > 0) log.info({ writes, operations: operations.slice(0, 50) }, "reconciled");
    const [first] = errors;
    return first === undefined ? { kind: "reached" } : { kind: "retry", problem: first.message };
  };
  return new WorkLoop({ name, run, clock, random, log });
};
