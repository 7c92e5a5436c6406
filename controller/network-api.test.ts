/** REST and webhook of the allocator: the same sentences as in a status, Kubernetes' own rights, bounds on what is hostile. */

import t, { type Test } from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { seededRandom } from "#src/host/random.ts";
import type { AdmissionRequest } from "#src/model/admission.ts";
import type { Kube, KubeObject } from "#src/ports/kube.ts";
import { NETWORK_BLOCKS, NETWORK_CLAIMS, SEED_NETWORKS } from "#src/ports/kube-resource.ts";
import {
  claimSample,
  poolSample,
  seedSample,
  type Sample,
} from "#src/reconcile/allocation-samples.ts";
import { type AllocatorService, startAllocatorService } from "./allocator-service.ts";

/** What failure-catalogue row A27 tried, and where it is clear the spelling that is right. */
const A27 = [
  { text: "010.0.0.0/8", right: null },
  { text: "10.0.0.5/24", right: "10.0.0.0/24" },
  { text: "10/8", right: "10.0.0.0/8" },
  { text: "10.0.0.0/08", right: "10.0.0.0/8" },
  { text: "256.0.0.1/32", right: null },
  { text: "10.0.0.0/33", right: null },
  { text: " 10.0.0.0/8", right: "10.0.0.0/8" },
  { text: "[::1]/128", right: "::1/128" },
  { text: "1::2::3/64", right: null },
  { text: "::ffff:10.0.0.0/104", right: "10.0.0.0/8" },
  { text: "fe80::%eth0/64", right: "fe80::/64" },
] as const;

const world = async (t: Test, options: { readonly mayDo?: (spec: object) => boolean } = {}) => {
  const clock = new FakeClock();
  const log = new FakeLog();
  const fake = new FakeKube({ clock, log });
  const reviews = { tokens: 0, rights: 0 };
  const seed = (...samples: readonly Sample[]) => {
    for (const { resource, object } of samples) fake.seed(resource, object);
  };
  const service = startAllocatorService({
    kube: reviewing(fake, reviews, options.mayDo ?? (() => true)),
    clock,
    log,
    random: seededRandom(1),
    settings: {
      api: { address: "127.0.0.1", port: 0, tls: null },
      configuration: "xylem-allocator",
      webhook: null,
    },
    version: "0.0.0",
  });
  t.teardown(() => service.stop());
  seed(poolSample("p", ["10.0.0.0/22"]), seedSample("eu-1"));
  await clock.advance(2_000);
  while (service.apiPort() === null) await clock.advance(100);
  const call = async (
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = { authorization: "Bearer good" },
  ) => {
    const response = await fetch(`http://127.0.0.1:${service.apiPort() ?? 0}${path}`, {
      method,
      headers: {
        ...headers,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json") === true;
    return { status: response.status, body: isJson ? Object(JSON.parse(text)) : text };
  };
  const condition = (namespace: string): unknown => {
    const object = fake.peek(NETWORK_CLAIMS, { namespace, name: "net" });
    return Object(Object(object?.["status"]).conditions)[0];
  };
  return { clock, fake, seed, service, call, reviews, condition };
};

/** An API server that knows the tokens `good` and `poor`. */
const reviewing = (
  fake: FakeKube,
  reviews: { tokens: number; rights: number },
  mayDo: (spec: object) => boolean,
): Kube =>
  new Proxy(fake, {
    get: (target, name) => {
      if (name !== "create") {
        const value: unknown = Reflect.get(target, name);
        return typeof value === "function" ? value.bind(target) : value;
      }
      return async (resource: { kind: string }, object: KubeObject) => {
        const spec = Object(object["spec"]);
        if (resource.kind === "TokenReview") {
          reviews.tokens += 1;
          const authenticated = ["good", "poor"].includes(spec.token);
          return { ...object, status: { authenticated, user: { username: spec.token } } };
        }
        if (resource.kind === "SubjectAccessReview") {
          reviews.rights += 1;
          return { ...object, status: { allowed: spec.user === "good" && mayDo(spec) } };
        }
        return await fake.create(resource as never, object);
      };
    },
  });

const claimBody = (name: string, nodes: object) => ({
  namespace: `shoot--${name}`,
  name: "net",
  spec: { vpc: "vpc-a", seeds: ["eu-1"], nodes: { ipv4: nodes } },
});

const review = (service: AllocatorService, change: Partial<AdmissionRequest>) =>
  service.review({
    uid: "1",
    kind: "xylem.dev/v1alpha1/NetworkClaim",
    operation: "CREATE",
    namespace: null,
    name: null,
    isDryRun: false,
    object: null,
    oldObject: null,
    ...change,
  });

for (const { text, right } of A27) {
  void t.test(
    `A27 ${JSON.stringify(text)}: one sentence in REST, webhook and status`,
    async (t) => {
      const { service, call, seed, clock, condition } = await world(t);
      const body = claimBody("bad", { cidr: text });
      const planned = await call("POST", "/v1alpha1/plan", body);
      const claimed = await call("POST", "/v1alpha1/claims", body);
      const { namespace, name, spec } = body;
      const object = { metadata: { namespace, name }, spec };
      const admitted = await review(service, { object });
      seed({ resource: NETWORK_CLAIMS, object });
      await clock.advance(1_000);
      t.equal(planned.status, 422);
      const { problem } = planned.body;
      t.match(problem, /^NetworkClaim shoot--bad\/net: spec\.nodes\.ipv4\.cidr: /u);
      t.strictSame(claimed, { status: 422, body: { problem } });
      t.strictSame(admitted, { kind: "deny", code: 422, message: problem });
      t.match(condition("shoot--bad"), { reason: "InvalidSpec", message: problem });
      const checked = await call("POST", "/v1alpha1/check", { cidrs: [text] });
      const [result] = checked.body.results;
      t.equal(problem, `NetworkClaim shoot--bad/net: spec.nodes.ipv4.cidr: ${result.problem}`);
      t.equal(result.suggestion ?? null, right);
    },
  );
}

void t.test("a claim is made, shown, repeated and released by REST", async (t) => {
  const { call, clock, fake } = await world(t);
  const body = claimBody("a", { prefixLength: 24 });
  t.match(await call("POST", "/v1alpha1/plan", body), {
    status: 200,
    body: { verdict: "granted", ranges: [{ kind: "nodes", cidr: "10.0.0.0/24" }] },
  });
  t.equal(fake.peekAll(NETWORK_CLAIMS).length, 0, "a plan changes nothing");
  t.match(await call("POST", "/v1alpha1/claims", body), { status: 201 });
  t.match(await call("POST", "/v1alpha1/claims", body), { status: 200 });
  t.match(await call("POST", "/v1alpha1/claims", claimBody("a", { prefixLength: 25 })), {
    status: 409,
    body: { problem: /asks for something else/u },
  });
  await clock.advance(1_000);
  t.match(await call("GET", "/v1alpha1/claims/shoot--a/net"), {
    status: 200,
    body: { status: { nodes: ["10.0.0.0/24"] } },
  });
  t.match(await call("DELETE", "/v1alpha1/claims/shoot--a/net"), { status: 204 });
  await clock.advance(1_000);
  t.equal(fake.peekAll(NETWORK_BLOCKS).length, 0);
  t.match(await call("GET", "/v1alpha1/claims/shoot--a/net"), { status: 404 });
  t.match(await call("DELETE", "/v1alpha1/claims/shoot--a/net"), { status: 204 });
});

void t.test(
  "what would collide is refused by REST and webhook in the words of the status",
  async (t) => {
    const { call, clock, service, seed, condition } = await world(t);
    seed(claimSample("a", { nodes: "10.0.0.0/24" }));
    await clock.advance(1_000);
    const body = claimBody("b", { cidr: "10.0.0.0/25" });
    const { namespace, name, spec } = body;
    const object = { metadata: { namespace, name }, spec };
    const claimed = await call("POST", "/v1alpha1/claims", body);
    t.equal(claimed.status, 409);
    const { problem } = claimed.body;
    t.match(
      problem,
      /NetworkClaim shoot--b\/net lies inside nodes 10\.0\.0\.0\/24 of NetworkClaim shoot--a\/net; .* e\.g\. 10\.0\.1\.0\/25/u,
    );
    t.match(await review(service, { object }), { kind: "deny", message: problem });
    seed({ resource: NETWORK_CLAIMS, object });
    await clock.advance(1_000);
    t.match(condition("shoot--b"), { reason: "Overlap", message: problem });
  },
);

void t.test("free space and explanations are told", async (t) => {
  const { call, clock, seed } = await world(t);
  seed(claimSample("a", { nodes: "10.0.1.0/24" }));
  await clock.advance(1_000);
  t.match(await call("GET", "/v1alpha1/free?vpc=vpc-a"), {
    status: 200,
    body: {
      pools: [
        { pool: "p", cidr: "10.0.0.0/22", vpc: "vpc-a", free: "768", largest: "10.0.2.0/23" },
      ],
    },
  });
  t.match(await call("GET", "/v1alpha1/free?seed=mars"), { status: 404 });
  t.match(await call("POST", "/v1alpha1/explain", { a: "10.0.1.7", b: "claim/shoot--a/net" }), {
    status: 200,
    body: { relation: "inside" },
  });
  t.match(await call("POST", "/v1alpha1/explain", { a: "10.0.0.1/8", b: "pool/p" }), {
    status: 422,
    body: { problem: /write "10\.0\.0\.0\/8"/u },
  });
  t.match(await call("POST", "/v1alpha1/explain", { a: "seed/mars", b: "pool/p" }), {
    status: 404,
  });
});

void t.test(
  "strangers get 401, callers without the right 403, and answers are remembered",
  async (t) => {
    const { call, reviews, clock } = await world(t, {
      mayDo: (spec) => Object(spec).resourceAttributes.namespace !== "shoot--secret",
    });
    const body = claimBody("secret", { prefixLength: 24 });
    t.match(await call("POST", "/v1alpha1/check", { cidrs: [] }, {}), {
      status: 401,
      body: { problem: /send a token/u },
    });
    t.match(await call("POST", "/v1alpha1/check", {}, { authorization: "Bearer bad" }), {
      status: 401,
    });
    t.match(await call("POST", "/v1alpha1/claims", body), {
      status: 403,
      body: {
        problem: /good may not create networkclaims\.xylem\.dev in namespace shoot--secret/u,
      },
    });
    t.match(await call("GET", "/v1alpha1/free", undefined, { authorization: "Bearer poor" }), {
      status: 403,
    });
    const before = { ...reviews };
    for (let times = 0; times < 5; times += 1) await call("GET", "/v1alpha1/free");
    t.strictSame([reviews.tokens - before.tokens, reviews.rights - before.rights], [0, 1]);
    await clock.advance(20_000);
    await call("GET", "/v1alpha1/free");
    t.strictSame([reviews.tokens - before.tokens, reviews.rights - before.rights], [1, 2]);
  },
);

void t.test("hostile bodies get a bounded, fast refusal", async (t) => {
  const { call } = await world(t);
  const many = Array.from({ length: 100_000 }, () => "1::/1");
  t.match(await call("POST", "/v1alpha1/check", { cidrs: many }), {
    status: 400,
    body: { problem: /as \/openapi\.json says/u },
  });
  t.match(await call("POST", "/v1alpha1/check", { cidrs: ["x".repeat(2 << 20)] }), {
    status: 413,
    body: { problem: /larger than/u },
  });
  const seeds = Array.from({ length: 50_000 }, (_, at) => `s${at}`);
  const { namespace, name, spec } = claimBody("a", { prefixLength: 24 });
  t.match(await call("POST", "/v1alpha1/plan", { namespace, name, spec: { ...spec, seeds } }), {
    status: 422,
    body: { problem: /50000 items: at most 64/u },
  });
  t.match(await call("POST", "/v1alpha1/plan", { namespace, name, spec: [] }), { status: 400 });
  t.match(await call("GET", "/nothing"), { status: 404, body: { problem: /openapi/u } });
});

void t.test("OpenAPI lists every route, without a token", async (t) => {
  const { call } = await world(t);
  const { status, body } = await call("GET", "/openapi.json", undefined, {});
  t.equal(status, 200);
  t.strictSame(Object.keys(body.paths).toSorted(), [
    "/v1alpha1/check",
    "/v1alpha1/claims",
    "/v1alpha1/claims/{namespace}/{name}",
    "/v1alpha1/explain",
    "/v1alpha1/free",
    "/v1alpha1/plan",
  ]);
});

void t.test(
  "an object that was wrong before can be changed in other fields, not made worse",
  async (t) => {
    const { service, seed, clock } = await world(t);
    const metadata = { namespace: "shoot--old", name: "net", uid: "u" };
    const spec = { vpc: "vpc-a", seeds: ["eu-1"], nodes: { ipv4: { cidr: "10.0.0.5/24" } } };
    const update = (object: object, oldObject: object) =>
      review(service, { operation: "UPDATE", object, oldObject });
    const old = { metadata, spec };
    const labelled = { metadata: { ...metadata, labels: { a: "b" } }, spec };
    t.match(await update(labelled, old), { kind: "allow", warnings: [] });
    t.match(await update({ metadata, spec: { ...spec, seeds: ["eu-1", "eu-2"] } }, old), {
      kind: "allow",
      warnings: [/write "10\.0\.0\.0\/24"/u],
    });
    t.match(await update({ metadata, spec: { ...spec, seeds: [] } }, old), {
      kind: "deny",
      message: /spec\.seeds is empty/u,
    });
    const leaving = {
      metadata: { ...metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
      spec: {},
    };
    t.match(await update(leaving, old), { kind: "allow" }, "nobody is kept from going");
    seed(claimSample("a", { nodes: "10.0.0.0/24" }));
    await clock.advance(1_000);
    const { object: seedObject } = seedSample("eu-1", { nodes: ["10.0.0.0/16"] });
    const { object: seedBefore } = seedSample("eu-1");
    const kind = "xylem.dev/v1alpha1/SeedNetwork";
    t.match(
      await review(service, {
        kind,
        operation: "UPDATE",
        object: seedObject,
        oldObject: seedBefore,
      }),
      { kind: "deny", message: /SeedNetwork eu-1 contains nodes 10\.0\.0\.0\/24 of NetworkClaim/u },
    );
    const more = seedSample("eu-1", { nodes: ["10.0.0.0/16"], reserved: ["192.0.2.0/24"] });
    t.match(
      await review(service, {
        kind,
        operation: "UPDATE",
        object: more.object,
        oldObject: seedObject,
      }),
      { kind: "allow", warnings: [/contains nodes/u] },
    );
    t.match(await review(service, { kind, operation: "DELETE", oldObject: seedObject }), {
      kind: "allow",
    });
  },
);

void t.test("a claim that has to wait is let in with a warning", async (t) => {
  const { service } = await world(t);
  const { object } = claimSample("a", { nodes: 12 });
  t.match(await review(service, { object }), {
    kind: "allow",
    warnings: [/no NetworkPool serves/u],
  });
});

void t.test("a block can't be deleted by hand while its claim is there", async (t) => {
  const { service, seed, clock, fake } = await world(t);
  seed(claimSample("a", { nodes: 24 }));
  await clock.advance(1_000);
  const [oldObject] = fake.peekAll(NETWORK_BLOCKS);
  const remove = () =>
    review(service, { kind: "xylem.dev/v1alpha1/NetworkBlock", operation: "DELETE", oldObject });
  t.match(await remove(), { kind: "deny", code: 403, message: /delete the claim/u });
  await fake.delete(NETWORK_CLAIMS, { namespace: "shoot--a", name: "net" });
  t.match(await remove(), { kind: "allow" });
});

void t.test("before everything is known REST says so, and admission lets claims in", async (t) => {
  const clock = new FakeClock();
  const log = new FakeLog();
  const fake = new FakeKube({ clock, log });
  fake.breakDown();
  const settings = { api: null, configuration: "xylem-allocator", webhook: null };
  const random = seededRandom(1);
  const service = startAllocatorService({ kube: fake, clock, log, random, settings, version: "0" });
  await clock.advance(100);
  t.match(service.problem(), /outage/u);
  const { object } = claimSample("a", { nodes: 24 });
  t.match(await review(service, { object }), { kind: "allow", warnings: [/before all/u] });
  fake.recover();
  fake.seed(SEED_NETWORKS, seedSample("eu-1").object);
  await clock.advance(60_000);
  t.equal(service.problem(), null);
  await service.stop();
  t.equal(clock.pending, 0);
});
