/**
 * `npm run bench`: measures the product beside what it replaces, on this machine.
 *   node netsim/bench/bench.ts [--only NAME]... [--json] [--list] [--help]
 */

import { parseArgs } from "node:util";
import { type Lab, removeLeftovers } from "#netsim/lab/lab.ts";
import { allocatorRows } from "./allocator-bench.ts";
import { measureAtRest } from "./at-rest.ts";
import { type BenchCluster, openBenchCluster, openBenchLab } from "./bench-cluster.ts";
import { measureBulk } from "./bulk.ts";
import { cidrRows } from "./cidr-bench.ts";
import { makeCrowd } from "./crowd.ts";
import { measureExec } from "./exec-cost.ts";
import { measureGatewayStart } from "./gateway-start.ts";
import { machineFacts } from "./machine-facts.ts";
import { measureManyGateways } from "./many-gateways.ts";
import { type Failure, jsonOf, type Row, tableOf } from "./report.ts";

const crowdSize = 1000;
/** Characters of an error: a command that failed may have said a lot. */
const errorMax = 600;

interface Benchmark {
  readonly name: string;
  readonly about: string;
}

interface ClusterBenchmark extends Benchmark {
  readonly measure: (bench: BenchCluster) => Promise<Row[]>;
}

/** In one pair of clusters, in this order: what needs silence after what breaks it, and what fills the shoot at last. */
const inCluster: readonly ClusterBenchmark[] = [
  {
    name: "exec",
    about: "kubectl exec true through the tunnel beside a plain route",
    measure: measureExec,
  },
  {
    name: "start",
    about: "from a gateway's start to the first kubectl exec that works",
    measure: measureGatewayStart,
  },
  {
    name: "many",
    about: "memory of ten gateways on one machine",
    measure: measureManyGateways,
  },
  {
    name: "rest",
    about: "memory, CPU and packets of gateway and agents at rest, 3 nodes",
    measure: (bench) => measureAtRest(bench, bench.cluster.site.nodes.length),
  },
  {
    name: "crowd",
    about: `as rest, with ${crowdSize} nodes, and a gateway's start with them`,
    measure: async (bench) => {
      await makeCrowd(bench, crowdSize);
      return [
        ...(await measureAtRest(bench, crowdSize)),
        ...(await measureGatewayStart(bench)).map((row) => ({
          ...row,
          figure: `${row.figure}, ${crowdSize} peers`,
        })),
      ];
    },
  },
];

const bulk: Benchmark = {
  name: "bulk",
  about: "throughput, CPU time and latency beside wireguard-go and a plain route",
};

/** Of their own: no pair of clusters. */
const alone: readonly (Benchmark & { readonly measure: () => Promise<Row[]> })[] = [
  {
    name: "cidr",
    about: "overlap, allocation, insertion and removal among 1,000 to 1,000,000 blocks",
    measure: cidrRows,
  },
  {
    name: "allocator",
    about: "10,000 claims on a real kube-apiserver, and a restart after them",
    measure: () => allocatorRows(),
  },
];

const all: readonly Benchmark[] = [...inCluster, bulk, ...alone];

const usage = `usage: npm run bench -- [--only NAME]... [--json] [--list]
  --only NAME  only this benchmark; may be given several times
  --json       the result as JSON on standard output
  --list       the names, and what each measures
The exit code is 0 also when a goal is missed, 1 when something could not be measured.`;

const startMs = performance.now();
const say = (text: string): void => {
  const seconds = ((performance.now() - startMs) / 1000).toFixed(0).padStart(5);
  process.stderr.write(`${seconds} s  ${text}\n`);
};

/** What has been measured so far; a failure keeps none of the others from being measured. */
interface Found {
  readonly rows: Row[];
  readonly failures: Failure[];
}

const attempt = async (
  found: Found,
  name: string,
  measure: () => Promise<Row[]>,
): Promise<void> => {
  say(`== ${name}`);
  try {
    const rows = await measure();
    for (const { figure, xylem, unit } of rows) say(`${figure}: ${xylem} ${unit}`.trimEnd());
    found.rows.push(...rows);
  } catch (error) {
    const message = (error instanceof Error ? error.message : String(error)).slice(0, errorMax);
    found.failures.push({ name, error: message });
    say(`${name}: ${message}`);
  }
};

const runInCluster = async (
  found: Found,
  chosen: readonly ClusterBenchmark[],
  onLab: (lab: Lab) => void,
): Promise<void> => {
  const lab = await openBenchLab("bench");
  onLab(lab);
  try {
    const bench = await openBenchCluster(lab, say);
    for (const { name, measure } of chosen) await attempt(found, name, () => measure(bench));
    await bench.product.stop();
    await bench.cluster.close();
    if (found.failures.length > 0) say(`logs of every machine: ${await lab.evidence()}`);
  } finally {
    await lab.close();
  }
};

const main = async (): Promise<number> => {
  const { values } = parseArgs({
    options: {
      only: { type: "string", multiple: true },
      json: { type: "boolean" },
      list: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help === true) {
    process.stdout.write(`${usage}\n`);
    return 0;
  }
  if (values.list === true) {
    for (const { name, about } of all) process.stdout.write(`${name.padEnd(11)}${about}\n`);
    return 0;
  }
  const only = values.only ?? all.map(({ name }) => name);
  const unknown = only.filter((name) => !all.some((each) => each.name === name));
  if (unknown.length > 0) {
    process.stderr.write(`there is no benchmark ${unknown.join(", ")}: see --list\n`);
    return 2;
  }
  const machine = machineFacts();
  const found: Found = { rows: [], failures: [] };
  let open: Lab | null = null;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => {
      say("stopping");
      void (open?.close() ?? Promise.resolve()).finally(() => process.exit(1));
    });
  }
  if (only.some((name) => name !== "cidr")) await removeLeftovers();
  const chosen = inCluster.filter(({ name }) => only.includes(name));
  const note = (lab: Lab): void => {
    open = lab;
  };
  if (chosen.length > 0) {
    await attempt(found, "clusters", async () => {
      await runInCluster(found, chosen, note);
      return [];
    });
  }
  if (only.includes(bulk.name)) await attempt(found, bulk.name, () => measureBulk(say, note));
  for (const { name, measure } of alone) {
    if (only.includes(name)) await attempt(found, name, measure);
  }
  const report = { machine, ...found };
  process.stdout.write(values.json === true ? jsonOf(report) : tableOf(report));
  return found.failures.length === 0 ? 0 : 1;
};

process.exitCode = await main();
