/** What the machine is that a benchmark runs on. */

import { cpus, loadavg, release, totalmem } from "node:os";
import { rounded } from "./report.ts";
import type { MachineFacts } from "./report.ts";

/** Reads the machine's facts; the load is that of the last minute. */
export const machineFacts = (): MachineFacts => {
  const all = cpus();
  return {
    cpu: all[0]?.model.trim() ?? "unknown CPU",
    cores: all.length,
    kernel: release(),
    memoryGb: rounded(totalmem() / 1e9),
    node: process.version,
    load: rounded(loadavg()[0] ?? Number.NaN),
  };
};
