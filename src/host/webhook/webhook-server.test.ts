/** The webhook server over real TLS on loopback: verdicts, bounds, failures, certificates swapped, a quiet end. */

import { Agent, request as httpsRequest } from "node:https";
import type { TLSSocket } from "node:tls";
import t from "tap";
import { realClock } from "#src/host/clock.ts";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { Authority } from "#src/host/x509/authority.ts";
import type { Clock } from "#src/ports/clock.ts";
import {
  type AdmissionHandler,
  type ServingCertificate,
  startWebhookServer,
  type WebhookServer,
} from "./webhook-server.ts";

const HOST = "xylem.xylem.svc";

const routes: Readonly<Record<string, AdmissionHandler>> = {
  "/inject": () => ({
    kind: "allow",
    warnings: [],
    patch: [{ op: "add", path: "/metadata/annotations", value: {} }],
  }),
  "/deny": async () => ({ kind: "deny", code: 403, message: "no" }),
  "/broken": () => {
    throw new Error("a bug");
  },
  "/never": () => new Promise(() => undefined),
};

void t.test("a review is answered with the handler's verdict, over TLS 1.3", async (t) => {
  const { server, call, outcomes } = await open(t);
  const answer = await call("/inject", review("p1"));
  t.equal(answer.status, 200);
  t.equal(answer.protocol, "TLSv1.3");
  t.equal(answer.keepAlive, "timeout=120", "longer than the 90 s of an API server's pool");
  t.match(JSON.parse(answer.text), {
    response: { uid: "p1", allowed: true, patchType: "JSONPatch" },
  });
  t.match(JSON.parse((await call("/deny", review("p2"))).text), {
    response: { uid: "p2", allowed: false, status: { code: 403, message: "no" } },
  });
  t.strictSame(outcomes, ["/inject patched", "/deny denied"]);
  t.equal((await call("/healthz")).text, "ok\n");
  await server.close();
});

void t.test("TLS 1.2 is refused", async (t) => {
  const { server, authority } = await open(t);
  const agent = new Agent({ ca: authority.certificate, servername: HOST, maxVersion: "TLSv1.2" });
  await t.rejects(send(agent, server.port, "/healthz"), /version|alert/iu);
  await server.close();
});

const bad: readonly {
  readonly name: string;
  readonly path: string;
  readonly body: string;
  readonly status: number;
}[] = [
  { name: "a body that is no JSON", path: "/inject", body: "{", status: 400 },
  { name: "a body that is no review", path: "/inject", body: '{"kind":"Pod"}', status: 400 },
  { name: "a body above 3 MiB", path: "/inject", body: `"${"x".repeat(3 << 20)}"`, status: 413 },
  { name: "a path that nobody serves", path: "/other", body: review("p"), status: 404 },
  { name: "a handler that throws", path: "/broken", body: review("p"), status: 500 },
];
for (const { name, path, body, status } of bad) {
  void t.test(
    `${name} is answered with ${status}, and the next review with its verdict`,
    async (t) => {
      const { server, call } = await open(t);
      t.equal((await call(path, body)).status, status);
      t.equal((await call("/inject", review("p"))).status, 200);
      await server.close();
    },
  );
}

void t.test(
  "a handler that never decides fails the call before the API server gives up",
  async (t) => {
    const clock = new FakeClock();
    const { server, call, outcomes } = await open(t, clock);
    const answer = call("/never", review("p"));
    while (clock.pending === 0) await new Promise((resolve) => void setImmediate(resolve));
    t.ok((clock.nextInMs ?? Infinity) < 10_000);
    await clock.advance(10_000);
    t.match(await answer, { status: 500, text: /no decision within/ });
    t.strictSame(outcomes, ["/never failed"]);
    const closed = server.close();
    await clock.advance(10_000);
    await closed;
  },
);

void t.test("a new certificate is for new connections, and an open one goes on", async (t) => {
  const { server, agent, call } = await open(t);
  const before = await call("/healthz");
  const next = new Authority("next", validity());
  server.setCertificate(leaf(next));
  const after = await call("/healthz");
  t.equal(after.localPort, before.localPort, "the same connection");
  const fresh = new Agent({ ca: next.certificate, servername: HOST });
  t.equal((await send(fresh, server.port, "/healthz")).status, 200);
  const old = new Agent({ ca: agent.options.ca, servername: HOST });
  await t.rejects(send(old, server.port, "/healthz"), "a new connection gets the new certificate");
  fresh.destroy();
  await server.close();
});

void t.test(
  "a certificate and key that are no pair are refused, and the old ones stay",
  async (t) => {
    const { server, call, authority } = await open(t);
    const wrong = { certificate: leaf(authority).certificate, key: leaf(authority).key };
    t.throws(() => server.setCertificate(wrong));
    t.equal((await call("/healthz")).status, 200);
    await server.close();
  },
);

void t.test("while the server ends it still answers, and asks clients to turn away", async (t) => {
  const clock = new FakeClock();
  const { server, call } = await open(t, clock);
  t.equal((await call("/inject", review("p1"))).connection, "keep-alive");
  const closed = server.close();
  const last = await call("/inject", review("p2"));
  t.match(last, { status: 200, connection: "close" });
  t.match(JSON.parse(last.text), { response: { uid: "p2", allowed: true } });
  await clock.advance(10_000);
  await closed;
  await t.rejects(call("/healthz"), /ECONNREFUSED/);
});

void t.test("a port that is taken is said in a sentence", async (t) => {
  const { server } = await open(t);
  const serving = leaf(new Authority("a", validity()));
  const again = { routes: {}, serving, address: "127.0.0.1", port: server.port, clock: realClock };
  await t.rejects(
    startWebhookServer({ ...again, log: new FakeLog() }),
    /webhook port 127\.0\.0\.1/,
  );
  await server.close();
});

// Helpers.

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly connection: string | undefined;
  readonly keepAlive: string | string[] | undefined;
  readonly protocol: string | null;
  readonly localPort: number | undefined;
}

function validity(): { notBeforeMs: number; notAfterMs: number } {
  return { notBeforeMs: Date.now() - 3600_000, notAfterMs: Date.now() + 3600_000 };
}

function leaf(authority: Authority): ServingCertificate {
  return authority.issue({ commonName: "xylem", hosts: [HOST] }, ["server"], validity());
}

function review(uid: string): string {
  const kind = { group: "", version: "v1", kind: "Pod" };
  const request = { uid, kind, namespace: "a", operation: "CREATE", object: {} };
  return JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request });
}

async function open(
  t: Tap,
  clock: Clock = realClock,
): Promise<{
  server: WebhookServer;
  authority: Authority;
  agent: Agent;
  call: (path: string, body?: string) => Promise<Answer>;
  outcomes: string[];
}> {
  const authority = new Authority("first", validity());
  const outcomes: string[] = [];
  const server = await startWebhookServer({
    routes,
    serving: leaf(authority),
    address: "127.0.0.1",
    port: 0,
    clock,
    log: new FakeLog(),
    drainMs: clock === realClock ? 0 : 5_000,
    onReview: ({ path, outcome }) => void outcomes.push(`${path} ${outcome}`),
  });
  const agent = new Agent({
    ca: authority.certificate,
    servername: HOST,
    keepAlive: true,
    maxSockets: 1,
  });
  t.teardown(() => agent.destroy());
  const call = (path: string, body?: string): Promise<Answer> =>
    send(agent, server.port, path, body);
  return { server, authority, agent, call, outcomes };
}

type Tap = Pick<typeof t, "teardown">;

function send(agent: Agent, port: number, path: string, body?: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? "GET" : "POST";
    const headers = body === undefined ? {} : { "content-type": "application/json" };
    const call = httpsRequest(
      { agent, host: "127.0.0.1", port, path, method, headers },
      (response) => {
        const socket = response.socket as TLSSocket;
        let text = "";
        response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
        response.on("error", reject).on("end", () => {
          resolve({
            status: response.statusCode ?? 0,
            text,
            connection: response.headers.connection,
            keepAlive: response.headers["keep-alive"],
            protocol: socket.getProtocol(),
            localPort: socket.localPort,
          });
        });
      },
    );
    call.on("error", reject).end(body);
  });
}
