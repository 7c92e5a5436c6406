import t from "tap";
import { CONTENT_TYPE, printMetrics } from "./exposition.ts";

void t.test("metrics are printed with their help, their type and their samples in order", (t) => {
  const text = printMetrics([
    { name: "xylem_ready", help: "1 when ready", type: "gauge", samples: [{ value: 1 }] },
    {
      name: "xylem_runs_total",
      help: "Runs",
      type: "counter",
      samples: [
        { labels: { outcome: "reached", loop: "a" }, value: 12 },
        { labels: { outcome: "failed", loop: "a" }, value: 0.5 },
      ],
    },
    { name: "xylem_relay", help: "The relay", type: "gauge", samples: [] },
  ]);
  t.equal(
    text,
    `# HELP xylem_ready 1 when ready
# TYPE xylem_ready gauge
xylem_ready 1

# HELP xylem_runs_total Runs
# TYPE xylem_runs_total counter
xylem_runs_total{outcome="reached",loop="a"} 12
xylem_runs_total{outcome="failed",loop="a"} 0.5

# HELP xylem_relay The relay
# TYPE xylem_relay gauge
`,
  );
  t.equal(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
  t.end();
});

void t.test("texts can't break out of their line or their quotes", (t) => {
  const labels = { node: 'a"b\\c\nd' };
  const text = printMetrics([
    { name: "x", help: 'a "quoted" \\ and\nmore', type: "gauge", samples: [{ labels, value: 1 }] },
  ]);
  t.equal(
    text,
    '# HELP x a "quoted" \\\\ and\\nmore\n# TYPE x gauge\nx{node="a\\"b\\\\c\\nd"} 1\n',
  );
  t.end();
});

void t.test("numbers are written as Prometheus reads them", (t) => {
  const samples = [Number.NaN, Infinity, -Infinity, 1e21, 2 ** 53].map((value) => ({ value }));
  const text = printMetrics([{ name: "x", help: "h", type: "gauge", samples }]);
  t.same(text.split("\n").slice(2, -1), [
    "x NaN",
    "x +Inf",
    "x -Inf",
    "x 1e+21",
    "x 9007199254740992",
  ]);
  t.end();
});
