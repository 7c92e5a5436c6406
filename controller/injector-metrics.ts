/** Prometheus metrics of the injector: decisions with their reasons, reviews, events, audited pods, the certificate's end. */

import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { ReviewOutcome } from "#src/host/webhook/webhook-server.ts";
import type { AuditPlan } from "#src/plan/injection/audit-plan.ts";
import type { InjectionPlan } from "#src/plan/injection/injection-plan.ts";

/** What a scrape may ask. */
export interface InjectorMetricsSource {
  /** Null: no audit has ended yet. */
  audit(): AuditPlan | null;
  /** Milliseconds since 1970; null: there is no certificate yet. */
  certificateEndsMs(): number | null;
}

export interface InjectorMetrics {
  readonly onDecision: (plan: InjectionPlan) => void;
  readonly onReview: (review: {
    readonly path: string;
    readonly outcome: ReviewOutcome;
    readonly durationMs: number;
  }) => void;
  /** `dropped`: there were too many; `repeated`: the same was said a short while ago. */
  readonly onEvent: (outcome: "written" | "failed" | "dropped" | "repeated") => void;
  readonly onRecreated: () => void;
  readonly registry: Registry;
}

/** Seconds; an API server waits for 10. */
const REVIEW_BUCKETS = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 8];

/** Makes a registry of its own. */
export const createInjectorMetrics = (source: InjectorMetricsSource): InjectorMetrics => {
  const registry = new Registry();
  const registers = [registry];
  const decisions = new Counter({
    name: "xylem_injections_total",
    help: "Pods that the injector was asked about, by result and reason",
    labelNames: ["result", "reason"],
    registers,
  });
  const reviews = new Histogram({
    name: "xylem_webhook_review_seconds",
    help: "Admission reviews by path and outcome; failed: the API server got no verdict",
    labelNames: ["path", "outcome"],
    buckets: REVIEW_BUCKETS,
    registers,
  });
  const events = new Counter({
    name: "xylem_injector_events_total",
    help: "Events about skipped and refused pods, by what became of them",
    labelNames: ["outcome"],
    registers,
  });
  const recreated = new Counter({
    name: "xylem_injector_recreated_pods_total",
    help: "Pods that the audit deleted so that their controllers make them anew",
    registers,
  });
  addGauges(registry, source);
  return {
    onDecision: (plan) =>
      decisions.inc({ result: plan.kind, reason: plan.kind === "inject" ? "" : plan.code }),
    onReview: ({ path, outcome, durationMs }) =>
      reviews.observe({ path, outcome }, durationMs / 1000),
    onEvent: (outcome) => events.inc({ outcome }),
    onRecreated: () => recreated.inc(),
    registry,
  };
};

const addGauges = (registry: Registry, source: InjectorMetricsSource): void => {
  registry.registerMetric(
    new Gauge({
      name: "xylem_audited_pods",
      help: "Labelled pods that run, by the state of their gateway",
      labelNames: ["state"],
      registers: [],
      collect() {
        for (const [state, count] of Object.entries(source.audit()?.counts ?? {})) {
          this.set({ state }, count);
        }
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: "xylem_webhook_certificate_end_seconds",
      help: "When the serving certificate ends, in seconds since 1970",
      registers: [],
      collect() {
        const endsMs = source.certificateEndsMs();
        if (endsMs !== null) this.set(endsMs / 1000);
      },
    }),
  );
};
