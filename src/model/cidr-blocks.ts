/** Takes blocks apart and puts them together: halves, pieces, parents, neighbours, spans of addresses. */

import {
  cidrFromParts,
  cidrParts,
  intersect,
  sizeOfParts,
  type Cidr,
  type CidrParts,
} from "./cidr.ts";
import { mergeCidrs, subtract } from "./cidr-set.ts";
import { bigintToIp, bitsOf, familyOf, ipToBigint, type IpAddress } from "./ip.ts";

/** The two halves of a block, the lower one first; null: it is a single address. */
export const halves = (cidr: Cidr): readonly [Cidr, Cidr] | null => {
  const { family, base, length } = cidrParts(cidr);
  if (length === bitsOf(family)) return null;
  const lower = { family, base, length: length + 1 };
  return [cidrFromParts(lower), cidrFromParts({ ...lower, base: base + sizeOfParts(lower) })];
};

/** Walks the pieces of a prefix length in order; none where `length` is shorter than the block's own or too long. */
export function* pieces(cidr: Cidr, length: number): Generator<Cidr> {
  const parts = cidrParts(cidr);
  if (length < parts.length || length > bitsOf(parts.family)) return;
  const step = sizeOfParts({ ...parts, length });
  const end = parts.base + sizeOfParts(parts);
  for (let base = parts.base; base < end; base += step) {
    yield cidrFromParts({ family: parts.family, base, length });
  }
}

/** The block of `length` that holds this one; null: this one is larger already. */
export const enclosing = (cidr: Cidr, length: number): Cidr | null => {
  const parts = cidrParts(cidr);
  return length < 0 || length > parts.length ? null : cidrFromParts({ ...parts, length });
};

/** The block of the same size right after this one; null: this is the last one. */
export const nextBlock = (cidr: Cidr): Cidr | null => movedBy(cidrParts(cidr), 1n);

/** The block of the same size right before this one; null: this is the first one. */
export const previousBlock = (cidr: Cidr): Cidr | null => movedBy(cidrParts(cidr), -1n);

const movedBy = (parts: CidrParts, blocks: bigint): Cidr | null => {
  const base = parts.base + blocks * sizeOfParts(parts);
  if (base < 0n || base >> BigInt(bitsOf(parts.family)) !== 0n) return null;
  return cidrFromParts({ ...parts, base });
};

/** The first and the last address, both part of the block. */
export const endsOf = (cidr: Cidr): { readonly first: IpAddress; readonly last: IpAddress } => {
  const parts = cidrParts(cidr);
  return {
    first: bigintToIp(parts.base, parts.family),
    last: bigintToIp(parts.base + sizeOfParts(parts) - 1n, parts.family),
  };
};

/** The fewest blocks from one address to another, both included; empty where they are not in order or of one family. */
export const blocksBetween = (span: {
  readonly first: IpAddress;
  readonly last: IpAddress;
}): Cidr[] => {
  const family = familyOf(span.first);
  if (family !== familyOf(span.last)) return [];
  const end = ipToBigint(span.last) + 1n;
  const blocks: Cidr[] = [];
  let base = ipToBigint(span.first);
  while (base < end) {
    let block: CidrParts = { family, base, length: bitsOf(family) };
    while (block.length > 0) {
      const larger = { ...block, length: block.length - 1 };
      if (base % sizeOfParts(larger) !== 0n || base + sizeOfParts(larger) > end) break;
      block = larger;
    }
    blocks.push(cidrFromParts(block));
    base += sizeOfParts(block);
  }
  return blocks;
};

/** The addresses of `from` that are not in `remove`, as the fewest blocks, in order. */
export const subtractAll = (from: readonly Cidr[], remove: readonly Cidr[]): Cidr[] =>
  mergeCidrs(from.flatMap((cidr) => subtract(cidr, remove)));

/** The addresses that are in both lists, as the fewest blocks, in order. */
export const intersectAll = (a: readonly Cidr[], b: readonly Cidr[]): Cidr[] =>
  mergeCidrs(a.flatMap((x) => b.flatMap((y) => intersect(x, y) ?? [])));

/** How many addresses are in the union of a list. */
export const addressesIn = (list: readonly Cidr[]): bigint =>
  mergeCidrs(list).reduce((sum, cidr) => sum + sizeOfParts(cidrParts(cidr)), 0n);
