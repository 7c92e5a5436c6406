/** The status server on loopback: what each path answers, and that it ends cleanly. */

import { connect } from "node:net";
import t from "tap";
import { startStatusServer, startStatusServers, type StatusSource } from "./status-server.ts";

const WHERE = { address: "127.0.0.1", port: 0 };

const source = (parts: Partial<StatusSource> = {}): StatusSource => ({
  readiness: () => null,
  status: () => ({ slot: 3 }),
  metrics: () => Promise.resolve({ contentType: "text/plain; version=0.0.4", text: "up 1\n" }),
  ...parts,
});

const ask = async (port: number, path: string) => {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  const type = response.headers.get("content-type");
  return { code: response.status, type, text: await response.text() };
};

void t.test("each path answers what it is for", async (t) => {
  let problem: string | null = "claiming a slot";
  const server = await startStatusServer(source({ readiness: () => problem }), WHERE);
  t.teardown(() => server.close());
  t.match(await ask(server.port, "/healthz"), { code: 200, text: "ok\n" });
  t.match(await ask(server.port, "/readyz"), { code: 503, text: "claiming a slot\n" });
  problem = null;
  t.match(await ask(server.port, "/readyz?verbose"), { code: 200, text: "ok\n" });
  const metrics = await ask(server.port, "/metrics");
  t.match(metrics, { code: 200, type: "text/plain; version=0.0.4", text: "up 1\n" });
  const status = await ask(server.port, "/status");
  t.match(status, { code: 200, type: "application/json" });
  t.strictSame(JSON.parse(status.text), { slot: 3 });
  t.match(await ask(server.port, "/"), { code: 404, text: /try \/healthz/u });
});

void t.test("a source may have further pages", async (t) => {
  const page = (path: string) =>
    path === "/more" ? { code: 200, contentType: "application/json", text: "[]" } : null;
  const server = await startStatusServer(source({ page }), WHERE);
  t.teardown(() => server.close());
  t.match(await ask(server.port, "/more"), { code: 200, type: "application/json", text: "[]" });
  t.match(await ask(server.port, "/less"), { code: 404 });
});

void t.test("at an address of the network it answers on localhost, too", async (t) => {
  const server = await startStatusServers(source(), { address: "127.0.0.2", port: 0 });
  t.match(await ask(server.port, "/healthz"), { code: 200 });
  const there = await fetch(`http://127.0.0.2:${server.port}/healthz`);
  t.equal(there.status, 200);
  await server.close();
  await t.rejects(ask(server.port, "/healthz"));
});

void t.test("a source that throws is an answer, not a crash", async (t) => {
  const server = await startStatusServer(
    source({
      status: () => {
        throw new Error("no device");
      },
      metrics: () => Promise.reject(new Error("no registry")),
    }),
    WHERE,
  );
  t.teardown(() => server.close());
  t.match(await ask(server.port, "/status"), { code: 500, text: /no device/u });
  t.match(await ask(server.port, "/metrics"), { code: 500, text: /no registry/u });
  t.match(await ask(server.port, "/healthz"), { code: 200 });
});

void t.test("a port in use is one sentence with the way out", async (t) => {
  const server = await startStatusServer(source(), WHERE);
  t.teardown(() => server.close());
  await t.rejects(startStatusServer(source(), { ...WHERE, port: server.port }), {
    code: "port-in-use",
    message: `status port 127.0.0.1:${server.port} is taken by another process: choose another with --status-port`,
  });
  await t.rejects(startStatusServer(source(), { address: "192.0.2.1", port: 0 }), {
    code: "port-in-use",
    message: /can't be used \(EADDRNOTAVAIL\)/u,
  });
});

void t.test("a client that says nothing does not hold up the end", async (t) => {
  const server = await startStatusServer(source(), WHERE);
  const socket = connect(server.port, "127.0.0.1");
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.on("error", () => undefined);
  await new Promise((resolve) => socket.once("connect", resolve));
  await server.close();
  await closed;
  await t.rejects(ask(server.port, "/healthz"));
});
