/** The work loop of a tunnel end: tells of every pass, logs what changed, tries again what failed. */

import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { seededRandom } from "#src/host/random.ts";
import { HostError } from "#src/ports/host-error.ts";
import { createEndLoop } from "./end-loop.ts";
import type { HostReport } from "./host.ts";

const NOTHING: HostReport = { writes: 0, operations: [], errors: [] };

const opened = (pass: (reasons: readonly string[]) => Promise<HostReport>) => {
  const clock = new FakeClock();
  const log = new FakeLog();
  const done: { readonly writes: number; readonly isReached: boolean }[] = [];
  const loop = createEndLoop({
    name: "gateway",
    pass,
    clock,
    random: seededRandom(1),
    log,
    onPass: (told) => done.push(told),
  });
  return { clock, log, done, loop };
};

void t.test("a pass is told its reasons, and what it changed is logged once", async (t) => {
  const reasons: (readonly string[])[] = [];
  const operations = Array.from({ length: 60 }, (_, n) => `add route ${n}`);
  let report: HostReport = { ...NOTHING, writes: 60, operations };
  const { clock, log, done, loop } = opened((why) => {
    reasons.push(why);
    return Promise.resolve(report);
  });
  loop.trigger("nodes");
  loop.trigger("agents");
  await clock.advance(200);
  report = NOTHING;
  loop.trigger("resync");
  await clock.advance(200);
  t.strictSame(reasons, [["nodes", "agents"], ["resync"]]);
  t.strictSame(done, [
    { writes: 60, isReached: true },
    { writes: 0, isReached: true },
  ]);
  const said = log.lines.filter(({ message }) => message === "reconciled");
  t.equal(said.length, 1, "a pass that changes nothing says nothing");
  t.equal(Object(said[0]?.fields).operations.length, 50, "bounded");
  await loop.stop();
  t.equal(clock.pending, 0);
});

void t.test("a failure in the report is tried again until it is gone", async (t) => {
  let errors = [new HostError("no-nft", "nft is missing")];
  const { clock, log, done, loop } = opened(() => Promise.resolve({ ...NOTHING, errors }));
  loop.trigger("start");
  await clock.advance(5_000);
  const failed = done.length;
  t.ok(failed >= 3, `${failed} tries`);
  t.ok(done.every(({ isReached }) => !isReached));
  t.match(log.messages("warn").at(-1), "nft is missing");
  t.match(loop.lastResult, { kind: "retry", problem: "nft is missing" });
  errors = [];
  await clock.advance(30_000);
  t.match(done.at(-1), { isReached: true });
  t.match(loop.lastResult, { kind: "reached" });
  await loop.stop();
});

void t.test("a pass that throws is tried again and is no counted pass", async (t) => {
  let failure: HostError | null = new HostError("no-tun", "/dev/net/tun is missing");
  const { clock, done, loop } = opened(() =>
    failure === null ? Promise.resolve(NOTHING) : Promise.reject(failure),
  );
  loop.trigger("start");
  await clock.advance(1_000);
  t.strictSame(done, []);
  t.match(loop.lastResult, { kind: "retry", problem: "/dev/net/tun is missing" });
  failure = null;
  await clock.advance(5_000);
  t.equal(done.length, 1);
  await loop.stop();
});
