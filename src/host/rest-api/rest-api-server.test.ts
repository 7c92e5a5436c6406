/** The REST server's doors: client certificates, plain text only at home, a taken port. */

import { request } from "node:https";
import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { Authority } from "#src/host/x509/authority.ts";
import { type Caller, CallerReview } from "./caller-review.ts";
import { type RestApiOptions, startRestApi } from "./rest-api-server.ts";

const validity = { notBeforeMs: Date.now() - 3_600_000, notAfterMs: Date.now() + 3_600_000 };
const authority = new Authority("callers", validity);
const serving = authority.issue({ commonName: "api", hosts: ["127.0.0.1"] }, ["server"], validity);

/** Everybody may do everything; who called is kept. */
const optionsOf = (change: Partial<RestApiOptions> = {}) => {
  const clock = new FakeClock();
  const log = new FakeLog();
  const callers = new CallerReview({ kube: new FakeKube({ clock, log }), clock });
  const seen: Caller[] = [];
  const options: RestApiOptions = {
    address: "127.0.0.1",
    port: 0,
    tls: {
      certificate: serving.certificate,
      key: serving.key,
      clientAuthority: authority.certificate,
    },
    title: "test",
    version: "0",
    routes: [
      {
        method: "GET",
        path: "/who",
        schema: { summary: "Says who calls" },
        access: () => null,
        handle: async (_, caller) => {
          seen.push(caller);
          return { status: 200, body: { user: caller.user } };
        },
      },
    ],
    callers,
    log,
    ...change,
  };
  return { options, seen };
};

const statusOf = (port: number, client: { cert?: string; key?: string }): Promise<number> =>
  new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, path: "/who", ca: authority.certificate };
    request({ ...options, ...client, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    })
      .on("error", reject)
      .end();
  });

void t.test("a client certificate says who calls, as Kubernetes reads it", async (t) => {
  const { options, seen } = optionsOf();
  const server = await startRestApi(options);
  const subject = { commonName: "terraform", organizations: ["tools", "xylem"] };
  const { certificate: cert, key } = authority.issue(subject, ["client"], validity);
  t.equal(await statusOf(server.port, { cert, key }), 200);
  t.match(seen, [{ user: "terraform" }]);
  t.strictSame([...(seen[0]?.groups ?? [])].toSorted(), ["system:authenticated", "tools", "xylem"]);
  await server.close();
});

void t.test("a certificate of another authority, or none, is nobody", async (t) => {
  const { options, seen } = optionsOf();
  const server = await startRestApi(options);
  const stranger = new Authority("others", validity);
  const subject = { commonName: "admin", organizations: ["system:masters"] };
  const { certificate: cert, key } = stranger.issue(subject, ["client"], validity);
  t.equal(await statusOf(server.port, { cert, key }), 401);
  t.equal(await statusOf(server.port, {}), 401);
  t.strictSame(seen, []);
  await server.close();
});

void t.test("plain text is for loopback alone", async (t) => {
  const { options } = optionsOf({ tls: null, address: "0.0.0.0" });
  await t.rejects(startRestApi(options), { code: "bad-config", message: /plain text/u });
});

void t.test("a port that is taken is told with its number", async (t) => {
  const first = await startRestApi(optionsOf({ tls: null }).options);
  const { options } = optionsOf({ tls: null, port: first.port });
  await t.rejects(startRestApi(options), {
    code: "port-in-use",
    message: new RegExp(`127\\.0\\.0\\.1:${first.port} can't be used`, "u"),
  });
  await first.close();
});
