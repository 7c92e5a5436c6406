/** The small HTTP server of a gateway or agent: /healthz, /readyz, /metrics and /status (JSON). */

import { createServer, type Server } from "node:http";
import { HostError } from "#src/ports/host-error.ts";

/** What the server shows. `readiness` null: ready; else the sentence that says why not. */
export interface StatusSource {
  readiness(): string | null;
  /** JSON-able; must hold no key and no token. */
  status(): object;
  metrics(): Promise<{ contentType: string; text: string }>;
  /** Further pages by path; null: there is none. */
  page?(path: string): StatusPage | null;
}

export interface StatusPage {
  readonly code: number;
  readonly contentType: string;
  readonly text: string;
}

export interface StatusServer {
  readonly port: number;
  close(): Promise<void>;
}

/** A slow or hostile client holds a socket for this long at most. */
const REQUEST_TIMEOUT_MS = 5_000;
const CONNECTIONS_MAX = 32;

const answer = async (source: StatusSource, path: string): Promise<[number, string, string]> => {
  switch (path) {
    case "/healthz":
      return [200, "text/plain", "ok\n"];
    case "/readyz": {
      const problem = source.readiness();
      return problem === null ? [200, "text/plain", "ok\n"] : [503, "text/plain", `${problem}\n`];
    }
    case "/metrics": {
      const { contentType, text } = await source.metrics();
      return [200, contentType, text];
    }
    case "/status":
      return [200, "application/json", `${JSON.stringify(source.status(), null, 2)}\n`];
    default: {
      const page = source.page?.(path) ?? null;
      if (page !== null) return [page.code, page.contentType, page.text];
      return [404, "text/plain", "try /healthz, /readyz, /metrics or /status\n"];
    }
  }
};

const listen = (server: Server, address: string, port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const what =
        cause.code === "EADDRINUSE"
          ? "is taken by another process"
          : `can't be used (${cause.code})`;
      reject(
        new HostError(
          "port-in-use",
          `status port ${address}:${port} ${what}: choose another with --status-port`,
          { cause },
        ),
      );
    });
    server.listen(port, address, () => {
      const bound = server.address();
      resolve(typeof bound === "object" && bound !== null ? bound.port : port);
    });
  });

/** Starts the server; port 0 takes any free one. Throws HostError `port-in-use`. */
export const startStatusServer = async (
  source: StatusSource,
  where: { readonly address: string; readonly port: number },
): Promise<StatusServer> => {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://status");
    void answer(source, pathname)
      .catch((error: unknown): [number, string, string] => [
        500,
        "text/plain",
        `${String(error)}\n`,
      ])
      .then(([code, contentType, text]) => {
        response.writeHead(code, { "content-type": contentType }).end(text);
      });
  });
  server.requestTimeout = REQUEST_TIMEOUT_MS;
  server.headersTimeout = REQUEST_TIMEOUT_MS;
  server.maxConnections = CONNECTIONS_MAX;
  const port = await listen(server, where.address, where.port);
  server.unref();
  return {
    port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
};

/**
 * The same on localhost besides, where the address is one of the network: a Prometheus of the same pod finds it there
 * without knowing the pod's address. Throws HostError `port-in-use`.
 */
export const startStatusServers = async (
  source: StatusSource,
  where: { readonly address: string; readonly port: number },
): Promise<StatusServer> => {
  const server = await startStatusServer(source, where);
  if (["127.0.0.1", "0.0.0.0", "::"].includes(where.address)) return server;
  try {
    const local = await startStatusServer(source, { address: "127.0.0.1", port: server.port });
    const close = async (): Promise<void> => {
      await Promise.all([server.close(), local.close()]);
    };
    return { port: server.port, close };
  } catch (error) {
    await server.close();
    throw error;
  }
};
