/** Prometheus metrics of one gateway or agent: the data plane's counters, and what the reconcile loop did. */

import type { DeviceStats, PeerStats } from "#src/model/device.ts";
import { CONTENT_TYPE, type Metric, printMetrics, type Sample } from "./exposition.ts";

/** What a scrape may ask; every number comes from here at the moment of the scrape. */
export interface MetricsSource {
  /** Null while there is no device. */
  stats(): DeviceStats | null;
  isReady(): boolean;
  /** Name of the node that is the relay; null: none, or this is an agent. */
  relay(): string | null;
}

/** A peer counts as alive when it authenticated something within this time: WireGuard's REJECT_AFTER_TIME. */
const ALIVE_MS = 180_000;

export interface Metrics {
  /** Counts a pass of the reconcile loop. */
  readonly onPass: (done: { readonly writes: number; readonly isReached: boolean }) => void;
  /** The text of a scrape. */
  readonly text: () => Promise<{ contentType: string; text: string }>;
}

interface DeviceGauge {
  readonly name: string;
  readonly help: string;
  readonly read: (stats: DeviceStats) => number;
}

const sum = (stats: DeviceStats, read: (peer: PeerStats) => number): number =>
  stats.peers.reduce((total, peer) => total + read(peer), 0);

const DEVICE_GAUGES: readonly DeviceGauge[] = [
  { name: "xylem_peers", help: "WireGuard peers configured", read: ({ peers }) => peers.length },
  {
    name: "xylem_peers_alive",
    help: "Peers heard from within 180 s",
    read: (stats) =>
      sum(stats, ({ receivedAgeMs }) =>
        receivedAgeMs !== null && receivedAgeMs < ALIVE_MS ? 1 : 0,
      ),
  },
  {
    name: "xylem_receive_bytes",
    help: "Inner bytes received since the device was opened",
    read: (stats) => sum(stats, ({ rxBytes }) => rxBytes),
  },
  {
    name: "xylem_transmit_bytes",
    help: "Inner bytes sent since the device was opened",
    read: (stats) => sum(stats, ({ txBytes }) => txBytes),
  },
  {
    name: "xylem_receive_packets",
    help: "Inner packets received",
    read: (stats) => sum(stats, ({ rxPackets }) => rxPackets),
  },
  {
    name: "xylem_transmit_packets",
    help: "Inner packets sent",
    read: (stats) => sum(stats, ({ txPackets }) => txPackets),
  },
  {
    name: "xylem_relay_flows",
    help: "Flows passed on to other agents at this moment",
    read: ({ relayFlows }) => relayFlows,
  },
  {
    name: "xylem_paths_replaced",
    help: "Paths given a fresh source port",
    read: ({ paths }) => paths.reduce((total, path) => total + path.replaced, 0),
  },
];

/** Makes the counters; nothing is global, so that two can live in one process. */
export const createMetrics = (source: MetricsSource): Metrics => {
  let writes = 0;
  const runs = new Map<string, number>();
  const print = (): string => {
    // One look at the device a scrape: its statistics are a copy of every peer's.
    const stats = source.stats();
    const node = source.relay();
    const relays = node === null ? [] : [{ labels: { node }, value: 1 }];
    const outcomes = [...runs].map(([outcome, value]) => ({ labels: { outcome }, value }));
    return printMetrics([
      ...deviceMetrics(stats),
      gauge(
        "xylem_ready",
        "1 when the tunnel was proven to work and nothing has spoken against it since",
        [{ value: source.isReady() ? 1 : 0 }],
      ),
      gauge("xylem_relay", "1 for the node that is the relay for services", relays),
      counter("xylem_reconcile_writes_total", "Changes made to the kernel and the data plane", [
        { value: writes },
      ]),
      counter("xylem_reconcile_runs_total", "Runs of the reconcile loop", outcomes),
    ]);
  };
  return {
    onPass: ({ writes: count, isReached }) => {
      writes += count;
      const outcome = isReached ? "reached" : "failed";
      runs.set(outcome, (runs.get(outcome) ?? 0) + 1);
    },
    text: () => Promise.resolve({ contentType: CONTENT_TYPE, text: print() }),
  };
};

const gauge = (name: string, help: string, samples: readonly Sample[]): Metric => ({
  name,
  help,
  type: "gauge",
  samples,
});

const counter = (name: string, help: string, samples: readonly Sample[]): Metric => ({
  ...gauge(name, help, samples),
  type: "counter",
});

const deviceMetrics = (stats: DeviceStats | null): readonly Metric[] => [
  ...DEVICE_GAUGES.map(({ name, help, read }) =>
    gauge(name, help, stats === null ? [] : [{ value: read(stats) }]),
  ),
  gauge(
    "xylem_data_plane",
    "Counters of the data plane by name, e.g. drops by reason",
    Object.entries(stats?.counters ?? {}).map(([name, value]) => ({
      labels: { counter: name },
      value,
    })),
  ),
];
