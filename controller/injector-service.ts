/** Puts the injector together: the webhook, decisions, events, audit. */

import type { Registry } from "prom-client";
import type { AdmissionHandler } from "#src/host/webhook/webhook-server.ts";
import type { AuditSummary } from "#src/plan/injection/audit-plan.ts";
import { INJECTOR_PATH } from "#src/plan/injection/webhook-objects.ts";
import type { Clock } from "#src/ports/clock.ts";
import type { Kube } from "#src/ports/kube.ts";
import { MUTATING_WEBHOOKS } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import type { BundleTarget } from "./certificates.ts";
import { InjectionAudit } from "./injection-audit.ts";
import { InjectionEvents } from "./injection-events.ts";
import { Injector } from "./injector.ts";
import { createInjectorMetrics } from "./injector-metrics.ts";
import type { InjectorSettings } from "./injector-options.ts";
import { startWebhookService, type WebhookService } from "./webhook-service.ts";

export interface InjectorServiceParts {
  readonly kube: Kube;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly settings: InjectorSettings;
  /** Name of this replica, e.g. its pod. */
  readonly instance: string;
  /** Further names and IPv4 addresses that configurations with a `url` call the webhook by. */
  readonly names?: readonly string[];
  /** Other webhooks on the same server, by path. */
  readonly routes?: Readonly<Record<string, AdmissionHandler>>;
  /** Their configurations. */
  readonly targets?: readonly BundleTarget[];
  /** A Tunnel's audit summary may differ. */
  readonly onAudit?: () => void;
}

export interface InjectorService {
  /** Null: it answers, and is trusted; else why not. */
  problem(): string | null;
  status(): object;
  /** Merge it into the program's scrape with `Registry.merge`. */
  readonly registry: Registry;
  /** The webhook's port; null: there is no certificate to serve with yet. */
  port(): number | null;
  /** For a Tunnel's condition; null: not known yet. */
  audit(tunnel: { readonly namespace: string; readonly name: string }): AuditSummary | null;
  /** Takes some seconds, see `WebhookServer.close`. Idempotent. */
  stop(): Promise<void>;
}

/** Starts at once and returns; it serves as soon as there is a certificate. */
export const startInjectorService = (parts: InjectorServiceParts): InjectorService => {
  const { settings, kube } = parts;
  const metrics = createInjectorMetrics({
    audit: () => audit.plan,
    certificateEndsMs: () => webhook.certificateEndsMs(),
  });
  const events = new InjectionEvents({ ...parts, onEvent: metrics.onEvent });
  const injector = new Injector({
    kube,
    config: settings.config,
    onDecision: metrics.onDecision,
    onNews: (news) => void events.tell(news),
    onNamespaces: () => audit.trigger("namespaces"),
  });
  const audit: InjectionAudit = new InjectionAudit({
    ...parts,
    config: settings.config,
    namespaces: () => injector.namespaces(),
    mayRecreate: settings.mayRecreate,
    onChange: () => parts.onAudit?.(),
    onRecreated: metrics.onRecreated,
  });
  const webhook: WebhookService = startWebhookService({
    ...parts,
    settings: { ...settings, ownNamespace: settings.config.ownNamespace },
    routes: { ...parts.routes, [INJECTOR_PATH]: injector.review },
    targets: [
      { resource: MUTATING_WEBHOOKS, name: settings.configuration },
      ...(parts.targets ?? []),
    ],
    onReview: metrics.onReview,
  });
  const stop = async (): Promise<void> => {
    // The webhook first: it answers until API servers have turned away.
    await webhook.stop();
    await audit.stop();
    injector.stop();
  };
  let stopped: Promise<void> | null = null;
  return {
    problem: () => injector.problem() ?? webhook.problem(),
    status: () => ({
      ...webhook.status(),
      audit: audit.plan?.counts ?? null,
      findings: audit.plan?.findings ?? [],
    }),
    registry: metrics.registry,
    port: () => webhook.port(),
    audit: (tunnel) => audit.summary(tunnel),
    stop: () => (stopped ??= stop()),
  };
};
