/** The smallest block that holds all of a list. */

import type { CidrParts } from "./cidr.ts";
import { bitsOf } from "./ip.ts";

/** All must be of one family, and there must be one. */
export const enclosingAll = (list: readonly CidrParts[]): CidrParts => {
  const [first, ...rest] = list;
  if (first === undefined) throw new Error("there is no block to enclose");
  return rest.reduce((outer, inner) => {
    const bits = bitsOf(outer.family);
    const shared = Math.min(outer.length, inner.length, sharedBits(outer.base ^ inner.base, bits));
    const hostBits = BigInt(bits - shared);
    return { family: outer.family, base: (outer.base >> hostBits) << hostBits, length: shared };
  }, first);
};

const sharedBits = (difference: bigint, bits: number): number =>
  difference === 0n ? bits : bits - difference.toString(2).length;
