/** Gives memory back when a burst of work is over: V8 keeps what is left of a list of 1,000 nodes until it needs the room. */

import type { Cancel, Clock } from "#src/ports/clock.ts";

/** What holds memory. */
export interface Heap {
  /** Bytes that are resident, in use or not. */
  bytes(): number;
  /** Gives back what nobody uses; blocks for some ten milliseconds. */
  collect(): void;
}

/** Work that comes in a burst has ended when nothing was noted for this time. */
const QUIET_MS = 5_000;
/** Less than this is not worth the time. */
const GROWTH_BYTES_MIN = 1_500_000;
/** Between two collections: each takes 40 ms or so, which is then 0.02 % of a core at most. */
const PAUSE_MS = 5 * 60_000;

/** Has a timer only after work, so that a program at rest is not woken. */
export class MemoryRelief {
  readonly #clock: Clock;
  readonly #heap: Heap;
  #cancel: Cancel | null = null;
  /** What was taken after the last collection. */
  #floorBytes = 0;
  #collectedMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, heap: Heap = v8Heap) {
    this.#clock = clock;
    this.#heap = heap;
  }

  /** To be told of every piece of work that may leave something behind. */
  note(): void {
    this.#cancel?.();
    this.#cancel = this.#clock.after(QUIET_MS, () => this.#look());
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = null;
  }

  #look(): void {
    this.#cancel = null;
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#collectedMs < PAUSE_MS) return;
    if (this.#heap.bytes() - this.#floorBytes < GROWTH_BYTES_MIN) return;
    this.#heap.collect();
    this.#floorBytes = this.#heap.bytes();
    this.#collectedMs = nowMs;
  }
}

/** Has `hear` told, and notes that there was work. */
export const noting = <Event>(clock: Clock, hear: (event: Event) => void) => {
  const relief = new MemoryRelief(clock);
  return (event: Event): void => {
    hear(event);
    relief.note();
  };
};

/** Collects only where Node.js was started with `--expose-gc` (node-flags.ts); the allocator's share goes with it. */
const v8Heap: Heap = {
  // Not the heap alone: the allocator's free pages and the young generation grow beside it.
  bytes: () => process.memoryUsage.rss(),
  collect: () => {
    globalThis.gc?.({ type: "major", execution: "sync", flavor: "last-resort" });
    void import("#dataplane").then(({ giveBackMemory }) => giveBackMemory());
  },
};
