/** One of a tunnel's numbered gateway identities. */

import type { Brand } from "./brand.ts";
import { parsed, problem, type Parsed } from "./parsed.ts";
import { quoted } from "./quoted.ts";

/** 0 to 255: it has 8 bits in an index. */
export type Slot = Brand<number, "Slot">;

export const SLOT_MAX = 255;

export const parseSlot = (value: unknown): Parsed<Slot> =>
  typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= SLOT_MAX
    ? parsed(value as Slot)
    : problem(`a slot is a whole number from 0 to ${SLOT_MAX}, found ${quoted(value)}`);

/** All slots of a tunnel in order; `count` is 1 to 256. */
export const slotsUpTo = (count: number): Slot[] =>
  Array.from({ length: Math.min(count, SLOT_MAX + 1) }, (_, slot) => slot as Slot);
