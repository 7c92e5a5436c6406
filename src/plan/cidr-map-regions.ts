/** Cuts address space into regions that are worth a picture, and says what lies between them. */

import {
  cidrFromParts,
  cidrParts,
  compareParts,
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
  /** Blocks so far apart that no scale shows them: a list in order. */
  | {
      readonly kind: "scattered";
      readonly blocks: readonly MapBlock[];
      /** From the first address of the first block to the last one of the last. */
      readonly base: bigint;
      readonly end: bigint;
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

export type MapScatter = MapItem & { readonly kind: "scattered" };

/** More pictures than this are not looked at. */
const REGIONS_MAX = 12;
/** Single blocks in a sequence that are listed, not drawn. */
const CRUMBS_MIN = 3;
/** A region with less than this part taken is cut in two, if there is something in both halves. */
const EMPTINESS_MAX = 48n;
/** Nothing larger is shown as one picture: the private ranges are far apart. */
const LENGTH_MIN: Record<Family, number> = { 4: 8, 6: 16 };

interface Pool {
  readonly name: string;
  readonly cidr: Cidr;
}

/** Regions and gaps in order, IPv4 first. Blocks must be in order. */
export const mapItems = (blocks: readonly MapBlock[], pools: readonly Pool[]): MapItem[] =>
  ([4, 6] as const).flatMap((family) => {
    const own = blocks.filter(({ parts }) => parts.family === family);
    const ofFamily = pools.filter(({ cidr }) => cidrParts(cidr).family === family);
    return withGaps(sweepUp(splitRegions(own, ofFamily)), { family, pools: ofFamily });
  });

/** Cuts what is too empty until nothing is. */
const splitRegions = (blocks: readonly MapBlock[], pools: readonly Pool[]): MapRegion[] => {
  if (blocks.length === 0) return [];
  const done: MapRegion[] = [];
  const open = [regionOf(blocks, pools)];
  for (let region = open.pop(); region !== undefined; region = open.pop()) {
    if (isTooEmpty(region)) open.push(...cut(region, pools).toReversed());
    else done.push(region);
  }
  return done;
};

/** Joins neighbours of few blocks into lists: of one block, or of more where there are too many pictures. */
const sweepUp = (regions: readonly MapRegion[]): (MapRegion | MapScatter)[] => {
  for (let crumb = 1; ; crumb *= 4) {
    const items = swept(regions, crumb);
    if (items.length <= REGIONS_MAX || regions.every(({ blocks }) => blocks.length <= crumb)) {
      return items;
    }
  }
};

const swept = (regions: readonly MapRegion[], crumb: number): (MapRegion | MapScatter)[] => {
  const runs: MapRegion[][] = [];
  for (const region of regions) {
    const run = runs.at(-1);
    const joins = [run?.[0], region].every(
      (one) => one !== undefined && one.blocks.length <= crumb,
    );
    if (joins) run?.push(region);
    else runs.push([region]);
  }
  return runs.flatMap((run): (MapRegion | MapScatter)[] =>
    run.length < CRUMBS_MIN ? run : scatterOf(run),
  );
};

const scatterOf = (run: readonly MapRegion[]): MapScatter[] => {
  const [first, last] = [run[0], run.at(-1)];
  if (first === undefined || last === undefined) return [];
  return [
    {
      kind: "scattered",
      blocks: run.flatMap(({ blocks }) => blocks),
      base: first.parts.base,
      end: last.parts.base + sizeOfParts(last.parts),
      pools: [...new Set(run.flatMap(({ pools }) => pools))],
    },
  ];
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
const withGaps = (
  items: readonly (MapRegion | MapScatter)[],
  { family, pools }: { readonly family: Family; readonly pools: readonly Pool[] },
): MapItem[] => {
  const spans = [...items.map(spanOf), ...pools.map(({ cidr }) => spanOfParts(cidrParts(cidr)))];
  if (spans.length === 0) return [];
  let from = spans.map(({ base }) => base).reduce((a, b) => (a < b ? a : b));
  const to = spans.map(({ end }) => end).reduce((a, b) => (a > b ? a : b));
  const all: MapItem[] = [];
  for (const item of items) {
    const { base, end } = spanOf(item);
    all.push(...gap({ family, from, to: base, pools }), item);
    from = end;
  }
  return [...all, ...gap({ family, from, to, pools })];
};

interface Span {
  readonly base: bigint;
  /** The first address that is no more in it. */
  readonly end: bigint;
}

const spanOfParts = (parts: CidrParts): Span => ({
  base: parts.base,
  end: parts.base + sizeOfParts(parts),
});

const spanOf = (item: MapRegion | MapScatter): Span => {
  switch (item.kind) {
    case "region":
      return spanOfParts(item.parts);
    case "scattered":
      return { base: item.base, end: item.end };
  }
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
