/** A gateway gets a slot of its own, keeps it over restarts and outages, and gives it back. */

import t from "tap";
import type { Test } from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { seededRandom } from "#src/host/random.ts";
import { slotMemoryNone } from "#src/host/slot-memory-file.ts";
import { LEASES } from "#src/ports/kube-resource.ts";
import type { SlotMemory } from "#src/ports/slot-memory.ts";
import { SlotClaim } from "./slot-claim.ts";

const MINUTE = 60_000;

const world = () => {
  const clock = new FakeClock();
  const log = new FakeLog();
  const kube = new FakeKube({ clock, log });
  const lost: string[] = [];
  const open = (identity: string, options: { slots?: number; memory?: SlotMemory } = {}) =>
    new SlotClaim({
      kube,
      clock,
      log,
      random: seededRandom(1),
      memory: options.memory ?? slotMemoryNone(),
      namespace: "shoot--lab--alpha",
      tunnel: "alpha",
      slots: options.slots ?? 8,
      identity,
      gatewayName: `pod-${identity}`,
      onLost: (problem) => {
        lost.push(problem);
      },
    }).start();
  const holders = () =>
    kube.peekAll(LEASES).map((lease) => Object(lease["spec"]).holderIdentity as unknown);
  return { clock, log, kube, lost, open, holders };
};

const slotOf = (t: Test, claim: SlotClaim): number => {
  t.equal(claim.state.kind, "held");
  return claim.state.kind === "held" ? claim.state.slot : -1;
};

void t.test("gateways that start together get different slots", async (t) => {
  const { clock, open } = world();
  const claims = ["a", "b", "c", "d", "e", "f", "g", "h"].map((identity) => open(identity));
  await clock.advance(MINUTE);
  const slots = claims.map((claim) => slotOf(t, claim));
  t.strictSame(new Set(slots), new Set([0, 1, 2, 3, 4, 5, 6, 7]));
});

void t.test("the claim is a Lease as docs/objects.md shows it", async (t) => {
  const { clock, kube, open } = world();
  const claim = open("uid-1");
  await clock.advance(1);
  const slot = slotOf(t, claim);
  const name = { namespace: "shoot--lab--alpha", name: `alpha-xylem-slot-${slot}` };
  t.match(kube.peek(LEASES, name), {
    metadata: {
      labels: { "xylem.dev/tunnel": "alpha" },
      annotations: { "xylem.dev/gateway-name": "pod-uid-1" },
    },
    spec: { holderIdentity: "uid-1", leaseDurationSeconds: 2400 },
  });
});

void t.test(
  "a gateway without a free slot waits, says so, and gets one that is released",
  async (t) => {
    const { clock, open } = world();
    const first = open("a", { slots: 1 });
    await clock.advance(1);
    const second = open("b", { slots: 1 });
    await clock.advance(MINUTE);
    t.match(second.state, { kind: "claiming", problem: /no free slot.*raise spec\.slots/u });
    await first.release();
    await clock.advance(MINUTE);
    t.equal(slotOf(t, second), 0);
  },
);

void t.test("a gateway that restarts with its identity resumes its slot", async (t) => {
  const { clock, open, kube } = world();
  const slot = await open("a").held();
  const again = open("a");
  await clock.advance(1);
  t.equal(slotOf(t, again), slot);
  t.equal(kube.peekAll(LEASES).length, 1);
});

void t.test("a remembered slot is held at once while the seed's API server is down", async (t) => {
  const { clock, open, kube } = world();
  const memory = slotMemoryNone();
  const slot = await open("a", { memory }).held();
  kube.breakDown();
  await clock.advance(5 * MINUTE);
  const again = open("a", { memory });
  await clock.advance(0);
  t.equal(slotOf(t, again), slot);
  await clock.advance(5 * MINUTE);
  t.match(again.state, { kind: "held", slot, problem: /outage/u });
  kube.recover();
  await clock.advance(MINUTE);
  t.match(again.state, { kind: "held", slot, problem: null });
});

void t.test("an outdated or foreign memory is not believed", async (t) => {
  const { clock, open, kube } = world();
  const memory = slotMemoryNone();
  await open("a", { memory }).held();
  const stranger = open("b", { memory });
  kube.breakDown();
  await clock.advance(0);
  t.equal(stranger.state.kind, "claiming");
  await memory.write("{broken");
  const broken = open("a", { memory });
  await clock.advance(0);
  t.equal(broken.state.kind, "claiming");
});

void t.test("a Lease is renewed every ten minutes and not in between", async (t) => {
  const { clock, open, kube } = world();
  open("a");
  await clock.advance(8 * MINUTE);
  t.equal(kube.writes.length, 1);
  await clock.advance(52 * MINUTE);
  t.ok(kube.writes.length >= 6 && kube.writes.length <= 8, `${kube.writes.length} writes`);
});

void t.test("an expired Lease is taken over only when no slot is free", async (t) => {
  const { clock, open, kube, lost, holders } = world();
  const dead = open("dead", { slots: 2 });
  await clock.advance(1);
  // A dead gateway renews no more: its Lease is left behind under a name that nobody renews.
  const slot = slotOf(t, dead);
  const lease = { namespace: "shoot--lab--alpha", name: `alpha-xylem-slot-${slot}` };
  const old = new Date(clock.wallMs() - 60 * MINUTE).toISOString().replace("Z", "000Z");
  await kube.patch(LEASES, lease, { spec: { holderIdentity: "gone", renewTime: old } });
  const second = open("second", { slots: 2 });
  await clock.advance(1);
  t.not(slotOf(t, second), slot, "the free slot first");
  const third = open("third", { slots: 2 });
  await clock.advance(1);
  t.equal(slotOf(t, third), slot);
  t.strictSame(new Set(holders()), new Set(["second", "third"]));
  await clock.advance(11 * MINUTE);
  t.match(dead.state, { kind: "lost" });
  t.match(lost, [/is held by third now/u]);
});

void t.test(
  "a release deletes the Lease; a release while the API is down ends and keeps the memory",
  async (t) => {
    const { clock, open, kube } = world();
    const memory = slotMemoryNone();
    const claim = open("a", { memory });
    await clock.advance(1);
    await claim.release();
    t.equal(kube.peekAll(LEASES).length, 0);
    t.equal(await memory.read(), null);
    const next = open("a", { memory });
    await clock.advance(1);
    kube.breakDown();
    await next.release();
    t.type(await memory.read(), "string");
    t.equal(clock.pending, 0, "no timer is left");
  },
);

void t.test("a release at any moment of a claim or a renewal leaves no Lease behind", async (t) => {
  for (let turns = 0; turns < 30; turns += 1) {
    const { clock, open, kube } = world();
    const claim = open("a");
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    await claim.release();
    t.equal(kube.peekAll(LEASES).length, 0, `a claim after ${turns} turns`);
    const renewed = open("b");
    await clock.advance(1);
    const renewing = clock.advance(10 * MINUTE);
    for (let turn = 0; turn < turns; turn += 1) await new Promise(setImmediate);
    await renewed.release();
    await renewing;
    t.equal(kube.peekAll(LEASES).length, 0, `a renewal after ${turns} turns`);
  }
});

void t.test(
  "the first handshake is told at once, later ones with the renewal that comes anyway",
  async (t) => {
    const { clock, log, kube } = world();
    let heardMs: number | null = null;
    const claim = new SlotClaim({
      kube,
      clock,
      log,
      random: seededRandom(1),
      memory: slotMemoryNone(),
      namespace: "shoot--lab--alpha",
      tunnel: "alpha",
      slots: 8,
      identity: "uid-1",
      gatewayName: "pod-1",
      lastHandshakeMs: () => heardMs,
      onLost: (problem) => t.fail(problem),
    }).start();
    const told = (): unknown =>
      kube.peekAll(LEASES)[0]?.metadata.annotations?.["xylem.dev/last-handshake"];
    claim.renew();
    await clock.advance(1_000);
    t.equal(kube.writes.length, 1, "a claim that is not held yet has nothing to renew");
    t.equal(told(), undefined);
    heardMs = clock.wallMs();
    claim.renew();
    await clock.advance(1_000);
    t.equal(told(), "2026-01-01T00:00:01Z");
    t.equal(kube.writes.length, 2);
    heardMs = clock.wallMs();
    await clock.advance(8 * MINUTE);
    t.equal(kube.writes.length, 2, "nothing is written between renewals");
    await clock.advance(2 * MINUTE);
    t.equal(kube.writes.length, 3);
    t.equal(told(), "2026-01-01T00:00:02Z");
    await claim.release();
    t.equal(clock.pending, 0, "no timer is left");
  },
);

void t.test("a Lease that somebody removed is no trouble for a release", async (t) => {
  const { clock, kube, log, open } = world();
  const claim = open("uid-1");
  await clock.advance(1_000);
  for (const { metadata } of kube.peekAll(LEASES)) await kube.delete(LEASES, metadata);
  await claim.release();
  t.strictSame([kube.peekAll(LEASES), log.messages("warn")], [[], []]);
});
