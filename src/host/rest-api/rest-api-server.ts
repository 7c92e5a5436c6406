/** An HTTP API for programs outside of Kubernetes: callers known by token or certificate, rights as RBAC says, OpenAPI 3. */

import { TLSSocket } from "node:tls";
import swagger from "@fastify/swagger";
import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifySchema,
} from "fastify";
import { HostError, isHostError } from "#src/ports/host-error.ts";
import type { Log } from "#src/ports/log.ts";
import { CALLER_GROUPS_MAX, type Access, type Caller, type CallerReview } from "./caller-review.ts";

/** A request whose shape its schema has checked. */
export interface RestRequest {
  readonly body: unknown;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
}

export interface RestAnswer {
  readonly status: number;
  /** Null: no content. */
  readonly body: object | null;
}

export interface RestRoute {
  readonly method: "GET" | "POST" | "DELETE";
  /** Parameters as `:name`. */
  readonly path: string;
  readonly schema: FastifySchema & { readonly summary: string; readonly description?: string };
  /** What the caller must be allowed to do in Kubernetes; null: any known caller may. */
  readonly access: (request: RestRequest) => Access | null;
  readonly handle: (request: RestRequest, caller: Caller) => Promise<RestAnswer>;
}

export interface RestApiOptions {
  readonly address: string;
  /** 0: any free one. */
  readonly port: number;
  /** Null: plain HTTP, for a loopback address only. */
  readonly tls: RestApiTls | null;
  readonly title: string;
  readonly version: string;
  readonly routes: readonly RestRoute[];
  readonly callers: CallerReview;
  readonly log: Log;
}

/** PEM, all of it. */
export interface RestApiTls {
  readonly certificate: string;
  readonly key: string;
  /** Who signs callers' certificates; null: callers have tokens. */
  readonly clientAuthority: string | null;
}

export interface RestApiServer {
  readonly port: number;
  close(): Promise<void>;
}

/** Ten thousand CIDRs fit. */
const BODY_BYTES_MAX = 1 << 20;
const REQUEST_MS_MAX = 10_000;
const HANDSHAKE_MS_MAX = 5_000;
const CONNECTIONS_MAX = 256;
/** Each costs the API server a call or two. */
const REQUESTS_AT_ONCE_MAX = 64;
const LOOPBACK: ReadonlySet<string> = new Set(["127.0.0.1", "::1", "localhost"]);

/** Starts to serve. Throws HostError `port-in-use` or `bad-config`. */
export const startRestApi = async (options: RestApiOptions): Promise<RestApiServer> => {
  if (options.tls === null && !LOOPBACK.has(options.address)) {
    throw new HostError(
      "bad-config",
      `the REST API would send tokens in plain text from ${options.address}: give it a certificate, or the address 127.0.0.1`,
    );
  }
  const app = openApp(options.tls);
  app.server.maxConnections = CONNECTIONS_MAX;
  await app.register(swagger, {
    openapi: {
      openapi: "3.0.3",
      info: { title: options.title, version: options.version },
      components: { securitySchemes: { token: { type: "http", scheme: "bearer" } } },
      security: [{ token: [] }],
    },
  });
  app.get("/openapi.json", { schema: { hide: true } }, async () => app.swagger());
  app.get("/healthz", { schema: { hide: true } }, async (_request, reply) =>
    reply.type("text/plain").send("ok\n"),
  );
  const gate = new Gate(options);
  for (const route of options.routes) addRoute(app, route, { gate, log: options.log });
  app.setNotFoundHandler(async (request, reply) =>
    reply.code(404).send({
      problem: `there is no ${request.method} ${request.url.slice(0, 128)}: /openapi.json lists what there is`,
    }),
  );
  app.setErrorHandler<Error & { statusCode?: number; code?: string }>(
    async (error, _request, reply) => {
      const status = error.statusCode ?? 500;
      await reply.code(status).send({ problem: sentenceOf(error) });
    },
  );
  return { port: await listen(app, options), close: () => app.close() };
};

const openApp = (tls: RestApiTls | null): FastifyInstance => {
  const common = {
    bodyLimit: BODY_BYTES_MAX,
    requestTimeout: REQUEST_MS_MAX,
    forceCloseConnections: "idle",
    ajv: { customOptions: { coerceTypes: "array", removeAdditional: false } },
  } as const;
  if (tls === null) return fastify(common);
  return fastify({
    ...common,
    https: {
      minVersion: "TLSv1.3",
      cert: tls.certificate,
      key: tls.key,
      handshakeTimeout: HANDSHAKE_MS_MAX,
      // A caller without a certificate may have a token; who has neither is refused per request, with a sentence.
      ...(tls.clientAuthority === null
        ? {}
        : { ca: tls.clientAuthority, requestCert: true, rejectUnauthorized: false }),
    },
  }) as unknown as FastifyInstance;
};

const addRoute = (
  app: FastifyInstance,
  route: RestRoute,
  world: { readonly gate: Gate; readonly log: Log },
): void => {
  app.route({
    method: route.method,
    url: route.path,
    schema: route.schema,
    // Before the body is read: strangers send no megabytes.
    onRequest: (request, reply) => world.gate.identify(request, reply),
    handler: async (request, reply) => {
      const asked = requestOf(request);
      try {
        const caller = await world.gate.authorize(request, route.access(asked));
        const { status, body } = await route.handle(asked, caller);
        return await (body === null
          ? reply.code(status).send()
          : reply.code(status).type("application/json").send(jsonOf(body)));
      } catch (error) {
        if (error instanceof Refused)
          return await reply.code(error.status).send({ problem: error.message });
        if (!isHostError(error)) throw error;
        world.log.warn({ path: route.path, code: error.code }, error.message);
        const status = error.code === "invalid" ? 422 : error.code === "forbidden" ? 403 : 503;
        return await reply.code(status).send({ problem: error.message });
      }
    },
  });
};

class Refused extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Finds out who calls, and what they may do. */
class Gate {
  readonly #callers: CallerReview;
  readonly #log: Log;
  readonly #known = new WeakMap<FastifyRequest, Caller>();
  #busy = 0;

  constructor(options: { readonly callers: CallerReview; readonly log: Log }) {
    this.#callers = options.callers;
    this.#log = options.log;
  }

  async identify(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if (this.#busy >= REQUESTS_AT_ONCE_MAX) {
      await reply.code(429).header("retry-after", "1").send({
        problem: "too many requests at once: try again in a second",
      });
      return;
    }
    this.#busy += 1;
    reply.raw.once("close", () => {
      this.#busy -= 1;
    });
    try {
      const caller = certifiedCaller(request) ?? (await this.#tokenCaller(request));
      if (caller !== null) {
        this.#known.set(request, caller);
        return;
      }
    } catch (error) {
      if (!isHostError(error)) throw error;
      this.#log.warn({ code: error.code }, error.message);
      await reply
        .code(503)
        .send({ problem: `the API server can't be asked who you are: ${error.message}` });
      return;
    }
    await reply.code(401).header("www-authenticate", "Bearer").send({
      problem:
        "it is not known who you are: send a token of the seed's API server (Authorization: Bearer ...), or a client certificate",
    });
  }

  async #tokenCaller(request: FastifyRequest): Promise<Caller | null> {
    const [scheme = "", token = ""] = (request.headers.authorization ?? "").split(" ");
    return scheme.toLowerCase() === "bearer" ? await this.#callers.callerOf(token) : null;
  }

  async authorize(request: FastifyRequest, access: Access | null): Promise<Caller> {
    const caller = this.#known.get(request);
    if (caller === undefined) throw new Refused(401, "it is not known who you are");
    if (access === null || (await this.#callers.mayAccess(caller, access))) return caller;
    const where = access.namespace === undefined ? "" : ` in namespace ${access.namespace}`;
    throw new Refused(
      403,
      `${caller.user} may not ${access.verb} ${access.resource}.${access.group}${where}: bind a role that allows it`,
    );
  }
}

/** As Kubernetes reads a client certificate: CN is the user, each O a group. */
const certifiedCaller = ({ raw }: FastifyRequest): Caller | null => {
  const { socket } = raw;
  if (!(socket instanceof TLSSocket) || !socket.authorized) return null;
  const { CN: user, O: groups } = socket.getPeerCertificate().subject;
  const one = (value: string | readonly string[] | undefined): readonly string[] =>
    value === undefined ? [] : typeof value === "string" ? [value] : value;
  const [name] = one(user);
  if (name === undefined || name === "") return null;
  return { user: name, groups: [...one(groups).slice(0, CALLER_GROUPS_MAX - 1), AUTHENTICATED] };
};

const AUTHENTICATED = "system:authenticated";

const requestOf = (request: FastifyRequest): RestRequest => ({
  body: request.body,
  params: textsOf(request.params),
  query: { ...Object(request.query) },
});

const textsOf = (params: unknown): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(Object(params)).map(([name, value]) => [name, String(value)]));

/** Numbers of IPv6 addresses do not fit into a JSON number. */
const jsonOf = (body: object): string =>
  JSON.stringify(body, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));

const sentenceOf = (error: Error & { readonly code?: string }): string => {
  switch (error.code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE":
      return `the body is larger than ${BODY_BYTES_MAX} bytes: ask in parts`;
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return "the body must be JSON (Content-Type: application/json)";
    case "FST_ERR_VALIDATION":
      return `the request is not as /openapi.json says: ${error.message.slice(0, 256)}`;
    case undefined:
    default:
      return error.message.slice(0, 256);
  }
};

const listen = async (app: FastifyInstance, options: RestApiOptions): Promise<number> => {
  const { address, port } = options;
  try {
    await app.listen({ host: address, port });
  } catch (cause) {
    throw new HostError(
      "port-in-use",
      `REST API port ${address}:${port} can't be used (${cause instanceof Error ? cause.message : String(cause)}): choose another`,
      { cause },
    );
  }
  const bound = app.server.address();
  return typeof bound === "object" && bound !== null ? bound.port : port;
};
