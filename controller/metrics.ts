/** Prometheus metrics of the controller: Tunnels by condition, passes, writes and errors. */

import { Counter, Gauge, Registry } from "prom-client";
import type { KubeCounts } from "#src/host/kube/counted-kube.ts";
import type { RunResult } from "#src/reconcile/loop.ts";

/** Of one Tunnel, as its status says. */
export interface ConditionCount {
  readonly condition: string;
  readonly status: string;
  readonly count: number;
}

export interface ControllerMetricsSource {
  /** Tunnels that the controller watches; null: not listed yet. */
  tunnels(): { readonly total: number; readonly conditions: readonly ConditionCount[] } | null;
  isReady(): boolean;
  /** Of other parts of the program, for the same scrape. */
  registries?(): readonly Registry[];
}

export type CountedCluster = "seed" | "shoot";

export interface ControllerMetrics {
  /** Counts a pass over one Tunnel. */
  readonly onPass: (result: RunResult) => void;
  /** Counts the calls of a client. */
  readonly calls: (cluster: CountedCluster) => KubeCounts;
  /** The text of a scrape. */
  readonly text: () => Promise<{ contentType: string; text: string }>;
}

/** Makes the registry; nothing is global, so that two can live in one process. */
export const createControllerMetrics = (source: ControllerMetricsSource): ControllerMetrics => {
  const registry = new Registry();
  addGauges(registry, source);
  const passes = new Counter({
    name: "xylem_controller_passes_total",
    help: "Passes over a Tunnel, by outcome: reached, retry, rejected (bad spec)",
    labelNames: ["outcome"],
    registers: [registry],
  });
  const writes = new Counter({
    name: "xylem_controller_writes_total",
    help: "Writes that an API server took",
    labelNames: ["cluster", "verb", "kind"],
    registers: [registry],
  });
  const errors = new Counter({
    name: "xylem_controller_errors_total",
    help: "Calls to an API server that failed",
    labelNames: ["cluster", "code"],
    registers: [registry],
  });
  for (const outcome of ["reached", "retry", "rejected"]) passes.inc({ outcome }, 0);
  return {
    onPass: ({ kind }) => passes.inc({ outcome: kind }),
    calls: (cluster) => ({
      onWrite: ({ verb, kind }) => writes.inc({ cluster, verb, kind }),
      onError: ({ code }) => errors.inc({ cluster, code }),
    }),
    text: async () => {
      const all = Registry.merge([registry, ...(source.registries?.() ?? [])]);
      return { contentType: all.contentType, text: await all.metrics() };
    },
  };
};

const addGauges = (registry: Registry, source: ControllerMetricsSource): void => {
  registry.registerMetric(
    new Gauge({
      name: "xylem_controller_ready",
      help: "1 when the seed was listed",
      registers: [],
      collect() {
        this.set(source.isReady() ? 1 : 0);
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: "xylem_tunnels",
      help: "Tunnels that the controller watches",
      registers: [],
      collect() {
        const tunnels = source.tunnels();
        if (tunnels !== null) this.set(tunnels.total);
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: "xylem_tunnels_by_condition",
      help: "Tunnels by the status of each of their conditions",
      labelNames: ["condition", "status"],
      registers: [],
      collect() {
        this.reset();
        for (const { condition, status, count } of source.tunnels()?.conditions ?? []) {
          this.set({ condition, status }, count);
        }
      },
    }),
  );
};
