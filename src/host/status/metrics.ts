/** Prometheus metrics of one gateway or agent: the data plane's counters, and what the reconcile loop did. */

import { Counter, Gauge, Registry } from "prom-client";
import type { DeviceStats } from "#src/model/device.ts";

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

const addDeviceMetrics = (registry: Registry, source: MetricsSource): void => {
  const gauge = (name: string, help: string, read: (stats: DeviceStats) => number): void => {
    registry.registerMetric(
      new Gauge({
        name,
        help,
        registers: [],
        collect() {
          const stats = source.stats();
          if (stats !== null) this.set(read(stats));
        },
      }),
    );
  };
  const sum = (
    stats: DeviceStats,
    key: "rxBytes" | "txBytes" | "rxPackets" | "txPackets",
  ): number => stats.peers.reduce((total, peer) => total + peer[key], 0);
  gauge("xylem_peers", "WireGuard peers configured", (stats) => stats.peers.length);
  gauge(
    "xylem_peers_alive",
    "Peers heard from within 180 s",
    (stats) =>
      stats.peers.filter((p) => p.receivedAgeMs !== null && p.receivedAgeMs < ALIVE_MS).length,
  );
  gauge("xylem_receive_bytes", "Inner bytes received since the device was opened", (s) =>
    sum(s, "rxBytes"),
  );
  gauge("xylem_transmit_bytes", "Inner bytes sent since the device was opened", (s) =>
    sum(s, "txBytes"),
  );
  gauge("xylem_receive_packets", "Inner packets received", (s) => sum(s, "rxPackets"));
  gauge("xylem_transmit_packets", "Inner packets sent", (s) => sum(s, "txPackets"));
  gauge("xylem_relay_flows", "Flows passed on to other agents at this moment", (s) => s.relayFlows);
  gauge("xylem_paths_replaced", "Paths given a fresh source port", (stats) =>
    stats.paths.reduce((total, path) => total + path.replaced, 0),
  );
  registry.registerMetric(
    new Gauge({
      name: "xylem_data_plane",
      help: "Counters of the data plane by name, e.g. drops by reason",
      labelNames: ["counter"],
      registers: [],
      collect() {
        for (const [counter, value] of Object.entries(source.stats()?.counters ?? {}))
          this.set({ counter }, value);
      },
    }),
  );
};

/** Makes the registry; nothing is global, so that two can live in one process. */
export const createMetrics = (source: MetricsSource): Metrics => {
  const registry = new Registry();
  // One look at the device a scrape: its statistics are a copy of every peer's.
  let stats: DeviceStats | null = null;
  addDeviceMetrics(registry, { ...source, stats: () => stats });
  registry.registerMetric(
    new Gauge({
      name: "xylem_ready",
      help: "1 when the tunnel was proven to work and nothing has spoken against it since",
      registers: [],
      collect() {
        this.set(source.isReady() ? 1 : 0);
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: "xylem_relay",
      help: "1 for the node that is the relay for services",
      labelNames: ["node"],
      registers: [],
      collect() {
        this.reset();
        const node = source.relay();
        if (node !== null) this.set({ node }, 1);
      },
    }),
  );
  const writes = new Counter({
    name: "xylem_reconcile_writes_total",
    help: "Changes made to the kernel and the data plane",
    registers: [registry],
  });
  const runs = new Counter({
    name: "xylem_reconcile_runs_total",
    help: "Runs of the reconcile loop",
    labelNames: ["outcome"],
    registers: [registry],
  });
  return {
    onPass: ({ writes: count, isReached }) => {
      writes.inc(count);
      runs.inc({ outcome: isReached ? "reached" : "failed" });
    },
    text: async () => {
      stats = source.stats();
      const text = await registry.metrics();
      stats = null;
      return { contentType: registry.contentType, text };
    },
  };
};
