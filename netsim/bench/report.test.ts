/** The table and the JSON of a benchmark's report. */

import t from "tap";
import { jsonOf, type Report, rounded, rowOf, tableOf } from "./report.ts";

const machine = {
  cpu: "Test CPU",
  cores: 2,
  kernel: "6.18.1",
  memoryGb: 24,
  node: "v26.1.0",
  load: 0.4,
};
const reportOf = (rows: Report["rows"], failures: Report["failures"] = []): Report => ({
  machine,
  rows,
  failures,
});

void t.test("a row has the median, the range and the others' medians", async (t) => {
  const peers = { "plain route": [90, 110, 100] };
  t.same(rowOf({ figure: "exec", unit: "ms", values: [100, 120, 104], peers }), {
    figure: "exec",
    unit: "ms",
    xylem: 104,
    peers: { "plain route": 100 },
    samples: { count: 3, low: 100, high: 120 },
  });
});

const goals = [
  { name: "below the goal is met", values: [29], isMet: true },
  { name: "the goal itself is met", values: [30], isMet: true },
  { name: "above the goal is missed", values: [30.2], isMet: false },
];
for (const { name, values, isMet } of goals) {
  void t.test(name, async (t) => {
    t.match(rowOf({ figure: "memory", unit: "MB", values, goal: 30 }), { goal: 30, isMet });
  });
}

void t.test("a figure without a goal is neither met nor missed", async (t) => {
  const row = rowOf({ figure: "memory", unit: "MB", values: [1] });
  t.notOk("goal" in row || "isMet" in row || "samples" in row);
});

void t.test("no figure is told more exactly than it is known", async (t) => {
  t.same([1234.56, 99.96, 12.345, 0.123456, 0].map(rounded), [1235, 100, 12.3, 0.123, 0]);
});

void t.test("the table says what is missed, what failed, and notes", async (t) => {
  const text = tableOf(
    reportOf(
      [
        rowOf({ figure: "memory", unit: "MB", values: [31], goal: 30, note: "heap grew" }),
        rowOf({ figure: "exec", unit: "ms", values: [5, 7], peers: { plain: [4] } }),
      ],
      [{ name: "bulk", error: "iperf3 is missing" }],
    ),
  );
  const [first = "", , head = "", memory = "", exec = ""] = text.split("\n");
  t.equal(first, "Test CPU, 2 cores, 24 GB, Linux 6.18.1, Node.js v26.1.0, load 0.4 at the start");
  t.match(head, /^figure +unit +xylem +range +goal +others$/);
  t.match(memory, /^memory +MB +31 +<= 30 +MISSED$/);
  t.match(exec, /^exec +ms +6 +5 to 7 \(2\) +plain 4$/);
  t.match(text, /memory: heap grew/);
  t.match(text, /1 goal is missed\./);
  t.match(text, /bulk could not be measured: iperf3 is missing/);
});

void t.test("the JSON has machine and rows, and failures only when there are any", async (t) => {
  const rows = [rowOf({ figure: "exec", unit: "ms", values: [5] })];
  t.same(JSON.parse(jsonOf(reportOf(rows))), { machine, rows });
  const failures = [{ name: "bulk", error: "no" }];
  t.same(JSON.parse(jsonOf(reportOf(rows, failures))), { machine, rows, failures });
});
