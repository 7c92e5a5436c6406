/** Cuts address space into regions that are worth a picture, and says what lies between them. */

import {
  cidrFromParts,
  cidrParts,
  compareParts,
  knownCidr,
  overlaps,
  partsContain,
  sizeOfParts,
  type Cidr,
  type CidrParts,
} from "#src/model/cidr.ts";
import { enclosingAll } from "#src/model/cidr-enclosing.ts";
import { bigintToIp, type Family, type IpAddress } from "#src/model/ip.ts";
import type { MapBlock } from "./cidr-map.ts";

export type MapItem =
  | {
      readonly kind: "region";
      readonly cidr: Cidr;
      readonly parts: CidrParts;
      readonly blocks: readonly MapBlock[];
      /** Addresses that somebody has. */
      readonly taken: bigint;
      /** Pools that this region is a part of, or that are in it. */
      readonly pools: readonly string[];
    }
  /** Nobody has any of it; one stretch that the same pools hold. */
  | {
      readonly kind: "gap";
      readonly first: IpAddress;
      readonly last: IpAddress;
      readonly addresses: bigint;
      /** Pools that hold all of it; empty: none has any. */
      readonly pools: readonly string[];
    };

export type MapRegion = MapItem & { readonly kind: "region" };

/** More pictures than this are a list. */
const REGIONS_MAX = 12;
/** A region with less than this part taken is cut in two, if there is something in both halves. */
const EMPTINESS_MAX = 48n;
/** Nothing larger is shown as one picture: the private ranges are far apart. */
const LENGTH_MIN: Record<Family, number> = { 4: 8, 6: 16 };

interface Pool {
  readonly name: string;
  readonly cidr: Cidr;
}

/** Regions and gaps in order, IPv4 first. Blocks must be in order. Space before the first and after the last is left out. */
export const mapItems = (blocks: readonly MapBlock[], pools: readonly Pool[]): MapItem[] =>
  ([4, 6] as const).flatMap((family) => {
    const own = blocks.filter(({ parts }) => parts.family === family);
    const ofFamily = pools.filter(({ cidr }) => cidrParts(cidr).family === family);
    return withGaps(splitRegions(own, ofFamily), ofFamily);
  });

/** Cuts the emptiest region first, until all are full enough or there are too many. */
const splitRegions = (blocks: readonly MapBlock[], pools: readonly Pool[]): MapRegion[] => {
  if (blocks.length === 0) return [];
  let regions = [regionOf(blocks, pools)];
  while (regions.length < REGIONS_MAX) {
    const worst = regions
      .filter(isTooEmpty)
      .reduce<MapRegion | null>(
        (most, region) => (most === null || emptiness(region) > emptiness(most) ? region : most),
        null,
      );
    if (worst === null) break;
    regions = regions.flatMap((region) => (region === worst ? cut(region, pools) : [region]));
  }
  return regions;
};

const emptiness = ({ parts, taken }: MapRegion): bigint => sizeOfParts(parts) / taken;

const isTooEmpty = (region: MapRegion): boolean => {
  const isWide = region.parts.length < LENGTH_MIN[region.parts.family];
  const isWhole = region.blocks.some(({ parts }) => parts.length === region.parts.length);
  return !isWhole && (isWide || emptiness(region) > EMPTINESS_MAX);
};

/** A region is as small as its blocks allow, so both halves have some. */
const cut = (region: MapRegion, pools: readonly Pool[]): MapRegion[] => {
  const lower = { ...region.parts, length: region.parts.length + 1 };
  const [left, right] = [true, false].map((isLower) =>
    region.blocks.filter(({ parts }) => partsContain({ outer: lower, inner: parts }) === isLower),
  );
  return [left, right].flatMap((blocks) =>
    blocks === undefined || blocks.length === 0 ? [] : [regionOf(blocks, pools)],
  );
};

const regionOf = (blocks: readonly MapBlock[], pools: readonly Pool[]): MapRegion => {
  const parts = enclosingAll(blocks.map((block) => block.parts));
  const cidr = cidrFromParts(parts);
  return {
    kind: "region",
    cidr,
    parts,
    blocks,
    taken: takenBy(blocks.map((block) => block.parts)),
    pools: namesOf(pools.filter((pool) => overlaps(pool.cidr, cidr))),
  };
};

/** Addresses in the union of blocks that are in order: each is in the one before it, or after it. */
const takenBy = (ordered: readonly CidrParts[]): bigint => {
  let taken = 0n;
  let end = -1n;
  for (const parts of ordered.toSorted(compareParts)) {
    if (parts.base < end) continue;
    taken += sizeOfParts(parts);
    end = parts.base + sizeOfParts(parts);
  }
  return taken;
};

const namesOf = (pools: readonly Pool[]): readonly string[] => [
  ...new Set(pools.map(({ name }) => name)),
];

/** Free space between regions, and in pools before the first and after the last one. */
const withGaps = (regions: readonly MapRegion[], pools: readonly Pool[]): MapItem[] => {
  const [first] = regions;
  const ranges = pools.map(({ cidr }) => knownCidr(cidr).parts);
  const family = first?.parts.family ?? ranges[0]?.family;
  if (family === undefined) return [];
  const starts = [...ranges, ...regions.map(({ parts }) => parts)];
  let at = starts.map(({ base }) => base).reduce((a, b) => (a < b ? a : b));
  const end = starts
    .map((parts) => parts.base + sizeOfParts(parts))
    .reduce((a, b) => (a > b ? a : b));
  const items: MapItem[] = [];
  for (const region of regions) {
    items.push(...gap({ family, from: at, to: region.parts.base, pools }), region);
    at = region.parts.base + sizeOfParts(region.parts);
  }
  return [...items, ...gap({ family, from: at, to: end, pools })];
};

/** One item for each stretch that the same pools have. */
const gap = (span: {
  readonly family: Family;
  readonly from: bigint;
  readonly to: bigint;
  readonly pools: readonly Pool[];
}): MapItem[] => {
  const { family, from, to } = span;
  const pools = span.pools.map(({ name, cidr }) => {
    const { base, ...rest } = cidrParts(cidr);
    return { name, base, end: base + sizeOfParts({ base, ...rest }) };
  });
  const edges = pools.flatMap(({ base, end }) => [base, end]).filter((at) => at > from && at < to);
  const starts = [...new Set([from, ...edges])].toSorted((a, b) => (a < b ? -1 : 1));
  if (from >= to) return [];
  return starts.map((first, at): MapItem => {
    const end = starts[at + 1] ?? to;
    const inside = pools.filter((pool) => pool.base <= first && pool.end >= end);
    return {
      kind: "gap",
      first: bigintToIp(first, family),
      last: bigintToIp(end - 1n, family),
      addresses: end - first,
      pools: [...new Set(inside.map(({ name }) => name))],
    };
  });
};
