/** HTTP to one API server: kept-alive connections, bounded time and size, credentials that may change. */

import { readFile } from "node:fs/promises";
import http from "node:http";
import https from "node:https";
import { createSecureContext } from "node:tls";
import type { Clock } from "#src/ports/clock.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { CredentialsSource, KubeAuth, KubeCredentials } from "./credentials.ts";
import {
  KubeError,
  codeOfStatus,
  describeBreak,
  isReset,
  parseRetryAfter,
  readStatus,
} from "./kube-failure.ts";

export const CALL_MS_MAX = 10_000;
export const BODY_BYTES_MAX = 64 << 20;
/** Bound tokens are renewed by the kubelet well before they expire; client-go looks once a minute too. */
const TOKEN_AGE_MS_MAX = 60_000;
/** A changed kubeconfig is noticed within this time. */
const CREDENTIALS_AGE_MS_MAX = 60_000;
const SOCKETS_MAX = 16;

export interface TransportOptions {
  readonly credentials: CredentialsSource;
  readonly clock: Clock;
  readonly userAgent: string;
  readonly callMsMax?: number;
  readonly bodyBytesMax?: number;
}

export interface KubeRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  /** For messages: `list nodes`. */
  readonly what: string;
  readonly body?: object;
  readonly contentType?: string;
  readonly signal?: AbortSignal;
}

interface Session {
  readonly credentials: KubeCredentials;
  readonly agent: http.Agent;
  readonly readAtMs: number;
}

export class KubeTransport {
  readonly #options: TransportOptions;
  #session: Session | null = null;
  #token: { readonly path: string; readonly text: string; readonly readAtMs: number } | null = null;
  #isClosed = false;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  /** The server's URL once it is known, for messages. */
  get server(): string {
    return this.#session?.credentials.server ?? "the API server";
  }

  /** One call with a JSON answer. Throws KubeError; the message names server, verb and object. */
  async call(request: KubeRequest): Promise<unknown> {
    let response = await this.#open(request, false);
    if (response.statusCode === 401) {
      response.destroy();
      response = await this.#open(request, true);
    }
    const text = await this.#read(request, response);
    if ((response.statusCode ?? 0) >= 300) throw this.#refusal(request, response, text);
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw this.#error(request, "bad-response", "the answer is not JSON", { cause });
    }
  }

  /** A long answer, chunk by chunk. Resolves at its clean end; throws KubeError when it breaks. */
  async stream(
    request: KubeRequest,
    handlers: { readonly onOpen: () => void; readonly onChunk: (chunk: Uint8Array) => void },
  ): Promise<void> {
    let response = await this.#open(request, false);
    if (response.statusCode === 401) {
      response.destroy();
      response = await this.#open(request, true);
    }
    if ((response.statusCode ?? 0) >= 300) {
      throw this.#refusal(request, response, await this.#read(request, response));
    }
    await new Promise<void>((resolve, reject) => {
      const fail = (error: unknown): void => {
        response.destroy();
        reject(
          isHostError(error)
            ? this.#error(request, "bad-response", error.message)
            : this.#broken(request, error),
        );
      };
      response.on("data", (chunk: Uint8Array) => {
        try {
          handlers.onChunk(chunk);
        } catch (error) {
          fail(error);
        }
      });
      response.on("end", resolve);
      response.on("error", fail);
      response.on("close", () => {
        fail(new Error("the connection was closed"));
      });
      handlers.onOpen();
    });
  }

  /** Closes all connections; later calls fail with `unreachable`. */
  close(): void {
    this.#isClosed = true;
    this.#session?.agent.destroy();
  }

  async #open(request: KubeRequest, fresh: boolean): Promise<http.IncomingMessage> {
    const session = await this.#connect(fresh);
    const body = request.body === undefined ? null : Buffer.from(JSON.stringify(request.body));
    const headers = {
      ...(await this.#headers(session.credentials.auth, fresh, request)),
      // Without a length Node sends the body of a DELETE unframed, and the server reads it as the next request.
      ...(body === null
        ? {}
        : {
            "content-type": request.contentType ?? "application/json",
            "content-length": body.length,
          }),
    };
    if (this.#isClosed) throw this.#error(request, "unreachable", "the client is closed");
    try {
      return await this.#send(request, session, { headers, body });
    } catch (error) {
      // A kept-alive connection that the server closed meanwhile: safe to repeat only for reads.
      if (!(error instanceof StaleSocket)) throw error;
      if (request.method === "GET" && request.signal?.aborted !== true) {
        return await this.#send(request, session, {
          headers: { ...headers, connection: "close" },
          body,
        });
      }
      throw this.#broken(request, error.cause);
    }
  }

  #send(
    request: KubeRequest,
    session: Session,
    message: { readonly headers: http.OutgoingHttpHeaders; readonly body: Buffer | null },
  ): Promise<http.IncomingMessage> {
    const { credentials, agent } = session;
    const url = new URL(credentials.server + request.path);
    const options = {
      method: request.method,
      headers: message.headers,
      agent,
      ...(request.signal === undefined ? {} : { signal: request.signal }),
    };
    return new Promise((resolve, reject) => {
      const call =
        url.protocol === "https:" ? https.request(url, options) : http.request(url, options);
      let isLate = false;
      const limitMs = this.#options.callMsMax ?? CALL_MS_MAX;
      const cancel = this.#options.clock.after(limitMs, () => {
        isLate = true;
        call.destroy();
      });
      call.on("response", (response) => {
        cancel();
        resolve(response);
      });
      call.on("error", (cause) => {
        cancel();
        if (isLate) {
          reject(
            this.#error(
              request,
              "timeout",
              `no answer within ${limitMs / 1000} s; check the server's address and the way to it`,
            ),
          );
        } else if (call.reusedSocket && isReset(cause)) reject(new StaleSocket(cause));
        else reject(this.#broken(request, cause));
      });
      call.end(message.body ?? undefined);
    });
  }

  async #read(request: KubeRequest, response: http.IncomingMessage): Promise<string> {
    const limit = this.#options.bodyBytesMax ?? BODY_BYTES_MAX;
    const limitMs = this.#options.callMsMax ?? CALL_MS_MAX;
    let isLate = false;
    const cancel = this.#options.clock.after(limitMs, () => {
      isLate = true;
      response.destroy();
    });
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    try {
      for await (const chunk of response) {
        if (!(chunk instanceof Uint8Array)) continue;
        bytes += chunk.length;
        if (bytes > limit) {
          throw this.#error(request, "bad-response", `the answer is longer than ${limit} bytes`);
        }
        chunks.push(chunk);
      }
    } catch (error) {
      if (isLate)
        throw this.#error(request, "timeout", `no full answer within ${limitMs / 1000} s`);
      if (error instanceof KubeError) throw error;
      throw this.#broken(request, error);
    } finally {
      cancel();
      response.destroy();
    }
    return Buffer.concat(chunks).toString("utf8");
  }

  async #connect(fresh: boolean): Promise<Session> {
    const nowMs = this.#options.clock.nowMs();
    const held = this.#session;
    if (held !== null && !fresh && nowMs - held.readAtMs < CREDENTIALS_AGE_MS_MAX) return held;
    const credentials = await this.#options.credentials.read({ fresh });
    if (held !== null && held.credentials === credentials) {
      this.#session = { ...held, readAtMs: nowMs };
      return this.#session;
    }
    // Idle connections of the old credentials go now, busy ones when the server ends them.
    for (const sockets of Object.values(held?.agent.freeSockets ?? {})) {
      for (const socket of sockets ?? []) socket.destroy();
    }
    const agent = this.#agentFor(credentials);
    this.#session = { credentials, agent, readAtMs: nowMs };
    return this.#session;
  }

  #agentFor(credentials: KubeCredentials): http.Agent {
    try {
      return openAgent(credentials);
    } catch (cause) {
      const origin = this.#options.credentials.origin ?? "this client";
      const why = cause instanceof Error ? cause.message : String(cause);
      const text = `the certificates and the key of ${origin} can't be used together (${why}): write them anew`;
      throw new KubeError("bad-credentials", `${credentials.server}: ${text}`, { cause });
    }
  }

  async #headers(
    auth: KubeAuth,
    fresh: boolean,
    request: KubeRequest,
  ): Promise<http.OutgoingHttpHeaders> {
    const token = await this.#bearer(request, auth, fresh);
    return {
      accept: "application/json",
      "user-agent": this.#options.userAgent,
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    };
  }

  async #bearer(request: KubeRequest, auth: KubeAuth, fresh: boolean): Promise<string | null> {
    switch (auth.kind) {
      case "none":
      case "client-certificate":
        return null;
      case "token":
        return auth.token.reveal();
      case "token-file": {
        const nowMs = this.#options.clock.nowMs();
        const held = this.#token;
        if (held?.path === auth.path && !fresh && nowMs - held.readAtMs < TOKEN_AGE_MS_MAX) {
          return held.text;
        }
        const text = await readFile(auth.path, "utf8").catch((cause: unknown) => {
          throw this.#error(
            request,
            "bad-credentials",
            `the token file ${auth.path} can't be read`,
            {
              cause,
            },
          );
        });
        this.#token = { path: auth.path, text: text.trim(), readAtMs: nowMs };
        return this.#token.text;
      }
    }
  }

  #error(
    request: KubeRequest,
    code: KubeError["code"],
    what: string,
    options: { cause?: unknown; retryAfterMs?: number | null } = {},
  ): KubeError {
    return new KubeError(code, `${this.server}: ${request.what}: ${what}`, options);
  }

  #broken(request: KubeRequest, cause: unknown): KubeError {
    if (request.signal?.aborted === true) {
      return this.#error(request, "unreachable", "the call was given up", { cause });
    }
    // Perhaps the server's address or authority was wrong and has been put right: look again before the next call.
    if (this.#session !== null) {
      this.#session = { ...this.#session, readAtMs: Number.NEGATIVE_INFINITY };
    }
    return this.#error(request, "unreachable", describeBreak(cause), { cause });
  }

  #refusal(request: KubeRequest, response: http.IncomingMessage, text: string): KubeError {
    const status = response.statusCode ?? 0;
    const fields = readStatus(text);
    const code = codeOfStatus(status, fields.reason);
    const said = fields.message ?? `HTTP ${status}`;
    const origin = this.#options.credentials.origin ?? "this client";
    const detail =
      code === "unauthorized"
        ? `the credentials of ${origin} are refused (${said}): renew the token or certificate in it`
        : said;
    const retryAfterMs = parseRetryAfter(response.headers["retry-after"]);
    return this.#error(request, code, detail, { retryAfterMs });
  }
}

/** A kept-alive connection that was dead already; never leaves this file. */
class StaleSocket extends Error {
  constructor(cause: unknown) {
    super("stale connection", { cause });
  }
}

const openAgent = (credentials: KubeCredentials): http.Agent => {
  const settings = { keepAlive: true, maxSockets: SOCKETS_MAX };
  if (credentials.server.startsWith("http:")) return new http.Agent(settings);
  // Once for all connections: Node would read certificates and key anew for each of them, 5 ms a time.
  const secureContext = createSecureContext({
    ...(credentials.ca === null ? {} : { ca: credentials.ca }),
    ...(credentials.auth.kind === "client-certificate"
      ? { cert: credentials.auth.certificate, key: credentials.auth.key.reveal() }
      : {}),
  });
  return new https.Agent({
    ...settings,
    secureContext,
    rejectUnauthorized: !credentials.isInsecure,
    ...(credentials.tlsServerName === null ? {} : { servername: credentials.tlsServerName }),
  });
};
