/** Puts the allocator together: its loop, its REST API, its part of the webhook, its metrics. */

import { readFile } from "node:fs/promises";
import { Gauge, Registry } from "prom-client";
import { CallerReview } from "#src/host/rest-api/caller-review.ts";
import {
  type RestApiServer,
  type RestApiTls,
  startRestApi,
} from "#src/host/rest-api/rest-api-server.ts";
import type { AdmissionHandler } from "#src/host/webhook/webhook-server.ts";
import type { Clock } from "#src/ports/clock.ts";
import { HostError, isHostError } from "#src/ports/host-error.ts";
import type { Kube } from "#src/ports/kube.ts";
import { VALIDATING_WEBHOOKS } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import { admitAllocation } from "#src/reconcile/allocation-admission.ts";
import { AllocationStore } from "#src/reconcile/allocation-store.ts";
import { AllocatorLoop } from "./allocator-loop.ts";
import type { AllocatorSettings, ApiSettings } from "./allocator-options.ts";
import { networkRoutes } from "./network-api.ts";
import { addWebhookMetrics } from "./webhook-metrics.ts";
import { startWebhookService, type WebhookService } from "./webhook-service.ts";

/** The path of the allocator's webhook. */
export const ALLOCATOR_PATH = "/allocation";

export interface AllocatorServiceParts {
  readonly kube: Kube;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly settings: AllocatorSettings;
  readonly version: string;
  /** Further names and IPv4 addresses that configurations with a `url` call the webhook by. */
  readonly names?: readonly string[];
}

export interface AllocatorService {
  /** Null: everything was listed, and the REST API answers where there is to be one. */
  problem(): string | null;
  status(): object;
  /** Merge it into the program's scrape with `Registry.merge`. */
  readonly registry: Registry;
  /** The webhook's handler, for the injector's server. */
  readonly review: AdmissionHandler;
  /** The port of its own webhook; null: there is no certificate to serve with yet, or the injector serves it. */
  webhookPort(): number | null;
  /** The REST API's port; null: it does not answer, or there is none. */
  apiPort(): number | null;
  /** Idempotent. */
  stop(): Promise<void>;
}

/** Starts at once and returns; nothing is granted before everything was listed. */
export const startAllocatorService = (parts: AllocatorServiceParts): AllocatorService => {
  const { kube, settings } = parts;
  const loop = new AllocatorLoop(parts);
  const api = settings.api === null ? null : new Api(parts, settings.api, loop);
  const registry = metricsOf(loop);
  // A store of its own: what a review asks is asked anew each time.
  const review: AdmissionHandler = (request) =>
    admitAllocation(request, {
      facts: loop.facts(),
      isGone: (owner) => new AllocationStore(kube).isGone(owner),
    });
  const webhook = openWebhook(parts, { registry, review });
  const stop = async (): Promise<void> => {
    // The webhook first: it answers until API servers have turned away.
    await webhook?.stop();
    await api?.stop();
    await loop.stop();
  };
  let stopped: Promise<void> | null = null;
  return {
    problem: () => loop.problem() ?? webhook?.problem() ?? api?.problem() ?? null,
    status: () => ({
      ...loop.status(),
      apiPort: api?.port() ?? null,
      webhook: webhook?.status() ?? null,
    }),
    registry,
    review,
    webhookPort: () => webhook?.port() ?? null,
    apiPort: () => api?.port() ?? null,
    stop: () => (stopped ??= stop()),
  };
};

/** Null: there is none of its own. */
const openWebhook = (
  parts: AllocatorServiceParts,
  { registry, review }: { readonly registry: Registry; readonly review: AdmissionHandler },
): WebhookService | null => {
  const { webhook: settings, configuration } = parts.settings;
  if (settings === null) return null;
  const webhook: WebhookService = startWebhookService({
    ...parts,
    settings,
    routes: { [ALLOCATOR_PATH]: review },
    targets: [{ resource: VALIDATING_WEBHOOKS, name: configuration }],
    onReview: addWebhookMetrics(registry, {
      certificateEndsMs: () => webhook.certificateEndsMs(),
    }),
  });
  return webhook;
};

const metricsOf = (loop: AllocatorLoop): Registry => {
  const registry = new Registry();
  registry.registerMetric(
    new Gauge({
      name: "xylem_network_claims",
      help: "NetworkClaims by how they were answered last",
      labelNames: ["answer"],
      registers: [],
      collect() {
        this.reset();
        for (const [answer, count] of loop.counts().answers) this.set({ answer }, count);
      },
    }),
  );
  registry.registerMetric(
    new Gauge({
      name: "xylem_network_blocks",
      help: "Allocated blocks",
      registers: [],
      collect() {
        this.set(loop.counts().blocks);
      },
    }),
  );
  return registry;
};

/** Between two tries to listen, e.g. because the port is still held by the container before. */
const LISTEN_PAUSE_MS = 1_000;

/** The REST API's server: tried until it listens, so that a bad port stops no allocation. */
class Api {
  readonly #parts: AllocatorServiceParts;
  readonly #settings: ApiSettings;
  readonly #started: Promise<void>;
  #server: RestApiServer | null = null;
  #problem: string | null = "the REST API has not started yet";
  #isStopped = false;
  #wake: () => void = () => undefined;

  constructor(parts: AllocatorServiceParts, settings: ApiSettings, loop: AllocatorLoop) {
    this.#parts = parts;
    this.#settings = settings;
    this.#started = this.#start(loop);
  }

  problem(): string | null {
    return this.#problem;
  }

  port(): number | null {
    return this.#server?.port ?? null;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#wake();
    await this.#started;
    await this.#server?.close();
  }

  async #start(loop: AllocatorLoop): Promise<void> {
    const { kube, clock, log, version } = this.#parts;
    const { address, port } = this.#settings;
    while (!this.#isStopped && this.#server === null) {
      try {
        this.#server = await startRestApi({
          address,
          port,
          tls: await readTls(this.#settings.tls),
          title: "Xylem address ranges",
          version,
          routes: networkRoutes({ kube, clock, facts: () => loop.facts() }),
          callers: new CallerReview({ kube, clock }),
          log,
        });
        this.#problem = null;
        log.info({ port: this.#server.port }, "the REST API answers");
      } catch (error) {
        if (!isHostError(error)) throw error;
        if (this.#problem !== error.message) log.error({ code: error.code }, error.message);
        this.#problem = error.message;
        await this.#pause(clock);
      }
    }
  }

  async #pause(clock: Clock): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const cancel = clock.after(LISTEN_PAUSE_MS, resolve);
    await promise;
    cancel();
  }
}

const readTls = async (paths: ApiSettings["tls"]): Promise<RestApiTls | null> => {
  if (paths === null) return null;
  const [certificate, key, clientAuthority] = await Promise.all([
    readPem(paths.certificate),
    readPem(paths.key),
    paths.clientAuthority === null ? null : readPem(paths.clientAuthority),
  ]);
  return { certificate, key, clientAuthority };
};

const readPem = async (path: string): Promise<string> => {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new HostError("bad-config", `the REST API's file can't be read: ${why}`, { cause });
  }
};
