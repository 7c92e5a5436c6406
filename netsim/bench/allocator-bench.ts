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
  const figure = (text: string) => `${text}, ${load.claims.toLocaleString("en")} claims`;
  return [
    rowOf({ figure: figure("allocation of all"), unit: "s", values: [load.allocateS] }),
    rowOf({ figure: figure("restart and full resync"), unit: "s", values: [load.resyncS] }),
    rowOf({
      figure: figure("writes of a full resync"),
      unit: "writes",
      values: [load.resyncWrites],
      goal: 0,
    }),
    rowOf({
      figure: figure("resident memory of an allocator"),
      unit: "MB",
      values: [load.rssMb],
      note: `${load.blocks} blocks; the process also made the claims and lists them to check`,
    }),
  ];
};

if (import.meta.main) {
  for (const row of await allocatorRows(Number(process.argv[2] ?? CLAIMS))) {
    process.stdout.write(`${row.figure}: ${row.xylem} ${row.unit}\n`);
  }
}
