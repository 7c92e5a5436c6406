/** How much of each pool is free for a VPC, and in which sizes. */

import type { NetworkPool } from "#src/model/allocation.ts";
import { cidrParts, sizeOf, type Cidr } from "#src/model/cidr.ts";
import { CidrIndex } from "#src/model/cidr-index.ts";
import { seedPlaces, grantsOf, type CidrFacts } from "./cidr-facts.ts";

export interface FreeSpace {
  readonly pool: string;
  /** One range of the pool. */
  readonly cidr: Cidr;
  /** Null: a VPC that has no block yet. */
  readonly vpc: string | null;
  readonly addresses: bigint;
  readonly free: bigint;
  /** The first of the largest free blocks; null: nothing is free. */
  readonly largest: Cidr | null;
  /** By prefix length: the free space as the fewest blocks, and how many of each length could be had. */
  readonly lengths: readonly FreeLength[];
  /** The free space as the fewest blocks, at most 1,000 of them. */
  readonly blocks: readonly Cidr[];
}

export interface FreeLength {
  readonly length: number;
  /** Free blocks of this length that are not part of a larger one. */
  readonly whole: number;
  /** How many blocks of this length fit if all free space is cut into them. */
  readonly fit: bigint;
}

const SHOWN_BLOCKS_MAX = 1000;

/**
 * Measures every range of every pool for each VPC that it serves. Ranges of seeds count as taken: of those that are
 * named, else of all.
 */
export const freeSpace = (
  facts: CidrFacts,
  options: {
    /** Only for these; absent: for every VPC that has claims or blocks. */
    readonly vpcs?: readonly string[];
    readonly seeds?: readonly string[];
  },
): readonly FreeSpace[] => {
  const known = options.vpcs ?? vpcsOf(facts);
  const indexes = new Map<string | null, CidrIndex<unknown>>();
  return facts.pools
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((pool) =>
      vpcsFor(pool, known).flatMap((vpc) => {
        const index = indexes.get(vpc) ?? takenFor(facts, { vpc, seeds: options.seeds });
        indexes.set(vpc, index);
        return pool.cidrs.map((cidr) => freeIn({ index, cidr, pool: pool.name, vpc }));
      }),
    );
};

export const vpcsOf = (facts: CidrFacts): readonly string[] =>
  [...new Set([...facts.claims, ...grantsOf(facts)].map(({ vpc }) => vpc))].toSorted();

/** A pool that serves every VPC is shown for an empty one where there is none. */
const vpcsFor = (pool: NetworkPool, known: readonly string[]): readonly (string | null)[] => {
  const served = known.filter((vpc) => pool.vpcs?.includes(vpc) ?? true);
  return served.length > 0 ? served : [pool.vpcs?.[0] ?? null];
};

const takenFor = (
  facts: CidrFacts,
  options: { readonly vpc: string | null; readonly seeds: readonly string[] | undefined },
): CidrIndex<unknown> => {
  const index = new CidrIndex<unknown>();
  for (const grant of grantsOf(facts)) {
    if (grant.vpc === options.vpc) index.add(grant.cidr, grant);
  }
  for (const seed of facts.seeds) {
    if (options.seeds !== undefined && !options.seeds.includes(seed.name)) continue;
    for (const { place } of seedPlaces(seed)) index.add(place.cidr, place);
  }
  return index;
};

const freeIn = (where: {
  readonly index: CidrIndex<unknown>;
  readonly cidr: Cidr;
  readonly pool: string;
  readonly vpc: string | null;
}): FreeSpace => {
  const { index, cidr, pool, vpc } = where;
  const blocks = [...index.freeBlocks(cidr)];
  const counts = new Map<number, number>();
  for (const block of blocks) {
    const { length } = cidrParts(block);
    counts.set(length, (counts.get(length) ?? 0) + 1);
  }
  return {
    pool,
    cidr,
    vpc,
    addresses: sizeOf(cidr),
    free: blocks.reduce((sum, block) => sum + sizeOf(block), 0n),
    largest: index.largestFree(cidr),
    lengths: lengthsOf(counts),
    blocks: blocks.slice(0, SHOWN_BLOCKS_MAX),
  };
};

/** From the largest free block to the smallest. */
const lengthsOf = (counts: ReadonlyMap<number, number>): FreeLength[] => {
  const lengths = [...counts.keys()].toSorted((a, b) => a - b);
  let fit = 0n;
  let before = lengths[0] ?? 0;
  return lengths.map((length) => {
    const whole = counts.get(length) ?? 0;
    fit = (fit << BigInt(length - before)) + BigInt(whole);
    before = length;
    return { length, whole, fit };
  });
};
