/** Explores how several allocators may be interleaved, and that planted bugs are found (A5, A13). */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import t from "tap";
import type { Exploration } from "./explore.ts";
import { plantedBugs } from "./planted-bugs.ts";

/** Schedules to explore; the whole test run asks for 100000 (scripts/test.ts). */
const schedules = Number(process.env["XYLEM_SCHEDULES"] ?? 2_000);
const first = Number(process.env["XYLEM_SCHEDULE_FIRST"] ?? 1);
/** Seeds rarely lead to the same schedule. */
const DISTINCT_SHARE_MIN = 0.95;
/** Lines of a planted bug's trace: one that never comes to rest has very many. */
const TRACE_SHOWN_MAX = 60;
/** A planted bug is found in at most so many, or not at all. */
const PLANTED_MAX = 20_000;
const TIMEOUT_MS = 1_500_000;
const OUTPUT_MAX = 16 * 1024 * 1024;

const explore = async (...flags: readonly string[]): Promise<Exploration> => {
  const argv = [join(import.meta.dirname, "explore.ts"), ...flags];
  const { stdout } = await promisify(execFile)(process.execPath, argv, { maxBuffer: OUTPUT_MAX });
  return JSON.parse(stdout) as Exploration;
};

for (const allocators of [2, 3]) {
  void t.test(
    `A5 A13 ${allocators} allocators at once never allocate twice, free what lives, leak, quarrel or forget, however they are interleaved and the seed is edited`,
    { timeout: TIMEOUT_MS },
    async (t) => {
      const count = Math.ceil(schedules / 2);
      const startMs = performance.now();
      const { broken, trace, seed, distinct } = await explore(
        ...["--allocators", String(allocators)],
        ...["--from", String(first), "--count", String(count)],
      );
      const replay = `replay: node netsim/world/explore.ts --allocators ${allocators} --from ${seed} --count 1`;
      t.equal(broken, null, seed === null ? "all rules held" : replay);
      if (broken === null) {
        t.ok(distinct >= count * DISTINCT_SHARE_MIN, `${distinct} of ${count} schedules differ`);
      }
      for (const line of trace) t.comment(line);
      t.comment(`${count} schedules in ${((performance.now() - startMs) / 1_000).toFixed(1)} s`);
    },
  );
}

for (const { name, want } of plantedBugs) {
  void t.test(
    `a planted bug is found: an allocator that ${name}`,
    { timeout: TIMEOUT_MS },
    async (t) => {
      const { broken, trace, seed, isShrunk } = await explore(
        ...["--planted", name, "--count", String(PLANTED_MAX)],
      );
      t.match(broken, want);
      t.comment(`seed ${seed}, ${trace.length} steps: ${broken}`);
      for (const line of trace.slice(0, TRACE_SHOWN_MAX)) t.comment(line);
      t.ok(isShrunk);
    },
  );
}
