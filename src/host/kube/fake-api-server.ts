/** A loopback HTTP server that answers as told, for tests of what goes over the wire. */

import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";

export interface SeenRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly authorization: string | null;
  readonly contentType: string | null;
  readonly body: string;
}

export type Answer = (response: ServerResponse, request: SeenRequest) => void;

export class FakeApiServer {
  readonly seen: SeenRequest[] = [];
  /** Answers of the next requests in order; then `otherwise`. */
  readonly script: Answer[] = [];
  otherwise: Answer = status(404, "NotFound", "nothing is scripted");
  readonly #server = createServer((request, response) => {
    void this.#answer(request, response);
  });
  #url = "";

  get url(): string {
    return this.#url;
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => {
      this.#server.listen(0, "127.0.0.1", resolve);
    });
    const address = this.#server.address();
    if (typeof address === "object" && address !== null) {
      this.#url = `http://127.0.0.1:${address.port}`;
    }
    return this;
  }

  /** Breaks every connection without a goodbye. */
  reset(): void {
    this.#server.closeAllConnections();
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => {
      this.#server.close(() => {
        resolve();
      });
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) if (chunk instanceof Buffer) chunks.push(chunk);
    } catch {
      return;
    }
    const seen: SeenRequest = {
      method: request.method ?? "",
      path: request.url ?? "",
      authorization: request.headers.authorization ?? null,
      contentType: request.headers["content-type"] ?? null,
      body: Buffer.concat(chunks).toString("utf8"),
    };
    this.seen.push(seen);
    (this.script.shift() ?? this.otherwise)(response, seen);
  }
}

/** Answers JSON. */
export const json =
  (value: unknown, code = 200, headers: Record<string, string> = {}): Answer =>
  (response) => {
    response.writeHead(code, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify(value));
  };

/** Answers a Status object, as API servers refuse. */
export const status = (
  code: number,
  reason: string,
  message: string,
  headers: Record<string, string> = {},
): Answer => json({ kind: "Status", apiVersion: "v1", reason, message, code }, code, headers);

/** Answers a list. */
export const list = (items: readonly object[], resourceVersion: string, next?: string): Answer =>
  json({ metadata: { resourceVersion, ...(next === undefined ? {} : { continue: next }) }, items });

/** Answers these bytes and goes on only as `then` says; null: says nothing more. */
export const raw =
  (text: string, then: "end" | "reset" | null, headers: Record<string, string> = {}): Answer =>
  (response) => {
    response.writeHead(200, { "content-type": "application/json", ...headers });
    response.flushHeaders();
    if (text !== "") response.write(text);
    if (then === "end") response.end();
    if (then === "reset") setImmediate(() => response.socket?.resetAndDestroy());
  };

/** Never answers. */
export const silence: Answer = () => undefined;

/** Answers a watch with these events and stays open. */
export const watching = (events: readonly object[]): Answer =>
  raw(events.map((event) => `${JSON.stringify(event)}\n`).join(""), null);
