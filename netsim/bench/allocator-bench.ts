/**
 * What the allocator takes for very many claims on a real API server: time, memory, and that a resync writes nothing.
 *   node netsim/bench/allocator-bench.ts [CLAIMS]
 */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { withApiServer } from "#netsim/cluster/api-server.ts";
import type { AllocatorLoad } from "./allocator-load.ts";
import { rowOf, type Row } from "./report.ts";

const CLAIMS = 10_000;

/** Measures with an API server of its own; needs root. */
export const allocatorRows = async (claims = CLAIMS): Promise<Row[]> => {
  const load = await withApiServer(
    "allocator-bench",
    async ({ kubeconfig, inside }): Promise<AllocatorLoad> => {
      const program = join(import.meta.dirname, "allocator-load.ts");
      const [command, ...argv] = [...inside, process.execPath, program, String(claims)];
      const env = { ...process.env, XYLEM_TEST_KUBECONFIG: kubeconfig };
      const { stdout } = await promisify(execFile)(command, argv, { env });
      return JSON.parse(stdout) as AllocatorLoad;
    },
    (path) => process.stderr.write(`evidence: ${path}\n`),
  );
  const { allocation, resync, blocks } = load;
  const figure = (text: string) => `${text}, ${load.claims.toLocaleString("en")} claims`;
  const one = (text: string, unit: string, value: number) =>
    rowOf({ figure: figure(text), unit, values: [value] });
  return [
    one(`allocation of ${blocks.toLocaleString("en")} blocks`, "s", allocation.seconds),
    one("allocation: CPU of the controller", "s", allocation.cpuS),
    one("allocation: writes", "calls", allocation.writes),
    one("allocation: resident memory of the controller", "MB", allocation.rssMb),
    one("restart and full resync", "s", resync.seconds),
    one("restart and full resync: CPU of the controller", "s", resync.cpuS),
    one("restart and full resync: resident memory of the controller", "MB", resync.rssMb),
    one("restart and full resync: private memory of the controller", "MB", resync.ussMb),
    rowOf({
      figure: figure("restart and full resync: writes"),
      unit: "calls",
      values: [resync.writes],
      goal: 0,
      note: `the controller's own count; ${load.changedObjects} objects had another version afterwards`,
    }),
  ];
};

if (import.meta.main) {
  for (const row of await allocatorRows(Number(process.argv[2] ?? CLAIMS))) {
    process.stdout.write(`${row.figure}: ${row.xylem} ${row.unit}\n`);
  }
}
