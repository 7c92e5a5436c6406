/** Sets of addresses as lists of CIDR blocks: difference, and the shortest list for a set. */

import {
  cidrFromParts,
  cidrParts,
  compareParts,
  partsContain,
  sizeOfParts,
  type Cidr,
  type CidrParts,
} from "./cidr.ts";
import { bitsOf } from "./ip.ts";

/** The addresses of `from` that are in none of `remove`, as the fewest blocks, in order. */
export const subtract = (from: Cidr, remove: readonly Cidr[]): Cidr[] =>
  subtractParts(cidrParts(from), remove.map(cidrParts)).map(cidrFromParts);

const subtractParts = (from: CidrParts, remove: readonly CidrParts[]): CidrParts[] => {
  if (remove.some((block) => partsContain({ outer: block, inner: from }))) return [];
  const inside = remove.filter((block) => partsContain({ outer: from, inner: block }));
  if (inside.length === 0) return [from];
  const length = from.length + 1;
  const half = 1n << BigInt(bitsOf(from.family) - length);
  return [from.base, from.base + half].flatMap((base) =>
    subtractParts({ family: from.family, base, length }, inside),
  );
};

/** The fewest blocks that hold exactly the addresses of `list`, in order. */
export const mergeCidrs = (list: readonly Cidr[]): Cidr[] => {
  const merged: CidrParts[] = [];
  for (const block of list.map(cidrParts).toSorted(compareParts)) {
    const last = merged.at(-1);
    if (last !== undefined && partsContain({ outer: last, inner: block })) continue;
    merged.push(block);
    while (mergeLastTwo(merged));
  }
  return merged.map(cidrFromParts);
};

/** Replaces two neighbours of the same size that fill one larger block; false: there was nothing to do. */
const mergeLastTwo = (blocks: CidrParts[]): boolean => {
  const [left, right] = blocks.slice(-2);
  if (left === undefined || right === undefined || left.length === 0) return false;
  if (left.family !== right.family || left.length !== right.length) return false;
  if (right.base - left.base !== sizeOfParts(left)) return false;
  const parent = { ...left, length: left.length - 1 };
  if (!partsContain({ outer: parent, inner: right })) return false;
  if (left.base % sizeOfParts(parent) !== 0n) return false;
  blocks.splice(-2, 2, parent);
  return true;
};
