/** Prometheus metrics of the injector: decisions with their reasons, events, audited pods; and those of its webhook. */

import { Counter, Gauge, Registry } from "prom-client";
import type { AuditPlan } from "#src/plan/injection/audit-plan.ts";
import type { InjectionPlan } from "#src/plan/injection/injection-plan.ts";
import { addWebhookMetrics, type OnReview, type WebhookMetricsSource } from "./webhook-metrics.ts";

/** What a scrape may ask. */
export interface InjectorMetricsSource extends WebhookMetricsSource {
  /** Null: no audit has ended yet. */
  audit(): AuditPlan | null;
}

export interface InjectorMetrics {
  readonly onDecision: (plan: InjectionPlan) => void;
  readonly onReview: OnReview;
  /** `dropped`: there were too many; `repeated`: the same was said a short while ago. */
  readonly onEvent: (outcome: "written" | "failed" | "dropped" | "repeated") => void;
  readonly onRecreated: () => void;
  readonly registry: Registry;
}

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
    onReview: addWebhookMetrics(registry, source),
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
};
