/** A virtual clock for tests: time passes only in `advance`, timers run in the order of their deadlines. */

import type { Cancel, Clock } from "#src/ports/clock.ts";

interface Timer {
  readonly atMs: number;
  readonly order: number;
  readonly action: () => void;
}

/** Lets everything run that only waits for resolved promises and finished callbacks. */
const settle = async (): Promise<void> => {
  for (let round = 0; round < 3; round += 1) {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  }
};

export class FakeClock implements Clock {
  #nowMs = 0;
  #order = 0;
  readonly #startWallMs: number;
  readonly #timers = new Set<Timer>();

  constructor(options: { startWallMs?: number } = {}) {
    this.#startWallMs = options.startWallMs ?? Date.UTC(2026, 0, 1);
  }

  nowMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return this.#startWallMs + this.#nowMs;
  }

  after(delayMs: number, action: () => void): Cancel {
    this.#order += 1;
    const timer = { atMs: this.#nowMs + Math.max(0, delayMs), order: this.#order, action };
    this.#timers.add(timer);
    return () => {
      this.#timers.delete(timer);
    };
  }

  /** Timers that wait; zero after a clean stop. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Milliseconds until the next timer; null: none. */
  get nextInMs(): number | null {
    const next = this.#next();
    return next === undefined ? null : next.atMs - this.#nowMs;
  }

  /** Moves time on; runs each due timer at its own moment and settles promises before and after each. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    await settle();
    for (let next = this.#next(); next !== undefined && next.atMs <= endMs; next = this.#next()) {
      this.#timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.action();
      await settle();
    }
    this.#nowMs = endMs;
  }

  #next(): Timer | undefined {
    let best: Timer | undefined;
    for (const timer of this.#timers) {
      if (
        best === undefined ||
        timer.atMs < best.atMs ||
        (timer.atMs === best.atMs && timer.order < best.order)
      ) {
        best = timer;
      }
    }
    return best;
  }
}
