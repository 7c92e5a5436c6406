/** The server that API servers call for admission, from the first certificate on, and the certificates that make it trusted. */

import {
  type AdmissionHandler,
  startWebhookServer,
  type WebhookServer,
} from "#src/host/webhook/webhook-server.ts";
import type { CertificateGeneration } from "#src/model/webhook-certificates.ts";
import type { Clock } from "#src/ports/clock.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube } from "#src/ports/kube.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import { type BundleTarget, CertificateKeeper } from "./certificates.ts";
import type { OnReview } from "./webhook-metrics.ts";

export interface WebhookSettings {
  readonly address: string;
  readonly port: number;
  /** Name of the Service in the controller's namespace that API servers call. */
  readonly service: string;
  /** Namespace of this controller. */
  readonly ownNamespace: string;
}

export interface WebhookServiceParts {
  readonly kube: Kube;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly settings: WebhookSettings;
  /** Further names and IPv4 addresses that configurations with a `url` call the webhook by. */
  readonly names?: readonly string[];
  /** By path. */
  readonly routes: Readonly<Record<string, AdmissionHandler>>;
  /** The configurations whose caBundles are kept. */
  readonly targets: readonly BundleTarget[];
  readonly onReview: OnReview;
}

export interface WebhookService {
  /** Null: it answers, and is trusted; else why not. */
  problem(): string | null;
  status(): object;
  /** Null: there is no certificate to serve with yet. */
  port(): number | null;
  /** Milliseconds since 1970; null: there is no certificate yet. */
  certificateEndsMs(): number | null;
  /** Takes some seconds, see `WebhookServer.close`. */
  stop(): Promise<void>;
}

/** Between two tries to listen, e.g. because the port is still held by the container before. */
const LISTEN_PAUSE_MS = 1_000;

/** Starts at once and returns; it serves as soon as there is a certificate. */
export const startWebhookService = (parts: WebhookServiceParts): WebhookService => {
  const { settings } = parts;
  const listener = new Listener(parts);
  const keeper = new CertificateKeeper({
    ...parts,
    secret: { namespace: settings.ownNamespace, name: `${settings.service}-certificates` },
    names: [`${settings.service}.${settings.ownNamespace}.svc`, ...(parts.names ?? [])],
    onServe: (serving) => listener.serve(serving),
  });
  return {
    problem: () => keeper.problem() ?? listener.problem(),
    status: () => ({ certificates: keeper.status() }),
    port: () => listener.port,
    certificateEndsMs: () => keeper.serving?.notAfterMs ?? null,
    stop: async () => {
      // The server first: it answers until API servers have turned away.
      await listener.stop();
      await keeper.stop();
    },
  };
};

/** The server, from the first certificate on. */
class Listener {
  readonly #parts: WebhookServiceParts;
  #server: WebhookServer | null = null;
  #starting: Promise<void> | null = null;
  #serving: CertificateGeneration | null = null;
  #problem: string | null = "there is no certificate to serve with yet";
  #isStopped = false;

  constructor(parts: WebhookServiceParts) {
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
