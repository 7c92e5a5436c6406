/** What gateways and agents cost while nobody talks through the tunnel. */

import { setTimeout as after } from "node:timers/promises";
import type { Namespace } from "#netsim/lab/namespace.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import type { ProductProgram } from "#netsim/cluster/product.ts";
import { type BenchCluster, silence } from "./bench-cluster.ts";
import { cpuMsOf, memoryOf, programPid } from "./process-cost.ts";
import { type Row, rowOf } from "./report.ts";
import { countTunnelPackets, tunnelPackets } from "./tunnel-packets.ts";

const windowMs = 60_000;
/** Minutes that are measured: what a program does now and then falls into one of them. */
const windows = 3;
/** Longer than the tunnel's keepalive of a flow that is still open. */
const silentMs = 12_000;
/** An API server keeps a connection that nobody uses for 90 s, and sessions are renewed once more 120 s after that. */
const silenceTimeoutMs = 300_000;
/** While lists are digested a program is busier than this; afterwards far below. */
const calmCpuPercent = 2;

interface Watched {
  readonly program: ProductProgram;
  readonly namespace: Namespace;
}

interface RestCost {
  readonly uss: number;
  readonly rss: number;
  readonly cpuPercent: number;
  readonly packets: number;
}

/** Rows for the API server's gateway and for the agents (the dearest of the three), at rest for some minutes. */
export const measureAtRest = async (bench: BenchCluster, peers: number): Promise<Row[]> => {
  const { cluster, product, say } = bench;
  await silence(bench);
  const gateway = {
    program: product.gateways.apiserver,
    namespace: cluster.lab.namespace(cluster.site.apiserver.machine),
  };
  const agents = [...product.agents].map(([node, program]) => ({
    program,
    namespace: cluster.lab.namespace(node),
  }));
  const all = [gateway, ...agents];
  await Promise.all(all.map(({ namespace }) => countTunnelPackets(namespace)));
  say("waiting until nobody talks");
  const isSilent = await becomesSilent(all).then(
    () => true,
    (error: Error) => {
      say(error.message);
      return false;
    },
  );
  const note = isSilent ? undefined : "it never fell silent, see the packets";
  const gateways: RestCost[] = [];
  const dearest: RestCost[] = [];
  for (let window = 1; window <= windows; window += 1) {
    say(`at rest for ${windowMs / 1000} s with ${peers} peers (${window} of ${windows})`);
    const [own, ...others] = await costsOf(all);
    if (own === undefined) throw new Error("there is no gateway to measure");
    gateways.push(own);
    dearest.push(dearestOf(others));
  }
  return [
    ...restRows(`gateway, ${peers} peers`, gateways, note),
    ...restRows(`agent, ${peers} nodes`, dearest),
  ];
};

const dearestOf = (costs: readonly RestCost[]): RestCost => {
  const most = (pick: (cost: RestCost) => number): number => Math.max(...costs.map(pick));
  return {
    uss: most(({ uss }) => uss),
    rss: most(({ rss }) => rss),
    cpuPercent: most(({ cpuPercent }) => cpuPercent),
    packets: most(({ packets }) => packets),
  };
};

const restRows = (who: string, costs: readonly RestCost[], note?: string): Row[] => [
  rowOf({
    figure: `${who}: private memory (USS)`,
    unit: "MB",
    values: costs.map(({ uss }) => uss),
    goal: 30,
  }),
  rowOf({
    figure: `${who}: resident memory (RSS)`,
    unit: "MB",
    values: costs.map(({ rss }) => rss),
    goal: 72,
  }),
  rowOf({
    figure: `${who}: CPU at rest`,
    unit: "% of a core",
    values: costs.map(({ cpuPercent }) => cpuPercent),
    goal: 0.2,
  }),
  rowOf({
    figure: `${who}: datagrams in ${(windows * windowMs) / 1000} s`,
    unit: "",
    values: [costs.reduce((sum, { packets }) => sum + packets, 0)],
    goal: 0,
    ...(note === undefined ? {} : { note }),
  }),
];

/** Waits until a while has passed without a datagram anywhere and with nobody busy. */
const becomesSilent = async (all: readonly Watched[]): Promise<void> => {
  await waitFor(
    "a while without a datagram and without work",
    async () => {
      const before = await Promise.all(all.map(({ namespace }) => tunnelPackets(namespace)));
      const cpuBefore = all.map(({ program }) => cpuMsOf(pidOf(program)));
      await after(silentMs);
      const now = await Promise.all(all.map(({ namespace }) => tunnelPackets(namespace)));
      const sent = now.map((count, index) => count - (before[index] ?? 0));
      const percent = all.map(
        ({ program }, index) =>
          ((cpuMsOf(pidOf(program)) - (cpuBefore[index] ?? 0)) / silentMs) * 100,
      );
      if (Math.max(...sent) === 0 && Math.max(...percent) < calmCpuPercent) return true;
      throw new Error(
        all
          .map(
            ({ program: { name } }, index) =>
              `${name}: ${sent[index]} datagrams, ${percent[index]?.toFixed(1)} % of a core`,
          )
          .join("; "),
      );
    },
    { timeoutMs: silenceTimeoutMs },
  );
};

const costsOf = async (all: readonly Watched[]): Promise<RestCost[]> => {
  const pids = all.map(({ program }) => pidOf(program));
  const packetsBefore = await Promise.all(all.map(({ namespace }) => tunnelPackets(namespace)));
  const startMs = performance.now();
  const cpuBefore = pids.map(cpuMsOf);
  await after(windowMs);
  const cpu = pids.map((pid, index) => cpuMsOf(pid) - (cpuBefore[index] ?? 0));
  const elapsedMs = performance.now() - startMs;
  const packets = await Promise.all(all.map(({ namespace }) => tunnelPackets(namespace)));
  return pids.map((pid, index) => {
    const { uss, rss } = memoryOf(pid);
    return {
      uss,
      rss,
      cpuPercent: ((cpu[index] ?? Number.NaN) / elapsedMs) * 100,
      packets: (packets[index] ?? Number.NaN) - (packetsBefore[index] ?? Number.NaN),
    };
  });
};

/** The host's number of the process that runs a program of the product. */
export const pidOf = (program: ProductProgram): number => {
  const pid = program.pid();
  if (pid === null) throw new Error(`${program.name} does not run; see ${program.log}`);
  return programPid(pid);
};
