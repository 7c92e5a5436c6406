/** Tests of the work loop on a virtual clock: no real time passes. */

import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { HostError } from "#src/ports/host-error.ts";
import type { Random } from "#src/ports/random.ts";
import { WorkLoop, type RunResult, type Work, type WorkLoopOptions } from "./loop.ts";

const reached: RunResult = { kind: "reached" };
const retry: RunResult = { kind: "retry", problem: "the kernel is busy" };

void t.test(
  "many triggers before the start give one run that is told each reason once",
  async (t) => {
    const { loop, runs, clock } = makeLoop();
    loop.trigger("node n1 changed");
    loop.trigger("node n1 changed");
    const revision = loop.trigger("node n2 changed");
    await clock.advance(0);
    t.match(await loop.settled(revision), { revision: 3, result: reached });
    t.strictSame(
      runs.map((work) => work.reasons),
      [["node n1 changed", "node n2 changed"]],
    );
  },
);

void t.test("a burst of different reasons is bounded", async (t) => {
  const { loop, runs, clock } = makeLoop();
  for (let i = 0; i < 1_000; i++) loop.trigger(`reason ${i}`);
  await clock.advance(0);
  t.equal(runs[0]?.reasons.length, 16);
  t.equal(runs[0]?.revision, 1_000);
});

void t.test(
  "at most one run at a time: triggers during a run give exactly one more run",
  async (t) => {
    const gates: PromiseWithResolvers<RunResult>[] = [];
    const { loop, runs, clock } = makeLoop({
      run: () => {
        const gate = Promise.withResolvers<RunResult>();
        gates.push(gate);
        return gate.promise;
      },
    });
    loop.trigger("first");
    await clock.advance(0);
    const late = loop.trigger("second");
    loop.trigger("third");
    await clock.advance(10_000);
    t.equal(runs.length, 1, "the second run waits for the end of the first");
    gates[0]?.resolve(reached);
    await clock.advance(0);
    t.equal(runs.length, 2);
    t.strictSame(runs[1]?.reasons, ["second", "third"]);
    gates[1]?.resolve(reached);
    t.match(await loop.settled(late), { revision: 3 });
  },
);

void t.test("runs keep the least interval, however fast triggers come", async (t) => {
  const { loop, startsMs, clock } = makeLoop({ intervalMsMin: 100 });
  for (let i = 0; i < 100; i++) {
    loop.trigger("flood");
    await clock.advance(10);
  }
  t.equal(startsMs.length, 11, "at 0, 100, ... 1,000 ms");
  const gaps = startsMs.slice(1).map((at, i) => at - (startsMs[i] ?? 0));
  t.ok(
    gaps.every((gap) => gap >= 100),
    gaps.join(),
  );
});

void t.test("without any trigger a good loop runs again at the resync", async (t) => {
  const { loop, runs, startsMs, clock } = makeLoop({ resyncMs: 60_000 });
  loop.trigger("start");
  await clock.advance(0);
  await clock.advance(180_000);
  t.strictSame(startsMs, [0, 60_000, 120_000, 180_000]);
  t.strictSame(runs.at(-1)?.reasons, ["resync"]);
});

void t.test(
  "failures are retried with a doubling, capped backoff that a success resets",
  async (t) => {
    const results: RunResult[] = [retry, retry, retry, retry, retry, reached, retry];
    const { loop, runs, startsMs, clock } = makeLoop({
      run: async () => results.shift() ?? reached,
      backoffMsMin: 500,
      backoffMsMax: 3_000,
      resyncMs: 60_000,
    });
    loop.trigger("start");
    await clock.advance(9_000);
    const gaps = startsMs.slice(1).map((at, i) => at - (startsMs[i] ?? 0));
    t.strictSame(gaps, [375, 750, 1_500, 2_250, 2_250], "the middle of each jittered span");
    t.strictSame(
      runs.map((work) => work.failures),
      [0, 1, 2, 3, 4, 5],
    );
    await clock.advance(60_000);
    t.equal(runs[6]?.failures, 0);
    await clock.advance(375);
    t.equal(runs[7]?.failures, 1);
  },
);

void t.test("jitter spreads retries over the upper half of the backoff", async (t) => {
  for (const { unit, wantMs } of [
    { unit: 0, wantMs: 250 },
    { unit: 0.999, wantMs: 499.75 },
  ]) {
    const { loop, startsMs, clock } = makeLoop({
      run: async () => retry,
      random: { unit: () => unit, bytes: (count) => new Uint8Array(count) },
    });
    loop.trigger("start");
    await clock.advance(600);
    t.equal(startsMs[1], wantMs);
    await loop.stop();
  }
});

void t.test("a trigger during the backoff runs sooner, but never in a tight loop", async (t) => {
  const results: RunResult[] = Array.from({ length: 20 }, () => retry);
  const { loop, startsMs, clock } = makeLoop({
    run: async () => results.shift() ?? reached,
    backoffMsMin: 500,
    backoffMsMax: 30_000,
  });
  for (let i = 0; i < 500; i++) {
    loop.trigger("flood");
    await clock.advance(10);
  }
  const gaps = startsMs.slice(1, 20).map((at, i) => at - (startsMs[i] ?? 0));
  t.strictSame(new Set(gaps), new Set([200]), "twice the interval");
});

void t.test("a thrown HostError is a failure to retry, and its sentence is logged", async (t) => {
  const { loop, log, clock } = makeLoop({
    run: async () => {
      throw new HostError("no-permission", "give the container NET_ADMIN");
    },
  });
  loop.trigger("start");
  await clock.advance(0);
  t.match(await loop.settled(), { result: { kind: "retry", problem: /NET_ADMIN/ } });
  t.strictSame(log.messages("warn"), ["give the container NET_ADMIN"]);
});

void t.test("any other error is a broken invariant and is not swallowed", async (t) => {
  const broken: unknown[] = [];
  const { loop, clock } = makeLoop({
    run: async () => {
      throw new TypeError("x is undefined");
    },
    onBroken: (e) => broken.push(e),
  });
  loop.trigger("start");
  await clock.advance(0);
  t.match(broken, [{ message: "x is undefined" }]);
});

void t.test("a bad spec is not retried until a trigger or the resync", async (t) => {
  const { loop, runs, clock } = makeLoop({
    run: async () => ({ kind: "rejected", problem: "ranges overlap" }),
    resyncMs: 60_000,
  });
  loop.trigger("start");
  await clock.advance(59_000);
  t.equal(runs.length, 1);
  loop.trigger("spec changed");
  await clock.advance(0);
  t.equal(runs.length, 2);
});

void t.test("stop waits for the running run, starts no more and leaves no timer", async (t) => {
  const gate = Promise.withResolvers<RunResult>();
  const { loop, runs, clock } = makeLoop({ run: () => gate.promise });
  loop.trigger("start");
  await clock.advance(0);
  const revision = loop.trigger("never answered");
  const outcome = loop.settled(revision);
  let ends = 0;
  const stops = [loop.stop(), loop.stop()].map((stop) => stop.then(() => ends++));
  await clock.advance(0);
  t.equal(ends, 0, "both callers wait");
  gate.resolve(reached);
  await Promise.all(stops);
  t.match(await outcome, { result: { kind: "stopped" } });
  t.equal(runs.length, 1);
  t.equal(clock.pending, 0);
  loop.trigger("too late");
  t.equal(clock.pending, 0);
  t.match(await loop.settled(), { result: { kind: "stopped" } });
});

function makeLoop(options: Partial<WorkLoopOptions> = {}) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const runs: Work[] = [];
  const startsMs: number[] = [];
  const middle: Random = { unit: () => 0.5, bytes: (count) => new Uint8Array(count) };
  const { run = async () => reached } = options;
  const loop = new WorkLoop({
    name: "host",
    clock,
    log,
    random: middle,
    ...options,
    run: (work) => {
      runs.push(work);
      startsMs.push(clock.nowMs());
      return run(work);
    },
  });
  return { loop, clock, log, runs, startsMs };
}
