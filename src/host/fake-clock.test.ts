/** The virtual clock runs timers in order and at their own time; the real one cancels. */

import t from "tap";
import { realClock } from "./clock.ts";
import { FakeClock } from "./fake-clock.ts";
import { realRandom, seededRandom } from "./random.ts";

void t.test("timers run in the order of their deadlines, each at its own time", async (t) => {
  const clock = new FakeClock();
  const seen: [string, number][] = [];
  clock.after(20, () => seen.push(["late", clock.nowMs()]));
  clock.after(10, () => {
    seen.push(["early", clock.nowMs()]);
    clock.after(5, () => seen.push(["nested", clock.nowMs()]));
  });
  const cancel = clock.after(12, () => seen.push(["never", clock.nowMs()]));
  cancel();
  await clock.advance(30);
  t.strictSame(seen, [
    ["early", 10],
    ["nested", 15],
    ["late", 20],
  ]);
  t.equal(clock.nowMs(), 30);
  t.equal(clock.pending, 0);
});

void t.test("wall time and monotonic time move together", async (t) => {
  const clock = new FakeClock({ startWallMs: 1_000 });
  await clock.advance(500);
  t.equal(clock.wallMs(), 1_500);
});

void t.test("the real clock runs what is not cancelled", async (t) => {
  let ran = "";
  realClock.after(1, () => {
    ran += "a";
  })();
  const keepAlive = setTimeout(() => undefined, 5_000);
  await new Promise<void>((resolve) => {
    realClock.after(2, () => {
      ran += "b";
      resolve();
    });
  });
  clearTimeout(keepAlive);
  t.equal(ran, "b");
  t.ok(realClock.wallMs() > Date.UTC(2024, 0, 1));
});

void t.test("seeded chance repeats, real chance does not", (t) => {
  t.strictSame(seededRandom(7).bytes(16), seededRandom(7).bytes(16));
  t.notSame(seededRandom(7).bytes(16), seededRandom(8).bytes(16));
  t.notSame(realRandom.bytes(16), realRandom.bytes(16));
  const unit = realRandom.unit();
  t.ok(unit >= 0 && unit < 1);
  t.end();
});
