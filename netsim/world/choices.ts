/** Where a schedule's choices come from: a seed, or a list that is replayed; every run records what was chosen. */

export class Choices {
  /** What was chosen, in order: replaying it gives the same run. */
  readonly made: number[] = [];
  readonly #next: (count: number, at: number) => number;

  constructor(next: (count: number, at: number) => number) {
    this.#next = next;
  }

  /** A number from 0 to `count - 1`; where there is nothing to choose nothing is recorded. */
  pick(count: number): number {
    if (count <= 1) return 0;
    const chosen = this.#next(count, this.made.length);
    this.made.push(chosen);
    return chosen;
  }

  /** True once in `odds`. */
  isRare(odds: number): boolean {
    return this.pick(odds) === odds - 1;
  }
}

/** Choices by chance (mulberry32); the same seed gives the same ones. */
export const seededChoices = (seed: number): Choices => {
  let state = seed >>> 0;
  return new Choices((count) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % count;
  });
};

/** Choices of a list; after its end always the first. */
export const replayedChoices = (list: readonly number[]): Choices =>
  new Choices((count, at) => (list[at] ?? 0) % count);

/** How many replays a shrink may take. */
const REPLAYS_MAX = 400;

/**
 * Makes a failing list of choices simpler as long as it fails: shorter, then with zeroes, which are the first and
 * plainest choice everywhere.
 */
export const shrinkChoices = async (
  failing: readonly number[],
  isFailing: (choices: readonly number[]) => Promise<boolean>,
): Promise<readonly number[]> => {
  let best = failing;
  let replays = 0;
  const isBetter = async (candidate: readonly number[]): Promise<boolean> => {
    replays += 1;
    if (replays > REPLAYS_MAX || !(await isFailing(candidate))) return false;
    best = candidate;
    return true;
  };
  for (let size = best.length >> 1; size >= 1 && replays < REPLAYS_MAX; size >>= 1) {
    for (let from = 0; from < best.length && replays < REPLAYS_MAX;) {
      const without = [...best.slice(0, from), ...best.slice(from + size)];
      if (!(await isBetter(without))) from += size;
    }
  }
  for (let at = 0; at < best.length && replays < REPLAYS_MAX; at += 1) {
    if (best[at] !== 0) await isBetter(best.with(at, 0));
  }
  return best;
};
