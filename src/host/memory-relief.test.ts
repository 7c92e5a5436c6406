import t from "tap";
import { FakeClock } from "./fake-clock.ts";
import { type Heap, MemoryRelief } from "./memory-relief.ts";

const MEGABYTE = 1_000_000;

/** A heap whose garbage goes at a collection. */
class FakeHeap implements Heap {
  used = 10 * MEGABYTE;
  garbage = 0;
  collections = 0;

  bytes(): number {
    return this.used + this.garbage;
  }

  collect(): void {
    this.collections += 1;
    this.garbage = 0;
  }
}

const opened = () => {
  const clock = new FakeClock();
  const heap = new FakeHeap();
  return { clock, heap, relief: new MemoryRelief(clock, heap) };
};

void t.test("memory is given back once, when a burst of work has ended", async (t) => {
  const { clock, heap, relief } = opened();
  for (let second = 0; second < 60; second += 1) {
    relief.note();
    heap.garbage += MEGABYTE;
    await clock.advance(1_000);
  }
  t.equal(heap.collections, 0, "not while work goes on");
  await clock.advance(5_000);
  t.equal(heap.collections, 1);
  t.equal(clock.pending, 0, "a program at rest has no timer");
});

void t.test("a little garbage is left where it is", async (t) => {
  const { clock, heap, relief } = opened();
  relief.note();
  await clock.advance(10_000);
  t.equal(heap.collections, 1, "what the start left behind");
  for (let minute = 0; minute < 60; minute += 1) {
    heap.garbage = 0.9 * MEGABYTE;
    relief.note();
    await clock.advance(60_000);
  }
  t.equal(heap.collections, 1);
});

void t.test("garbage that keeps coming is collected every few minutes at most", async (t) => {
  const { clock, heap, relief } = opened();
  for (let minute = 0; minute < 60; minute += 1) {
    heap.garbage += 2 * MEGABYTE;
    relief.note();
    await clock.advance(60_000);
  }
  t.ok(heap.collections >= 6, "it is given back");
  t.ok(heap.collections <= 12, "one in five minutes");
});

void t.test("a heap that has grown for good is not collected over and over", async (t) => {
  const { clock, heap, relief } = opened();
  relief.note();
  await clock.advance(10_000);
  heap.used = 20 * MEGABYTE;
  for (let minute = 0; minute < 30; minute += 1) {
    relief.note();
    await clock.advance(60_000);
  }
  t.equal(heap.collections, 2);
});

void t.test("nothing is collected after the stop", async (t) => {
  const { clock, heap, relief } = opened();
  relief.note();
  relief.stop();
  await clock.advance(60_000);
  t.equal(heap.collections, 0);
  t.equal(clock.pending, 0);
});
