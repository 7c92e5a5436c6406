/**
 * A path-compressed binary trie (Morrison's PATRICIA) over CIDR blocks of one family. Every node knows the largest
 * free block below it, so a search for space never enters a full branch. Depth is at most the bits of the family.
 */

import type { Cidr } from "./cidr.ts";
import { bitAt, commonLength, halfOf, shortenedTo, sideOf, type CidrBits } from "./cidr-bits.ts";

/** Longer than any prefix: nothing is free. */
export const NOTHING_FREE = 255;

/** A block that is held, or where two branches part; a leaf is always held. */
export class TrieNode<T> implements CidrBits {
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly d: number;
  readonly length: number;
  lower: TrieNode<T> | null = null;
  upper: TrieNode<T> | null = null;
  /** Who holds exactly this block. One holder is the rule, so it needs no set. */
  holders: readonly [] | readonly [T] | Set<T> = NO_HOLDERS;
  /** The block's text, as its first holder gave it; null where nobody ever held it. */
  cidr: Cidr | null = null;
  /** The shortest prefix length of a free block in this one. */
  freeLength = NOTHING_FREE;

  constructor(bits: CidrBits) {
    this.a = bits.a;
    this.b = bits.b;
    this.c = bits.c;
    this.d = bits.d;
    this.length = bits.length;
  }
}

const NO_HOLDERS = [] as const;

export const isHeld = <T>(node: TrieNode<T>): boolean =>
  node.holders instanceof Set || node.holders.length > 0;

const childOf = <T>(node: TrieNode<T>, side: 0 | 1): TrieNode<T> | null =>
  side === 0 ? node.lower : node.upper;

const setChild = <T>(node: TrieNode<T>, child: TrieNode<T>): void => {
  if (bitAt(child, node.length) === 0) node.lower = child;
  else node.upper = child;
};

const refreshed = <T>(node: TrieNode<T>): TrieNode<T> => {
  node.freeLength = isHeld(node)
    ? NOTHING_FREE
    : Math.min(freeBeside(node, node.lower), freeBeside(node, node.upper));
  return node;
};

/** What is free in one half of a node: all of it, the larger part that a compressed edge skips, or what the child has. */
const freeBeside = <T>(node: TrieNode<T>, child: TrieNode<T> | null): number => {
  if (child === null) return node.length + 1;
  return child.length > node.length + 1 ? node.length + 2 : child.freeLength;
};

/** A block to add, and who holds it. */
export interface Entry<T> {
  readonly bits: CidrBits;
  readonly cidr: Cidr;
  readonly holder: T;
}

/** Adds a holder; returns the new top. */
export const inserted = <T>(node: TrieNode<T> | null, entry: Entry<T>): TrieNode<T> => {
  const { bits } = entry;
  if (node === null) return withHolder(new TrieNode<T>(bits), entry);
  const common = commonLength(node, bits);
  if (common === node.length) {
    if (common === bits.length) return withHolder(node, entry);
    setChild(node, inserted(childOf(node, bitAt(bits, common)), entry));
    return refreshed(node);
  }
  const parent = new TrieNode<T>(common === bits.length ? bits : shortenedTo(bits, common));
  setChild(parent, node);
  if (common === bits.length) return withHolder(parent, entry);
  setChild(parent, withHolder(new TrieNode<T>(bits), entry));
  return refreshed(parent);
};

const withHolder = <T>(node: TrieNode<T>, { cidr, holder }: Entry<T>): TrieNode<T> => {
  const { holders } = node;
  node.cidr = cidr;
  if (holders instanceof Set) holders.add(holder);
  else if (holders.length === 0) node.holders = [holder];
  else if (holders[0] !== holder) node.holders = new Set<T>([holders[0], holder]);
  return refreshed(node);
};

/** Takes a holder away, where it is there; returns the new top. */
export const removed = <T>(
  node: TrieNode<T> | null,
  bits: CidrBits,
  holder: T,
): TrieNode<T> | null => {
  if (node === null || node.length > bits.length || commonLength(node, bits) < node.length) {
    return node;
  }
  if (node.length === bits.length) {
    withoutHolder(node, holder);
  } else if (bitAt(bits, node.length) === 0) {
    node.lower = removed(node.lower, bits, holder);
  } else {
    node.upper = removed(node.upper, bits, holder);
  }
  if (isHeld(node) || (node.lower !== null && node.upper !== null)) return refreshed(node);
  return node.lower ?? node.upper;
};

const withoutHolder = <T>(node: TrieNode<T>, holder: T): void => {
  const { holders } = node;
  if (!(holders instanceof Set)) {
    if (holders.length === 1 && holders[0] === holder) node.holders = NO_HOLDERS;
    return;
  }
  holders.delete(holder);
  const [only] = holders;
  if (holders.size === 1 && only !== undefined) node.holders = [only];
  else if (holders.size === 0) node.holders = NO_HOLDERS;
};

/** The node of exactly this block. */
export const nodeAt = <T>(top: TrieNode<T> | null, bits: CidrBits): TrieNode<T> | null => {
  let node = top;
  while (node !== null && node.length < bits.length) {
    if (commonLength(node, bits) < node.length) return null;
    node = childOf(node, bitAt(bits, node.length));
  }
  const isThere = node?.length === bits.length && commonLength(node, bits) === bits.length;
  return isThere ? node : null;
};

/** Walks all held blocks that overlap `bits`: larger ones first, then those inside in order. */
export function* overlapping<T>(top: TrieNode<T> | null, bits: CidrBits): Generator<TrieNode<T>> {
  let node = top;
  while (node !== null && node.length < bits.length) {
    if (commonLength(node, bits) < node.length) return;
    if (isHeld(node)) yield node;
    node = childOf(node, bitAt(bits, node.length));
  }
  if (node !== null && commonLength(node, bits) === bits.length) yield* heldIn(node);
}

/** Like the first of `overlapping`, without a generator's cost. */
export const firstOverlap = <T>(top: TrieNode<T> | null, bits: CidrBits): TrieNode<T> | null => {
  let node = top;
  while (node !== null && node.length < bits.length) {
    if (commonLength(node, bits) < node.length) return null;
    if (isHeld(node)) return node;
    node = childOf(node, bitAt(bits, node.length));
  }
  if (node === null || commonLength(node, bits) < bits.length) return null;
  while (node !== null && !isHeld(node)) node = node.lower ?? node.upper;
  return node;
};

/** Walks all held blocks of a branch in order. */
export function* heldIn<T>(node: TrieNode<T>): Generator<TrieNode<T>> {
  if (isHeld(node)) yield node;
  if (node.lower !== null) yield* heldIn(node.lower);
  if (node.upper !== null) yield* heldIn(node.upper);
}

/** The part of a trie that lies in a region: null is an empty one, `full` says that a larger block covers it. */
export const branchIn = <T>(
  top: TrieNode<T> | null,
  region: CidrBits,
): { readonly isFull: boolean; readonly branch: TrieNode<T> | null } => {
  let node = top;
  while (node !== null && node.length < region.length) {
    if (commonLength(node, region) < node.length) return { isFull: false, branch: null };
    if (isHeld(node)) return { isFull: true, branch: node };
    node = childOf(node, bitAt(region, node.length));
  }
  const isInside = node !== null && commonLength(node, region) === region.length;
  return { isFull: false, branch: isInside ? node : null };
};

/** The first free block of `length` in `region`, not before `from`, which must be aligned to `length`. */
export const firstFreeIn = <T>(
  region: CidrBits,
  branch: TrieNode<T> | null,
  wish: { readonly length: number; readonly from: CidrBits },
): CidrBits | null => {
  if (region.length > wish.length) return null;
  const side = sideOf(region, wish.from);
  if (side < 0) return null;
  if (branch === null) return side === 0 ? wish.from : region;
  if (branch.length === region.length && branch.freeLength > wish.length) return null;
  return (
    firstFreeIn(halfOf(region, 0), branchOfHalf(region, branch, 0), wish) ??
    firstFreeIn(halfOf(region, 1), branchOfHalf(region, branch, 1), wish)
  );
};

/** The part of `branch` in one half of a region that it lies in. */
const branchOfHalf = <T>(
  region: CidrBits,
  branch: TrieNode<T>,
  side: 0 | 1,
): TrieNode<T> | null => {
  if (branch.length === region.length) return childOf(branch, side);
  return bitAt(branch, region.length) === side ? branch : null;
};

/** Walks the largest free blocks of a region in order. */
export function* freeIn<T>(region: CidrBits, branch: TrieNode<T> | null): Generator<CidrBits> {
  if (branch === null) {
    yield region;
    return;
  }
  if (branch.length === region.length && branch.freeLength === NOTHING_FREE) return;
  for (const side of [0, 1] as const) {
    yield* freeIn(halfOf(region, side), branchOfHalf(region, branch, side));
  }
}

/** The shortest prefix length that is free in a region. */
export const freeLengthIn = <T>(region: CidrBits, branch: TrieNode<T> | null): number => {
  if (branch === null) return region.length;
  return branch.length === region.length ? branch.freeLength : region.length + 1;
};
