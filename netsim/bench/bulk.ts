/** Throughput, CPU time and latency of the data plane beside wireguard-go and a plain route, over the same drawing. */

import { type Lab, openLab } from "#netsim/lab/lab.ts";
import type { Namespace } from "#netsim/lab/namespace.ts";
import { ping } from "#netsim/lab/ping.ts";
import { twoNetworks, twoNetworksPlan } from "#netsim/lab/two-networks.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import { openPrograms } from "#netsim/cluster/programs.ts";
import { type BulkSystem, bulkSystems, ownerNode } from "./bulk-systems.ts";
import { cpuMsOf } from "./process-cost.ts";
import { type Row, rowOf } from "./report.ts";
import { ratios, rotate } from "./statistics.ts";

const rounds = 4;
const streamSeconds = 3;
const echoes = 500;
const echoIntervalMs = 2;
const port = 5201;

const measures = {
  down: { figure: "1 stream, node to API server", unit: "Gbit/s" },
  up: { figure: "1 stream, API server to node", unit: "Gbit/s" },
  downCpu: { figure: "CPU of all ends, node to API server", unit: "s/GB" },
  upCpu: { figure: "CPU of all ends, API server to node", unit: "s/GB" },
  echo: { figure: "64 B echo, median", unit: "us" },
} as const;
type Measure = keyof typeof measures;
const allMeasures = Object.keys(measures) as Measure[];

/** By system, then by measure: one value a round. */
type Results = ReadonlyMap<string, Record<Measure, number[]>>;

/** Runs every system in every round, beginning with another one each time; makes and removes a lab of its own. */
export const measureBulk = async (
  say: (text: string) => void,
  onLab: (lab: Lab) => void,
): Promise<Row[]> => {
  const { wireguardGo } = await openPrograms({ onProgress: ({ step }) => say(`building ${step}`) });
  const lab = await openLab(twoNetworks({ name: "bench-bulk" }));
  onLab(lab);
  try {
    const node = lab.namespace(ownerNode);
    const seed = lab.namespace("apiserver");
    const server = node.spawn(["iperf3", "--server", "--port", `${port}`], { log: "iperf3.log" });
    const systems = bulkSystems({ lab, wireguardGo });
    const results = new Map(systems.map(({ name }) => [name, emptyRecord()]));
    for (let round = 0; round < rounds; round += 1) {
      for (const system of rotate(systems, round)) {
        say(`round ${round + 1} of ${rounds}: ${system.name}`);
        if (!server.isRunning())
          throw new Error(`iperf3 has ended; see ${server.log}; is it installed?`);
        const values = await runSystem(system, seed);
        for (const measure of allMeasures)
          results.get(system.name)?.[measure].push(values[measure]);
      }
    }
    return rowsOf(results);
  } finally {
    await lab.close();
  }
};

const emptyRecord = (): Record<Measure, number[]> => ({
  down: [],
  up: [],
  downCpu: [],
  upCpu: [],
  echo: [],
});

const runSystem = async (system: BulkSystem, seed: Namespace): Promise<Record<Measure, number>> => {
  const { address } = twoNetworksPlan.nodes[ownerNode];
  const carrier = await system.start();
  try {
    await waitFor(`${system.name} carries a ping`, async () => {
      const { received } = await ping(seed, address, { count: 1 });
      return received === 1;
    });
    const { rttMsMedian } = await ping(seed, address, {
      count: echoes,
      intervalMs: echoIntervalMs,
    });
    const down = await stream({ seed, address, flags: ["--reverse"], pids: carrier.pids });
    const up = await stream({ seed, address, flags: [], pids: carrier.pids });
    return {
      down: down.gbits,
      up: up.gbits,
      downCpu: down.cpuSecondsPerGb,
      upCpu: up.cpuSecondsPerGb,
      echo: rttMsMedian * 1000,
    };
  } finally {
    await carrier.stop();
  }
};

interface StreamSpec {
  readonly seed: Namespace;
  readonly address: string;
  readonly flags: readonly string[];
  readonly pids: readonly number[];
}

/** One TCP stream; the CPU time is that of the tunnel's processes, the kernel's part in others is not in it. */
const stream = async ({
  seed,
  address,
  flags,
  pids,
}: StreamSpec): Promise<{ gbits: number; cpuSecondsPerGb: number }> => {
  const cpu = (): number => pids.reduce((sum, pid) => sum + cpuMsOf(pid), 0);
  const client = ["iperf3", "--client", address, "--port", `${port}`, ...flags];
  const argv = [...client, "--time", `${streamSeconds}`, "--json"];
  const { received, cpuSeconds } = await waitFor(
    "iperf3 measures a stream",
    async () => {
      const before = cpu();
      const { stdout } = await seed.run(argv, {
        timeoutMs: (streamSeconds + 10) * 1000,
        check: false,
      });
      return { received: parseStream(stdout), cpuSeconds: (cpu() - before) / 1000 };
    },
    // Its server listens anew after each stream, and refuses a client that comes too early.
    { intervalMs: 300 },
  );
  return {
    gbits: received.bits_per_second / 1e9,
    cpuSecondsPerGb: cpuSeconds / (received.bytes / 1e9),
  };
};

interface Received {
  readonly bits_per_second: number;
  readonly bytes: number;
}

/** Reads what the receiving end of iperf3 counted. */
const parseStream = (text: string): Received => {
  const { end, error } = JSON.parse(text) as {
    readonly end?: { readonly sum_received?: Received };
    readonly error?: string;
  };
  if (error !== undefined) throw new Error(`iperf3: ${error}`);
  if (end?.sum_received === undefined) throw new Error("iperf3 reported no sum");
  return end.sum_received;
};

const ours = ["xylem", "xylem, passed on"] as const;
const theirs = ["wireguard-go", "plain route"] as const;

/** A row for each figure of ours with the others beside it, and their ratios, taken round by round. */
const rowsOf = (results: Results): Row[] =>
  ours.flatMap((name) => {
    const own = results.get(name) ?? emptyRecord();
    const where = name === "xylem" ? "entry is the owner" : "entry passes on";
    return allMeasures.flatMap((measure) => {
      const { figure, unit } = measures[measure];
      const others = theirs.flatMap((peer) => {
        const values = results.get(peer)?.[measure] ?? [];
        // A plain route has no processes whose CPU time would count.
        return values.some((value) => value > 0) ? [[peer, values] as const] : [];
      });
      return [
        rowOf({
          figure: `${figure} (${where})`,
          unit,
          values: own[measure],
          peers: Object.fromEntries(others),
        }),
        ...others.map(([peer, values]) =>
          rowOf({
            figure: `${figure} (${where}): xylem / ${peer}`,
            unit: "x",
            values: ratios(own[measure], { theirs: values }),
          }),
        ),
      ];
    });
  });
