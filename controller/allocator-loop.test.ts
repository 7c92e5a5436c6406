/** The allocator on an API server in memory: claims get ranges, releases free them, restarts change nothing. */

import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { seededRandom } from "#src/host/random.ts";
import {
  NETWORK_BLOCKS,
  NETWORK_CLAIMS,
  NETWORK_DOMAINS,
  NETWORK_POOLS,
  SEED_NETWORKS,
} from "#src/ports/kube-resource.ts";
import {
  claimSample,
  poolSample,
  seedSample,
  type Sample,
} from "#src/reconcile/allocation-samples.ts";
import { AllocatorLoop } from "./allocator-loop.ts";

const world = () => {
  const clock = new FakeClock();
  const log = new FakeLog();
  const kube = new FakeKube({ clock, log });
  const seed = (...samples: readonly Sample[]) => {
    for (const { resource, object } of samples) kube.seed(resource, object);
  };
  const start = () => new AllocatorLoop({ kube, clock, log, random: seededRandom(1) });
  const status = (name: string) =>
    Object(kube.peek(NETWORK_CLAIMS, { namespace: `shoot--${name}`, name: "net" })?.["status"]);
  const condition = (name: string): unknown => Object(status(name).conditions)[0];
  return { clock, log, kube, seed, start, status, condition };
};

void t.test("nothing is granted before everything was listed, and then all is (A1)", async (t) => {
  const { kube, clock, seed, start, condition } = world();
  seed(claimSample("a", { nodes: 20 }), poolSample("p", ["10.0.0.0/16"]), seedSample("eu-1"));
  kube.failNext("list", "server-error");
  kube.failNext("list", "server-error");
  const loop = start();
  await clock.advance(200);
  t.strictSame(kube.writes, []);
  t.not(loop.problem(), null);
  await clock.advance(60_000);
  t.equal(loop.problem(), null);
  t.match(condition("a"), { status: "True", reason: "Allocated" });
  await loop.stop();
});

void t.test("a claim gets its blocks first and its status then, once", async (t) => {
  const { kube, clock, seed, start, status } = world();
  seed(
    poolSample("p", ["10.0.0.0/16"]),
    seedSample("eu-1"),
    claimSample("a", { nodes: 20, pods: 18, services: "10.97.0.0/22" }),
  );
  const loop = start();
  await clock.advance(5_000);
  t.strictSame(status("a"), {
    observedGeneration: 1,
    conditions: [
      {
        type: "Allocated",
        status: "True",
        reason: "Allocated",
        message: "it has all that it asks for",
        observedGeneration: 1,
        lastTransitionTime: "2026-01-01T00:00:00Z",
      },
    ],
    nodes: ["10.0.64.0/20"],
    pods: ["10.0.0.0/18"],
    services: ["10.97.0.0/22"],
    blocks: ["10.0.0.0-18.vpc-a", "10.0.64.0-20.vpc-a", "10.97.0.0-22.vpc-a"],
  });
  t.strictSame(
    kube.writes.map(({ verb, object }) => `${verb} ${object.split(" ")[0] ?? ""}`),
    [
      "create NetworkDomain",
      "replace NetworkDomain",
      "create NetworkBlock",
      "create NetworkBlock",
      "create NetworkBlock",
      "patchStatus NetworkClaim",
    ],
  );
  await loop.stop();
  t.equal(clock.pending, 0, "no timer is left");
});

void t.test("hours, a full resync and a restart cost no writes", async (t) => {
  const { kube, clock, seed, start } = world();
  seed(poolSample("p", ["10.0.0.0/22"]), seedSample("eu-1"));
  for (const name of ["a", "b", "c", "d", "e"]) seed(claimSample(name, { nodes: 24 }));
  const first = start();
  await clock.advance(5_000);
  const before = kube.writes.length;
  t.equal(kube.peekAll(NETWORK_BLOCKS).length, 4);
  await clock.advance(3 * 60 * 60_000);
  await first.stop();
  const second = start();
  await clock.advance(5_000);
  const resync = second.resync();
  await clock.advance(1_000);
  t.match(await resync, { kind: "reached" });
  t.equal(kube.writes.length, before);
  await second.stop();
});

void t.test(
  "a claim that waits for space gets it when some is freed, and is not asked again before",
  async (t) => {
    const { kube, clock, seed, start, condition, status } = world();
    seed(poolSample("p", ["10.0.0.0/23"]), seedSample("eu-1"));
    seed(claimSample("a", { nodes: 24 }), claimSample("b", { nodes: 24 }));
    const loop = start();
    await clock.advance(2_000);
    seed(claimSample("c", { nodes: 24 }));
    await clock.advance(2_000);
    t.match(condition("c"), {
      status: "False",
      reason: "NoSpace",
      message: /nothing is free there/u,
    });
    const asked = () => kube.calls.filter(({ verb }) => verb !== "list" && verb !== "watch").length;
    const before = asked();
    await clock.advance(60_000);
    t.equal(asked(), before, "nothing is asked while nothing changes");
    await kube.delete(NETWORK_CLAIMS, { namespace: "shoot--a", name: "net" });
    await clock.advance(2_000);
    t.match(condition("c"), { status: "True" });
    t.strictSame(status("c").nodes, ["10.0.0.0/24"], "the gap in the middle is used again");
    await loop.stop();
  },
);

void t.test(
  "a claim that a finalizer holds keeps its blocks; one of the same name gets others meanwhile (A3)",
  async (t) => {
    const { kube, clock, seed, start, status, condition } = world();
    const name = { namespace: "shoot--a", name: "net" };
    const held = claimSample("a", { nodes: 24 });
    const metadata = { ...held.object.metadata, finalizers: ["example.com/slow"] };
    seed(poolSample("p", ["10.0.0.0/22"]), seedSample("eu-1"));
    seed({ ...held, object: { ...held.object, metadata } });
    const loop = start();
    await clock.advance(2_000);
    await kube.delete(NETWORK_CLAIMS, name);
    await clock.advance(60 * 60_000);
    t.equal(kube.peekAll(NETWORK_BLOCKS).length, 1);
    t.match(condition("a"), { status: "False", reason: "Deleting" });
    await kube.patch(NETWORK_CLAIMS, name, { metadata: { finalizers: null } });
    seed(claimSample("a", { nodes: 24 }));
    await clock.advance(2_000);
    const [block, ...others] = kube.peekAll(NETWORK_BLOCKS);
    t.strictSame(others, []);
    const { uid } = kube.peek(NETWORK_CLAIMS, name)?.metadata ?? {};
    t.match(block, { spec: { owner: { uid } } });
    t.equal(status("a").nodes.length, 1);
    await loop.stop();
  },
);

void t.test("one impossible claim never blocks others (A19)", async (t) => {
  const { clock, seed, start, condition } = world();
  seed(poolSample("p", ["10.0.0.0/20"]), seedSample("eu-1"));
  seed(
    claimSample("huge", { nodes: 8 }),
    claimSample("nowhere", { nodes: 24 }, { seeds: ["mars"] }),
    claimSample("taken", { nodes: "10.241.0.0/24" }),
    claimSample("broken", { nodes: "10.0.0.1/24" }),
    claimSample("fine", { nodes: 24 }),
  );
  const loop = start();
  await clock.advance(2_000);
  t.match(condition("huge"), { reason: "NoPool" });
  t.match(condition("nowhere"), { reason: "UnknownSeed", message: /create a SeedNetwork/u });
  t.match(condition("taken"), {
    reason: "Overlap",
    message:
      /nodes 10\.241\.0\.0\/24 of NetworkClaim shoot--taken\/net lies inside pods 10\.241\.0\.0\/17 of SeedNetwork eu-1/u,
  });
  t.match(condition("broken"), { reason: "InvalidSpec", message: /10\.0\.0\.0\/24/u });
  t.match(condition("fine"), { status: "True" });
  await loop.stop();
});

void t.test("claims of several namespaces and mixed sizes never overlap (A4, A16)", async (t) => {
  const { kube, clock, seed, start, condition } = world();
  seed(poolSample("p", ["10.0.0.0/16"]), seedSample("eu-1"));
  seed(claimSample("big", { nodes: "10.0.0.0/17" }));
  const loop = start();
  await clock.advance(2_000);
  seed(claimSample("small", { nodes: "10.0.3.0/24" }), claimSample("other", { nodes: 24 }));
  seed(claimSample("far", { nodes: "10.0.3.0/24" }, { vpc: "vpc-b" }));
  await clock.advance(2_000);
  t.match(condition("small"), {
    reason: "Overlap",
    message:
      /inside nodes 10\.0\.0\.0\/17 of NetworkClaim shoot--big\/net; clusters of one VPC \(vpc-a\)/u,
  });
  t.match(condition("other"), { status: "True" });
  t.match(condition("far"), { status: "True" }, "another VPC is another world");
  t.equal(kube.peekAll(NETWORK_BLOCKS).length, 3);
  await loop.stop();
});

void t.test("a seed or a pool that comes later is enough for those who waited", async (t) => {
  const { clock, seed, start, condition } = world();
  seed(claimSample("a", { nodes: 24 }));
  const loop = start();
  await clock.advance(2_000);
  t.match(condition("a"), { reason: "UnknownSeed" });
  seed(seedSample("eu-1"));
  await clock.advance(2_000);
  t.match(condition("a"), { reason: "NoPool" });
  seed(poolSample("p", ["10.0.0.0/20"]));
  await clock.advance(2_000);
  t.match(condition("a"), { status: "True" });
  await loop.stop();
});

void t.test("what was promised by an allocator that died is made by the next", async (t) => {
  const { kube, clock, seed, start, condition } = world();
  seed(poolSample("p", ["10.0.0.0/20"]), seedSample("eu-1"), claimSample("a", { nodes: 24 }));
  kube.failNext("create", "unreachable");
  const first = start();
  await clock.advance(50);
  await first.stop();
  const second = start();
  await clock.advance(5_000);
  t.match(condition("a"), { status: "True" });
  t.equal(kube.peekAll(NETWORK_BLOCKS).length, 1);
  await second.stop();
});

void t.test("an outage of any call is survived, with every claim served at its end", async (t) => {
  for (const verb of ["get", "create", "replace", "patchStatus", "list", "delete"] as const) {
    const { kube, clock, seed, start, condition } = world();
    seed(poolSample("p", ["10.0.0.0/23"]), seedSample("eu-1"));
    seed(claimSample("gone", { nodes: 23 }));
    const loop = start();
    await clock.advance(2_000);
    for (let times = 0; times < 3; times += 1) kube.failNext(verb, "timeout");
    seed(claimSample("a", { nodes: 24 }), claimSample("b", { nodes: 24 }));
    await kube.delete(NETWORK_CLAIMS, { namespace: "shoot--gone", name: "net" }).catch(() => null);
    await kube.delete(NETWORK_CLAIMS, { namespace: "shoot--gone", name: "net" }).catch(() => null);
    await kube.delete(NETWORK_CLAIMS, { namespace: "shoot--gone", name: "net" }).catch(() => null);
    await kube.delete(NETWORK_CLAIMS, { namespace: "shoot--gone", name: "net" }).catch(() => null);
    await clock.advance(120_000);
    t.match(condition("a"), { status: "True" }, verb);
    t.match(condition("b"), { status: "True" }, verb);
    await loop.stop();
  }
});

void t.test("a hundred claims of one VPC are served by several revisions", async (t) => {
  const { kube, clock, seed, start } = world();
  seed(poolSample("p", ["10.0.0.0/16"]), seedSample("eu-1"));
  for (let at = 0; at < 100; at += 1) seed(claimSample(`c${at}`, { nodes: 24, services: 26 }));
  const loop = start();
  await clock.advance(10_000);
  t.equal(kube.peekAll(NETWORK_BLOCKS).length, 200);
  const domain = Object(kube.peek(NETWORK_DOMAINS, { name: "vpc-a" })?.["spec"]);
  t.equal(domain.revision, 3);
  t.equal(kube.writes.filter(({ verb }) => verb === "patchStatus").length, 100);
  await loop.stop();
});

void t.test("a domain that somebody deletes goes when its VPC has no block any more", async (t) => {
  const { kube, clock, seed, start } = world();
  seed(poolSample("p", ["10.0.0.0/20"]), seedSample("eu-1"), claimSample("a", { nodes: 24 }));
  const loop = start();
  await clock.advance(2_000);
  await kube.delete(NETWORK_DOMAINS, { name: "vpc-a" });
  await clock.advance(2_000);
  t.not(kube.peek(NETWORK_DOMAINS, { name: "vpc-a" }), null);
  await kube.delete(NETWORK_CLAIMS, { namespace: "shoot--a", name: "net" });
  await clock.advance(60_000);
  t.equal(kube.peek(NETWORK_DOMAINS, { name: "vpc-a" }), null);
  seed(claimSample("b", { nodes: 24 }));
  await clock.advance(2_000);
  t.equal(kube.peekAll(NETWORK_BLOCKS).length, 1);
  await loop.stop();
});

void t.test("objects that can't be read are told and hide nothing", async (t) => {
  const { kube, clock, seed, start, condition } = world();
  seed(poolSample("p", ["10.0.0.0/20"]), seedSample("eu-1"), claimSample("a", { nodes: 24 }));
  kube.seed(NETWORK_POOLS, { metadata: { name: "bad" }, spec: { cidrs: ["10.0.0.1/8"] } });
  kube.seed(SEED_NETWORKS, { metadata: { name: "worse" }, spec: {} });
  const loop = start();
  await clock.advance(2_000);
  t.match(condition("a"), { status: "True" });
  t.match(loop.status(), {
    findings: [{ object: "NetworkPool bad" }, { object: "SeedNetwork worse" }],
    claims: { granted: 1 },
  });
  await loop.stop();
});

void t.test(
  "an edit of a seed is told at once to claims that have what it now forbids, and taken back; nothing moves",
  async (t) => {
    const { kube, clock, seed, start, condition, status } = world();
    seed(poolSample("p", ["10.0.0.0/20"]), seedSample("eu-1"), claimSample("a", { nodes: 24 }));
    const loop = start();
    await clock.advance(2_000);
    const reserve = (reserved: readonly string[]) =>
      kube.patch(SEED_NETWORKS, { name: "eu-1" }, { spec: { reserved } });
    await reserve(["10.0.0.0/22"]);
    await clock.advance(2_000);
    t.match(condition("a"), {
      status: "False",
      reason: "Overlap",
      message:
        "nodes 10.0.0.0/24 of NetworkClaim shoot--a/net lies inside reserved 10.0.0.0/22 of SeedNetwork eu-1",
    });
    t.strictSame(status("a").nodes, ["10.0.0.0/24"]);
    seed(claimSample("b", { nodes: 24 }));
    await clock.advance(2_000);
    t.strictSame(status("b").nodes, ["10.0.4.0/24"], "what comes later keeps clear of it");
    await reserve([]);
    await clock.advance(2_000);
    t.match(condition("a"), { status: "True" });
    await loop.stop();
  },
);

void t.test(
  "two allocators that know different free ranges do not quarrel about what would fit",
  async (t) => {
    const { kube, clock, seed, start, condition } = world();
    seed(poolSample("p", ["10.0.0.0/22"]), seedSample("eu-1"));
    seed(claimSample("a", { nodes: "10.0.0.0/24" }));
    const first = start();
    await clock.advance(2_000);
    seed(claimSample("late", { nodes: "10.0.0.0/24" }));
    await clock.advance(2_000);
    t.match(condition("late"), { reason: "Overlap", message: /e\.g\. 10\.0\.1\.0\/24/u });
    // The first one's answer stays as it is when others are granted; the second one's is made later.
    seed(claimSample("b", { nodes: 24 }));
    await clock.advance(2_000);
    const second = start();
    await clock.advance(2_000);
    t.match(condition("late"), { message: /e\.g\. 10\.0\.2\.0\/24/u });
    const before = kube.writes.length;
    await clock.advance(60_000);
    t.equal(kube.writes.length, before);
    await first.stop();
    await second.stop();
  },
);
