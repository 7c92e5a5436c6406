/** Puts the injector together: certificates, the webhook's server, decisions, events, audit. */

import type { Registry } from "prom-client";
import {
  type AdmissionHandler,
  startWebhookServer,
  type WebhookServer,
} from "#src/host/webhook/webhook-server.ts";
import type { CertificateGeneration } from "#src/model/webhook-certificates.ts";
import type { AuditSummary } from "#src/plan/injection/audit-plan.ts";
import { INJECTOR_PATH } from "#src/plan/injection/webhook-objects.ts";
import type { Clock } from "#src/ports/clock.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube } from "#src/ports/kube.ts";
import { MUTATING_WEBHOOKS } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import { type BundleTarget, CertificateKeeper } from "./certificates.ts";
import { InjectionAudit } from "./injection-audit.ts";
import { InjectionEvents } from "./injection-events.ts";
import { Injector } from "./injector.ts";
import { createInjectorMetrics } from "./injector-metrics.ts";
import type { InjectorSettings } from "./injector-options.ts";

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

/** Between two tries to listen, e.g. because the port is still held by the container before. */
const LISTEN_PAUSE_MS = 1_000;

/** Starts at once and returns; it serves as soon as there is a certificate. */
export const startInjectorService = (parts: InjectorServiceParts): InjectorService => {
  const { settings, kube } = parts;
  const metrics = createInjectorMetrics({
    audit: () => audit.plan,
    certificateEndsMs: () => keeper.serving?.notAfterMs ?? null,
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
  const listener = new Listener({
    ...parts,
    routes: { ...parts.routes, [INJECTOR_PATH]: injector.review },
    onReview: metrics.onReview,
  });
  const keeper: CertificateKeeper = new CertificateKeeper({
    ...parts,
    secret: { namespace: settings.config.ownNamespace, name: `${settings.service}-certificates` },
    names: [`${settings.service}.${settings.config.ownNamespace}.svc`, ...(parts.names ?? [])],
    targets: [
      { resource: MUTATING_WEBHOOKS, name: settings.configuration },
      ...(parts.targets ?? []),
    ],
    onServe: (serving) => listener.serve(serving),
  });
  const stop = async (): Promise<void> => {
    // The server first: it answers until API servers have turned away.
    await listener.stop();
    await Promise.all([keeper.stop(), audit.stop()]);
    injector.stop();
  };
  let stopped: Promise<void> | null = null;
  return {
    problem: () => injector.problem() ?? keeper.problem() ?? listener.problem(),
    status: () => ({
      certificates: keeper.status(),
      audit: audit.plan?.counts ?? null,
      findings: audit.plan?.findings ?? [],
    }),
    registry: metrics.registry,
    port: () => listener.port,
    audit: (tunnel) => audit.summary(tunnel),
    stop: () => (stopped ??= stop()),
  };
};

type ListenerParts = InjectorServiceParts &
  Required<Pick<InjectorServiceParts, "routes">> & {
    readonly onReview: ReturnType<typeof createInjectorMetrics>["onReview"];
  };

/** The webhook's server, from the first certificate on. */
class Listener {
  readonly #parts: ListenerParts;
  #server: WebhookServer | null = null;
  #starting: Promise<void> | null = null;
  #serving: CertificateGeneration | null = null;
  #problem: string | null = "there is no certificate to serve with yet";
  #isStopped = false;

  constructor(parts: ListenerParts) {
    this.#parts = parts;
  }

  get port(): number | null {
    return this.#server?.port ?? null;
  }

  problem(): string | null {
    return this.#problem;
  }

  serve(serving: CertificateGeneration): void {
    this.#serving = serving;
    if (this.#server !== null) this.#server.setCertificate(serving);
    else this.#starting ??= this.#start();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#problem = "the webhook is stopping";
    await this.#starting;
    await this.#server?.close();
  }

  async #start(): Promise<void> {
    const { settings, clock, log, routes, onReview } = this.#parts;
    const { address, port } = settings;
    while (!this.#isStopped && this.#server === null && this.#serving !== null) {
      const serving = this.#serving;
      try {
        const options = { routes, address, port, clock, log, onReview, serving };
        this.#server = await startWebhookServer(options);
        // A newer certificate may have come meanwhile.
        this.#server.setCertificate(this.#serving);
        if (!this.#isStopped) this.#problem = null;
        log.info({ port: this.#server.port }, "the webhook answers");
      } catch (error) {
        if (!isHostError(error)) throw error;
        if (this.#problem !== error.message) log.error({ code: error.code }, error.message);
        this.#problem = error.message;
        await new Promise<void>((resolve) => void clock.after(LISTEN_PAUSE_MS, resolve));
      }
    }
  }
}
