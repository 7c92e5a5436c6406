/**
 * Explores how allocators may be interleaved, and prints the shortest schedule that breaks a rule, as JSON.
 *   node netsim/world/explore.ts [--allocators 2] [--from SEED] [--count SCHEDULES] [--planted NAME]
 * A program of its own, because a test runner's hooks on promises make every step several times slower.
 */

import { parseArgs } from "node:util";
import { AllocationWorld, type AllocationWorldOptions } from "./allocation-world.ts";
import { replayedChoices, seededChoices, shrinkChoices } from "./choices.ts";
import { plantedBugs } from "./planted-bugs.ts";

/** What was found; `seed` and `broken` are null where all rules held. */
export interface Exploration {
  readonly seed: number | null;
  readonly broken: string | null;
  /** Of the shortest schedule that was found. */
  readonly trace: readonly string[];
  readonly isShrunk: boolean;
  /** How many different schedules were run. */
  readonly distinct: number;
}

const run = (choices: readonly number[], options: AllocationWorldOptions) =>
  new AllocationWorld(replayedChoices(choices), options).run();

/** Runs seeds until a rule is broken; answers the shortest such schedule that was found. */
export const explore = async (
  options: AllocationWorldOptions,
  seeds: { readonly from: number; readonly count: number },
): Promise<Exploration> => {
  const distinct = new Set<string>();
  for (let seed = seeds.from; seed < seeds.from + seeds.count; seed += 1) {
    const choices = seededChoices(seed);
    const { broken } = await new AllocationWorld(choices, options).run();
    distinct.add(String.fromCharCode(...choices.made));
    if (broken === null) continue;
    const short = await shrinkChoices(
      choices.made,
      async (candidate) => (await run(candidate, options)).broken !== null,
    );
    const result = await run(short, options);
    const { trace } = result;
    const isShrunk = short.length < choices.made.length;
    return { seed, distinct: distinct.size, broken: result.broken, trace, isShrunk };
  }
  return { seed: null, distinct: distinct.size, broken: null, trace: [], isShrunk: false };
};

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      allocators: { type: "string", default: "2" },
      from: { type: "string", default: "1" },
      count: { type: "string", default: "1000" },
      planted: { type: "string" },
    },
  });
  // Conflicts are thrown by the thousand here; nobody reads where.
  Error.stackTraceLimit = 0;
  const bug = plantedBugs.find(({ name }) => name === values.planted);
  if (values.planted !== undefined && bug === undefined) {
    throw new Error(`no planted bug "${values.planted}": see planted-bugs.ts`);
  }
  const found = await explore(
    {
      allocators: Number(values.allocators),
      ...(bug === undefined ? {} : { spoil: bug.spoil }),
    },
    { from: Number(values.from), count: Number(values.count) },
  );
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
