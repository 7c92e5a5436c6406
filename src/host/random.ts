/** Real chance from the operating system, and a seeded stand-in for tests. */

import { randomBytes } from "node:crypto";
import type { Random } from "#src/ports/random.ts";

export const realRandom: Random = {
  unit: () => Math.random(),
  bytes: (count) => new Uint8Array(randomBytes(count)),
};

/** Makes a repeatable Random (mulberry32); never for keys. */
export const seededRandom = (seed: number): Random => {
  let state = seed >>> 0;
  const unit = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  return {
    unit,
    bytes: (count) => Uint8Array.from({ length: count }, () => Math.floor(unit() * 256)),
  };
};
