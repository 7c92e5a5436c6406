/** The real client on the wire: what it asks, how it reads refusals and garbage, and that it stays bounded. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import t from "tap";
import type { Test } from "tap";
import { realClock } from "#src/host/clock.ts";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { seededRandom } from "#src/host/random.ts";
import { Authority } from "#src/host/x509/authority.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Clock } from "#src/ports/clock.ts";
import type { Kube, KubeResource } from "#src/ports/kube.ts";
import { CONFIG_MAPS, LEASES, NODES } from "#src/ports/kube-resource.ts";
import { Hidden, fixedCredentials } from "./credentials.ts";
import type { KubeAuth } from "./credentials.ts";
import { FakeApiServer, json, list, raw, silence, status, watching } from "./fake-api-server.ts";
import { kubeconfigFile } from "./kubeconfig.ts";
import { connectKube } from "./rest.ts";

const TOKEN = "secret-token-nobody-may-see";
const NAME = { namespace: "a", name: "x" };

const open = async (
  t: Test,
  options: { auth?: KubeAuth; callMsMax?: number; clock?: Clock } = {},
): Promise<{ server: FakeApiServer; kube: Kube; log: FakeLog }> => {
  const server = await new FakeApiServer().listen();
  const log = new FakeLog();
  const kube = connectKube({
    credentials: fixedCredentials({
      server: server.url,
      ca: null,
      tlsServerName: null,
      isInsecure: false,
      auth: options.auth ?? { kind: "token", token: new Hidden(TOKEN) },
      namespace: null,
    }),
    clock: options.clock ?? realClock,
    log,
    random: seededRandom(1),
    userAgent: "xylem-test/1",
    ...(options.callMsMax === undefined ? {} : { callMsMax: options.callMsMax }),
  });
  t.teardown(async () => {
    kube.close();
    await server.close();
  });
  return { server, kube, log };
};

const errorOf = async (call: Promise<unknown>): Promise<{ code: string; message: string }> => {
  try {
    await call;
  } catch (error) {
    if (isHostError(error)) return { code: error.code, message: error.message };
    throw error;
  }
  throw new Error("the call did not fail");
};

void t.test(
  "a key that does not belong to its certificate is said before any byte is sent",
  async (t) => {
    const validity = { notBeforeMs: Date.UTC(2026, 0, 1), notAfterMs: Date.UTC(2036, 0, 1) };
    const authority = new Authority("alpha", validity);
    const [one, two] = ["one", "two"].map((commonName) =>
      authority.issue({ commonName }, ["client"], validity),
    );
    if (one === undefined || two === undefined) throw new Error("two identities");
    const kube = connectKube({
      credentials: fixedCredentials({
        server: "https://127.0.0.1:1",
        ca: authority.certificate,
        tlsServerName: null,
        isInsecure: false,
        auth: {
          kind: "client-certificate",
          certificate: one.certificate,
          key: new Hidden(two.key),
        },
        namespace: null,
      }),
      clock: realClock,
      log: new FakeLog(),
      random: seededRandom(1),
      userAgent: "xylem-test/1",
    });
    t.teardown(() => kube.close());
    const { code, message } = await errorOf(kube.get(LEASES, NAME));
    t.equal(code, "bad-credentials");
    t.match(message, /^https:\/\/127\.0\.0\.1:1: .* can't be used together .*: write them anew$/u);
    t.notMatch(message, /PRIVATE/u);
  },
);

void t.test(
  "every verb asks for the path, the body and the content type that the API wants",
  async (t) => {
    const { server, kube } = await open(t);
    server.otherwise = json({ metadata: { name: "x", namespace: "a" } });
    await kube.get(LEASES, NAME);
    await kube.create(LEASES, { metadata: NAME, spec: {} });
    await kube.replace(LEASES, { metadata: NAME });
    await kube.replaceStatus(LEASES, { metadata: NAME });
    await kube.patch(LEASES, NAME, { spec: {} });
    await kube.patchStatus(LEASES, NAME, { status: {} });
    await kube.delete(LEASES, NAME, { uid: "u" });
    const base = "/apis/coordination.k8s.io/v1/namespaces/a/leases";
    const merge = "application/merge-patch+json";
    t.match(server.seen, [
      { method: "GET", path: `${base}/x`, authorization: `Bearer ${TOKEN}`, body: "" },
      { method: "POST", path: base, contentType: "application/json", body: /"kind":"Lease"/u },
      { method: "PUT", path: `${base}/x`, body: /"apiVersion":"coordination.k8s.io\/v1"/u },
      { method: "PUT", path: `${base}/x/status` },
      { method: "PATCH", path: `${base}/x`, contentType: merge },
      { method: "PATCH", path: `${base}/x/status`, contentType: merge },
      { method: "DELETE", path: `${base}/x`, body: /"preconditions":\{"uid":"u"\}/u },
    ]);
  },
);

void t.test("a question is sent without a name, as the API server wants it", async (t) => {
  const { server, kube } = await open(t);
  server.otherwise = json({ metadata: {}, status: { allowed: true } });
  const REVIEWS: KubeResource = {
    group: "authorization.k8s.io",
    version: "v1",
    plural: "subjectaccessreviews",
    kind: "SubjectAccessReview",
    isNamespaced: false,
    isQuestion: true,
  };
  const answer = await kube.create(REVIEWS, { metadata: { name: "caller" }, spec: {} });
  t.match(answer, { metadata: { name: "caller" }, status: { allowed: true } });
  t.match(JSON.parse(server.seen[0]?.body ?? ""), { metadata: {}, kind: "SubjectAccessReview" });
  t.notMatch(server.seen[0]?.body, "caller");
});

void t.test("names can't leave their place in a path", async (t) => {
  const { server, kube } = await open(t);
  await errorOf(kube.get(CONFIG_MAPS, { namespace: "a/../b", name: "x?y#z" }));
  t.equal(server.seen[0]?.path, "/api/v1/namespaces/a%2F..%2Fb/configmaps/x%3Fy%23z");
});

void t.test("a list asks for pages of 500 and puts them together", async (t) => {
  const { server, kube } = await open(t);
  server.script.push(
    list([{ metadata: { name: "a" } }], "7", "token+1"),
    list([{ metadata: { name: "b" } }], "7"),
  );
  const names = (await kube.list(NODES, { labelSelector: "x=y" })).map((o) => o.metadata.name);
  t.strictSame(names, ["a", "b"]);
  t.strictSame(
    server.seen.map(({ path }) => path),
    [
      "/api/v1/nodes?labelSelector=x%3Dy&limit=500",
      "/api/v1/nodes?labelSelector=x%3Dy&limit=500&continue=token%2B1",
    ],
  );
});

const REFUSALS: readonly (readonly [number, string, string])[] = [
  [400, "BadRequest", "invalid"],
  [403, "Forbidden", "forbidden"],
  [404, "NotFound", "not-found"],
  [409, "AlreadyExists", "already-exists"],
  [409, "Conflict", "conflict"],
  [410, "Expired", "gone"],
  [422, "Invalid", "invalid"],
  [429, "TooManyRequests", "too-many-requests"],
  [500, "InternalError", "server-error"],
  [503, "ServiceUnavailable", "server-error"],
  [504, "Timeout", "server-error"],
];

void t.test("a refusal becomes its code and a message with server, verb and object", async (t) => {
  const { server, kube } = await open(t);
  for (const [code, reason, want] of REFUSALS) {
    server.script.push(status(code, reason, "because"));
    const error = await errorOf(kube.get(CONFIG_MAPS, NAME));
    t.equal(error.code, want, `HTTP ${code} ${reason}`);
    t.equal(error.message, `${server.url}: get ConfigMap a/x: because`);
  }
});

void t.test(
  "a 401 is asked once more with the token read anew, then is unauthorized",
  async (t) => {
    const dir = await mkdtemp(join(tmpdir(), "xylem-"));
    t.teardown(() => rm(dir, { recursive: true }));
    const path = join(dir, "token");
    await writeFile(path, "old\n");
    const { server, kube } = await open(t, { auth: { kind: "token-file", path } });
    server.otherwise = json({ metadata: { name: "x" } });
    await kube.get(CONFIG_MAPS, NAME);
    await writeFile(path, "new\n");
    server.script.push(status(401, "Unauthorized", "expired"));
    await kube.get(CONFIG_MAPS, NAME);
    t.strictSame(
      server.seen.map(({ authorization }) => authorization),
      ["Bearer old", "Bearer old", "Bearer new"],
    );
    server.script.push(status(401, "Unauthorized", "no"), status(401, "Unauthorized", "no"));
    t.equal((await errorOf(kube.get(CONFIG_MAPS, NAME))).code, "unauthorized");
  },
);

void t.test("S4 no token shows in an error, a log line or an inspection", async (t) => {
  const { server, kube, log } = await open(t);
  server.script.push(raw("{broken", "end"), status(500, "X", "no"));
  const shown: unknown[] = [];
  for (let i = 0; i < 3; i += 1) {
    await kube.get(CONFIG_MAPS, NAME).catch((error: unknown) => shown.push(inspect(error)));
  }
  server.otherwise = status(401, "Unauthorized", "no");
  const reflector = kube.reflect(NODES, { onChange: () => undefined });
  await kube.get(CONFIG_MAPS, NAME).catch((error: unknown) => shown.push(inspect(error)));
  reflector.stop();
  const everything = inspect([shown, log.lines, kube, reflector], { depth: 9, showHidden: true });
  t.notMatch(everything, TOKEN);
  t.ok(shown.length === 4);
});

void t.test(
  "S2 garbage, wrong shapes and nameless items are bad responses, not crashes",
  async (t) => {
    const { server, kube } = await open(t);
    const answers = [
      raw("<html>", "end"),
      json([]),
      json(null),
      json({ metadata: {}, items: [] }),
      json({ metadata: { resourceVersion: "1" }, items: {} }),
      json({ metadata: { resourceVersion: "1" }, items: [{ metadata: { name: 5 } }] }),
      json({ metadata: { resourceVersion: "1" }, items: [{ metadata: { name: "a", uid: {} } }] }),
      raw(`{"items":${"[".repeat(200_000)}`, "end"),
      list([], "1", "again"),
    ];
    for (const answer of answers) {
      server.script.push(answer);
      const error = await errorOf(kube.list(NODES));
      t.match(error, { code: "bad-response", message: /list nodes/u }, error.message);
    }
  },
);

void t.test(
  "S2 an answer that never ends is cut by size, one that never comes by time",
  async (t) => {
    const { server, kube } = await open(t, { callMsMax: 300 });
    server.script.push((response) => {
      response.writeHead(200);
      const chunk = Buffer.alloc(1 << 20, 0x20);
      const pump = (): void => {
        while (!response.destroyed && response.write(chunk));
        if (!response.destroyed) response.once("drain", pump);
      };
      response.on("error", () => undefined);
      pump();
    });
    const endless = await errorOf(kube.list(NODES));
    t.match(endless.code, /bad-response|timeout/u);
    server.script.push(silence);
    t.match(await errorOf(kube.get(CONFIG_MAPS, NAME)), {
      code: "timeout",
      message: /get ConfigMap a\/x: no answer within 0.3 s/u,
    });
    server.script.push(raw('{"metadata":', null));
    t.match(await errorOf(kube.get(CONFIG_MAPS, NAME)), { code: "timeout" });
  },
);

void t.test("a refused connection says what to look at", async (t) => {
  const { server, kube } = await open(t);
  await server.close();
  t.match(await errorOf(kube.get(CONFIG_MAPS, NAME)), {
    code: "unreachable",
    message: /refused; is the API server running/u,
  });
});

void t.test(
  "a read survives that the server closed the kept connection, a write is not repeated",
  async (t) => {
    const { server, kube } = await open(t);
    server.otherwise = json({ metadata: { name: "x" } });
    await kube.get(CONFIG_MAPS, NAME);
    server.script.push((response) => response.socket?.resetAndDestroy());
    await kube.get(CONFIG_MAPS, NAME);
    server.script.push((response) => response.socket?.resetAndDestroy());
    const error = await errorOf(kube.create(CONFIG_MAPS, { metadata: NAME }));
    t.equal(error.code, "unreachable");
    t.equal(server.seen.filter(({ method }) => method === "POST").length, 1);
  },
);

void t.test(
  "K1 a reflector on the wire: list, events across chunks, reset, resume, in-stream 410, relist",
  async (t) => {
    const clock = new FakeClock();
    const { server, kube } = await open(t, { clock });
    const thing = (name: string, resourceVersion: string) => ({
      metadata: { name, resourceVersion },
    });
    let wake = (): void => undefined;
    const reflector = kube.reflect(NODES, { onChange: () => wake() });
    const until = async (done: () => boolean): Promise<void> => {
      for (let round = 0; round < 2_000 && !done(); round += 1) {
        await clock.advance(1);
      }
      if (!done()) throw new Error(`never came: ${inspect(reflector.state)}`);
    };
    const event = `${JSON.stringify({ type: "ADDED", object: thing("ü", "11") })}\n`;
    const bytes = Buffer.from(event);
    server.script.push(list([thing("a", "10")], "10"), (response) => {
      response.writeHead(200);
      response.flushHeaders();
      response.write(bytes.subarray(0, 40));
      setImmediate(() => {
        response.write(bytes.subarray(40));
      });
    });
    await until(() => reflector.items?.has("ü") === true);
    t.match(
      server.seen[1]?.path,
      /watch=true&allowWatchBookmarks=true&resourceVersion=10&timeout/u,
    );
    server.script.push(
      watching([
        { type: "BOOKMARK", object: { metadata: { resourceVersion: "15" } } },
        { type: "ERROR", object: { kind: "Status", code: 410, message: "too old" } },
      ]),
      list([thing("b", "20")], "20"),
      watching([]),
    );
    server.reset();
    await until(() => reflector.items?.has("b") === true);
    t.match(server.seen[2]?.path, /resourceVersion=11&/u);
    t.match(server.seen[3]?.path, /nodes\?limit=500/u);
    t.strictSame([...(reflector.items?.keys() ?? [])], ["b"]);
    await until(() => reflector.state.kind === "live");
    wake = () => undefined;
    reflector.stop();
    await clock.advance(1);
    t.equal(clock.pending, 0);
  },
);

void t.test(
  "S2 a watch line of garbage or without end breaks the watch, not the process",
  async (t) => {
    const clock = new FakeClock();
    const { server, kube, log } = await open(t, { clock });
    server.script.push(list([], "10"), raw("no json\n", null), raw("x".repeat(9 << 20), null));
    server.otherwise = watching([]);
    const reflector = kube.reflect(NODES, { onChange: () => undefined });
    for (let round = 0; round < 5_000 && server.seen.length < 4; round += 1) await clock.advance(1);
    t.match(log.messages("warn"), [/not JSON/u, /longer than 8388608 bytes/u]);
    t.equal(server.seen.length, 4);
    reflector.stop();
  },
);

void t.test(
  "a kubeconfig that is put right works at the next call, and a refusal names the file",
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "xylem-kubeconfig-"));
    const [server, gone] = [await new FakeApiServer().listen(), await new FakeApiServer().listen()];
    await gone.close();
    const file = join(folder, "shoot.conf");
    const write = (url: string): Promise<void> =>
      writeFile(
        file,
        JSON.stringify({
          "current-context": "a",
          contexts: [{ name: "a", context: { cluster: "a", user: "a" } }],
          clusters: [{ name: "a", cluster: { server: url } }],
          users: [{ name: "a", user: { token: TOKEN } }],
        }),
      );
    await write(gone.url);
    const kube = connectKube({
      credentials: kubeconfigFile(file),
      clock: new FakeClock(),
      log: new FakeLog(),
      random: seededRandom(1),
      userAgent: "xylem-test/1",
    });
    t.teardown(async () => {
      kube.close();
      await server.close();
      await rm(folder, { recursive: true });
    });
    t.match(await errorOf(kube.get(CONFIG_MAPS, NAME)), { code: "unreachable" });
    await write(server.url);
    server.script.push(json({ metadata: NAME }));
    t.match(await kube.get(CONFIG_MAPS, NAME), { metadata: NAME }, "no time has passed");
    server.otherwise = status(401, "Unauthorized", "no");
    t.match(await errorOf(kube.get(CONFIG_MAPS, NAME)), {
      code: "unauthorized",
      message: `the credentials of kubeconfig ${file} are refused (no): renew the token`,
    });
  },
);
