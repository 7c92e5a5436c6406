/** The TLS 1.3 server of admission webhooks: reviews in, verdicts out, certificates swapped under running connections. */

import type { Server } from "node:https";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { admissionResponse, parseAdmissionReview } from "#src/codec/admission-codec.ts";
import type { AdmissionRequest, AdmissionVerdict } from "#src/model/admission.ts";
import type { Clock } from "#src/ports/clock.ts";
import { HostError } from "#src/ports/host-error.ts";
import type { Log } from "#src/ports/log.ts";

/** Decides one request. A throw, like a decision that takes too long, fails the call: the webhook's failurePolicy decides. */
export type AdmissionHandler = (
  request: AdmissionRequest,
) => AdmissionVerdict | Promise<AdmissionVerdict>;

export interface ServingCertificate {
  /** PEM, the leaf first. */
  readonly certificate: string;
  /** PEM. */
  readonly key: string;
}

/** `failed`: the API server got no verdict. */
export type ReviewOutcome = "allowed" | "patched" | "denied" | "failed";

export interface WebhookServerOptions {
  /** By path, e.g. `/inject`. */
  readonly routes: Readonly<Record<string, AdmissionHandler>>;
  readonly serving: ServingCertificate;
  readonly address: string;
  /** 0: any free one. */
  readonly port: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Hears of every review once it is answered. */
  readonly onReview?: (review: {
    readonly path: string;
    readonly outcome: ReviewOutcome;
    readonly durationMs: number;
  }) => void;
  /** How long the server goes on after `close` was called; see DRAIN_MS. */
  readonly drainMs?: number;
}

export interface WebhookServer {
  readonly port: number;
  /** New connections get this certificate; open ones go on as they are. Throws when key and certificate are no pair. */
  setCertificate(serving: ServingCertificate): void;
  /** Serves on until clients have turned away, then ends. */
  close(): Promise<void>;
}

/** An API server takes requests of 3 MiB at most, and an update shows the old object too; claims and pods are far smaller. */
const BODY_BYTES_MAX = 3 << 20;
/** Below the timeout of 10 s that our configurations name, so that the sentence arrives. */
const HANDLER_MS_MAX = 8_000;
/** A whole request must have arrived within this. */
const REQUEST_MS_MAX = 10_000;
const HANDSHAKE_MS_MAX = 5_000;
/**
 * Longer than the 90 s after which an API server (Go's http.Transport) lets go of an idle connection: if we were first, a review on its
 * way would hit a closed connection, and Go does not repeat a POST.
 */
const KEEP_ALIVE_MS = 120_000;
/** A few API servers with a pool each; bounds what strangers in the pod network can hold. */
const CONNECTIONS_MAX = 512;
/** EndpointSlices and kube-proxies need about this long to turn new connections away from a pod that ends. */
const DRAIN_MS = 5_000;

const TLS = { minVersion: "TLSv1.3", maxVersion: "TLSv1.3" } as const;

/** Starts to serve. Throws HostError `port-in-use`. */
export const startWebhookServer = async (options: WebhookServerOptions): Promise<WebhookServer> => {
  const app = fastify({
    https: { ...TLS, ...pair(options.serving), handshakeTimeout: HANDSHAKE_MS_MAX },
    bodyLimit: BODY_BYTES_MAX,
    requestTimeout: REQUEST_MS_MAX,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Only we know when clients have turned away; until then a 503 would be a failed admission.
    return503OnClosing: false,
    forceCloseConnections: "idle",
  });
  app.server.maxConnections = CONNECTIONS_MAX;
  let isDraining = false;
  app.addHook("onSend", async (_request, reply) => {
    if (isDraining) reply.header("connection", "close");
  });
  app.get("/healthz", async (_request, reply) => reply.type("text/plain").send("ok\n"));
  for (const [path, handler] of Object.entries(options.routes))
    addRoute(app, options, path, handler);
  app.setErrorHandler<Error & { statusCode?: number }>(async (error, _request, reply) =>
    reply.code(error.statusCode ?? 500).send({ message: error.message }),
  );
  const port = await listen(app, options);
  return {
    port,
    setCertificate: (serving) => {
      app.server.setSecureContext({ ...TLS, ...pair(serving) });
    },
    close: async () => {
      isDraining = true;
      await new Promise<void>((resolve) => {
        options.clock.after(options.drainMs ?? DRAIN_MS, resolve);
      });
      await app.close();
    },
  };
};

type App = FastifyInstance<Server>;

const addRoute = (
  app: App,
  options: WebhookServerOptions,
  path: string,
  handler: AdmissionHandler,
): void => {
  const { clock, log } = options;
  app.post(path, async (request: FastifyRequest, reply: FastifyReply) => {
    const startMs = clock.nowMs();
    const told = (outcome: ReviewOutcome): void => {
      options.onReview?.({ path, outcome, durationMs: clock.nowMs() - startMs });
    };
    const review = parseAdmissionReview(request.body);
    if (!review.ok) {
      told("failed");
      return reply.code(400).send({ message: review.problem });
    }
    try {
      const verdict = await decide(handler, review.value, clock);
      told(outcomeOf(verdict));
      return reply.send(admissionResponse(review.value.uid, verdict));
    } catch (error) {
      told("failed");
      const message = error instanceof Error ? error.message : String(error);
      log.error({ path, error }, `A review could not be decided: ${message}`);
      return reply.code(500).send({ message });
    }
  });
};

const decide = async (
  handler: AdmissionHandler,
  request: AdmissionRequest,
  clock: Clock,
): Promise<AdmissionVerdict> => {
  const late = Promise.withResolvers<never>();
  const cancel = clock.after(HANDLER_MS_MAX, () => {
    late.reject(new HostError("timeout", `no decision within ${HANDLER_MS_MAX} ms`));
  });
  try {
    return await Promise.race([handler(request), late.promise]);
  } finally {
    cancel();
  }
};

const outcomeOf = (verdict: AdmissionVerdict): ReviewOutcome => {
  switch (verdict.kind) {
    case "deny":
      return "denied";
    case "allow":
      return verdict.patch.length > 0 ? "patched" : "allowed";
  }
};

const pair = ({ certificate, key }: ServingCertificate): { cert: string; key: string } => ({
  cert: certificate,
  key,
});

const listen = async (app: App, { address, port }: WebhookServerOptions): Promise<number> => {
  try {
    await app.listen({ host: address, port });
  } catch (cause) {
    throw new HostError(
      "port-in-use",
      `webhook port ${address}:${port} can't be used (${cause instanceof Error ? cause.message : String(cause)}): choose another`,
      { cause },
    );
  }
  const bound = app.server.address();
  return typeof bound === "object" && bound !== null ? bound.port : port;
};
