/** A register of disjoint CIDR blocks and who owns each: the first claimant of an address keeps it. */

import {
  compareParts,
  intersectKnown,
  partsContain,
  type Cidr,
  type CidrParts,
  type KnownCidr,
} from "#src/model/cidr.ts";

interface OwnedBlock extends KnownCidr {
  readonly owner: string;
}

export type ClaimResult =
  | { readonly kind: "owned" }
  | { readonly kind: "taken"; readonly by: string; readonly block: Cidr };

/** Sorted by first address; since the blocks are disjoint, only two neighbours can overlap a new one. */
export class BlockOwners {
  readonly #blocks: OwnedBlock[] = [];

  /** Gives a block to `owner` unless an address of it is taken; claiming one's own block again changes nothing. */
  claim(wanted: KnownCidr, owner: string): ClaimResult {
    const { cidr, parts } = wanted;
    const at = this.#position(parts);
    const near = [this.#blocks[at - 1], this.#blocks[at]].filter((block) => block !== undefined);
    const rival = near.find((block) => intersectKnown(block, wanted) !== null);
    if (rival === undefined) {
      this.#blocks.splice(at, 0, { parts, cidr, owner });
      return { kind: "owned" };
    }
    if (rival.owner === owner && partsContain({ outer: rival.parts, inner: parts })) {
      return { kind: "owned" };
    }
    return { kind: "taken", by: rival.owner, block: rival.cidr };
  }

  /** How many blocks sort before `parts`. */
  #position(parts: CidrParts): number {
    let [low, high] = [0, this.#blocks.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const block = this.#blocks[middle];
      if (block !== undefined && compareParts(block.parts, parts) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
