/** Who holds which blocks: overlap, free space and next fit among very many blocks of both families. */

import { cidrFromParts, type Cidr } from "./cidr.ts";
import { alignedUp, bitsFromCidr, partsFromBits, resized, type CidrBits } from "./cidr-bits.ts";
import * as trie from "./cidr-trie.ts";
import { bitsOf, ipToBigint, type Family, type IpAddress } from "./ip.ts";

/** A block and one of those who hold it. */
export interface Held<T> {
  readonly cidr: Cidr;
  readonly holder: T;
}

export interface FreeWish {
  /** The region to look in. */
  readonly within: Cidr;
  /** Prefix length of the block that is looked for. */
  readonly length: number;
  /** Nothing before this address is taken; absent: from the first one on. Must be of the region's family. */
  readonly from?: IpAddress;
}

/**
 * A multimap from blocks to holders. Blocks may overlap and may have several holders. Adding, removing, finding an
 * overlap and finding free space take time by the depth of a binary trie: about log2 of the number of blocks, at most
 * 32 or 128 steps. A holder must not be undefined; it is told apart by identity.
 */
export class CidrIndex<T> {
  #top: Record<Family, trie.TrieNode<T> | null> = { 4: null, 6: null };
  #size = 0;

  constructor(held: Iterable<Held<T>> = []) {
    for (const { cidr, holder } of held) this.add(cidr, holder);
  }

  /** Pairs of a block and a holder. */
  get size(): number {
    return this.#size;
  }

  /** False: that holder has that block already. */
  add(cidr: Cidr, holder: T): boolean {
    const bits = bitsFromCidr(cidr);
    const { family } = bits;
    if (this.#has(family, bits, holder)) return false;
    this.#top[family] = trie.inserted(this.#top[family], { bits, cidr, holder });
    this.#size += 1;
    return true;
  }

  /** False: it was not there. */
  remove(cidr: Cidr, holder: T): boolean {
    const bits = bitsFromCidr(cidr);
    const { family } = bits;
    if (!this.#has(family, bits, holder)) return false;
    this.#top[family] = trie.removed(this.#top[family], bits, holder);
    this.#size -= 1;
    return true;
  }

  #has(family: Family, bits: CidrBits, holder: T): boolean {
    const node = trie.nodeAt(this.#top[family], bits);
    return node !== null && holds(node, holder);
  }

  /** The largest held block that overlaps; null: all of `cidr` is free. */
  firstOverlap(cidr: Cidr): Held<T> | null {
    const bits = bitsFromCidr(cidr);
    const { family } = bits;
    const node = trie.firstOverlap(this.#top[family], bits);
    return node === null ? null : (heldBy(node)[0] ?? null);
  }

  /** Walks all held blocks that overlap, larger ones first, then in order; stop when you have enough. */
  *overlapping(cidr: Cidr): Generator<Held<T>> {
    const bits = bitsFromCidr(cidr);
    const { family } = bits;
    for (const node of trie.overlapping(this.#top[family], bits)) yield* heldBy(node);
  }

  /** Walks everything, IPv4 first, in order. */
  *all(): Generator<Held<T>> {
    for (const family of [4, 6] as const) {
      const top = this.#top[family];
      if (top === null) continue;
      for (const node of trie.heldIn(top)) yield* heldBy(node);
    }
  }

  /** The free block of a length with the lowest address, at or after `from`; null: there is none. */
  firstFree(wish: FreeWish): Cidr | null {
    const bits = bitsFromCidr(wish.within);
    const { family } = bits;
    if (wish.length < bits.length || wish.length > bitsOf(family)) return null;
    const from =
      wish.from === undefined
        ? resized(bits, bitsOf(family))
        : alignedUp({ family, base: ipToBigint(wish.from), length: bitsOf(family) }, wish.length);
    const { isFull, branch } = trie.branchIn(this.#top[family], bits);
    if (isFull || from === null) return null;
    const found = trie.firstFreeIn(bits, branch, { length: wish.length, from });
    return found === null ? null : printed(resized(found, wish.length), family);
  }

  /** Walks the free space of a region as the fewest blocks, in order; stop when you have enough. */
  *freeBlocks(within: Cidr): Generator<Cidr> {
    const bits = bitsFromCidr(within);
    const { family } = bits;
    const { isFull, branch } = trie.branchIn(this.#top[family], bits);
    if (isFull) return;
    for (const free of trie.freeIn(bits, branch)) yield printed(free, family);
  }

  /** The largest free block of a region, the first of equals; null: it is full. */
  largestFree(within: Cidr): Cidr | null {
    const bits = bitsFromCidr(within);
    const { family } = bits;
    const { isFull, branch } = trie.branchIn(this.#top[family], bits);
    if (isFull) return null;
    const length = trie.freeLengthIn(bits, branch);
    return length === trie.NOTHING_FREE ? null : this.firstFree({ within, length });
  }
}

const printed = (bits: CidrBits, family: Family): Cidr =>
  cidrFromParts(partsFromBits(bits, family));

const holds = <T>(node: trie.TrieNode<T>, holder: T): boolean =>
  node.holders instanceof Set ? node.holders.has(holder) : node.holders[0] === holder;

const heldBy = <T>(node: trie.TrieNode<T>): Held<T>[] => {
  const { cidr } = node;
  return cidr === null ? [] : Array.from(node.holders, (holder) => ({ cidr, holder }));
};

/**
 * The lowest block of a length that is free in every index at once; null: there is none. Each index moves the start
 * forward to its own next free place until all agree.
 */
export const firstFreeInAll = (
  indexes: readonly Pick<CidrIndex<unknown>, "firstFree">[],
  wish: FreeWish,
): Cidr | null => {
  let found: Cidr | null = null;
  let agreed = 0;
  for (let at = 0; agreed < indexes.length; at = (at + 1) % indexes.length) {
    const from: IpAddress | undefined = found === null ? wish.from : firstAddressOf(found);
    const next: Cidr | null =
      indexes[at]?.firstFree({ ...wish, ...(from === undefined ? {} : { from }) }) ?? null;
    if (next === null) return null;
    agreed = next === found ? agreed + 1 : 1;
    found = next;
  }
  return found;
};

const firstAddressOf = (cidr: Cidr): IpAddress => cidr.slice(0, cidr.indexOf("/")) as IpAddress;
