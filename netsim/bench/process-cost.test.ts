/** Memory and CPU time as proc(5) tells them. */

import t from "tap";
import { cpuMsOf, memoryOf, parseCpuMs, parseMemory, programPid } from "./process-cost.ts";

const rollup = `00400000-7ffd00000000 ---p 00000000 00:00 0                          [rollup]
Rss:               60000 kB
Pss:               20000 kB
Pss_Dirty:         14000 kB
Shared_Clean:      45000 kB
Shared_Dirty:          0 kB
Private_Clean:      1000 kB
Private_Dirty:     14000 kB
Referenced:        60000 kB
`;

void t.test("private memory is clean and dirty together, in millions of bytes", async (t) => {
  t.same(parseMemory(rollup), { rss: 61.44, pss: 20.48, uss: 15.36 });
});

void t.test("a field that is missing is no zero", async (t) => {
  t.ok(Number.isNaN(parseMemory("Rss: 1 kB\n").uss));
});

void t.test("CPU time is the first number of schedstat, in nanoseconds", async (t) => {
  t.equal(parseCpuMs("123456789 400 17\n"), 123.456789);
});

void t.test("this process has memory and has used a CPU", async (t) => {
  const { rss, pss, uss } = memoryOf(process.pid);
  t.ok(uss > 1 && uss <= pss && pss <= rss, `${uss} <= ${pss} <= ${rss}`);
  t.ok(cpuMsOf(process.pid) > 1);
});

void t.test("a process that runs the program is its own program", async (t) => {
  t.equal(programPid(process.pid), process.pid);
});

void t.test(
  "a process that does not run the program and has no child that does is an error",
  async (t) => {
    t.throws(() => programPid(process.pid, "no-such-program"), /nor a child of it runs/);
  },
);
