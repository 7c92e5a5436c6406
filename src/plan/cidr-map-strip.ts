/** Lays a region out as rows of a strip of pixels. */

import { cidrParts, sizeOfParts, type Cidr, type CidrParts } from "#src/model/cidr.ts";
import { bitsOf, type Family } from "#src/model/ip.ts";
import type { MapBlock } from "./cidr-map.ts";
import type { LanedBlock } from "./cidr-map-lanes.ts";
import type { MapRegion } from "./cidr-map-regions.ts";

/** Pixels. */
export const WIDTH = 1200;
export const STRIP_X = 200;
const STRIP_WIDTH = WIDTH - STRIP_X - 24;
const ROW_HEIGHT = 30;
const LANE_HEIGHT = 20;
const ROWS_LOG_MAX = 5;
/** A block of middle size should have room for some characters. */
const BLOCK_WIDTH_WANTED = 64;

/** A part of a row, in pixels from the left of the picture. */
export interface Span {
  readonly x: number;
  readonly width: number;
}

export interface StripRow {
  readonly family: Family;
  readonly base: bigint;
  readonly height: number;
  readonly strip: Span;
  readonly pools: readonly Span[];
  readonly blocks: readonly (Span & { readonly laned: LanedBlock })[];
  readonly collisions: readonly Span[];
}

/** From 1 to 32 rows of equal size. */
export const stripRows = (
  region: MapRegion,
  layers: {
    readonly laned: readonly LanedBlock[];
    readonly pools: readonly Cidr[];
    readonly collisions: readonly Cidr[];
  },
): readonly StripRow[] => {
  const { parts } = region;
  const rowsLog = rowsLogOf(region);
  const row: CidrParts = { ...parts, length: parts.length + rowsLog };
  const pools = layers.pools.map(cidrParts);
  const collisions = layers.collisions.map(cidrParts);
  return Array.from({ length: 2 ** rowsLog }, (_, at) => {
    const base = parts.base + BigInt(at) * sizeOfParts(row);
    const spanOf = spanIn({ ...row, base });
    const blocks = layers.laned.flatMap((laned) =>
      spanOf(laned.block.parts).map((span) => ({ ...span, laned })),
    );
    const lanes = Math.max(1, ...blocks.map(({ laned }) => laned.lanes));
    return {
      family: parts.family,
      base,
      height: Math.max(ROW_HEIGHT, lanes * LANE_HEIGHT),
      strip: { x: STRIP_X, width: STRIP_WIDTH },
      pools: pools.flatMap(spanOf),
      blocks,
      collisions: collisions.flatMap(spanOf),
    };
  });
};

const rowsLogOf = ({ parts, blocks }: MapRegion): number => {
  const lengths = blocks.map((block) => block.parts.length).toSorted((a, b) => a - b);
  const middle = lengths[Math.floor(lengths.length / 2)] ?? parts.length;
  const wanted = Math.ceil(
    Math.log2(BLOCK_WIDTH_WANTED / (STRIP_WIDTH / 2 ** (middle - parts.length))),
  );
  const room = bitsOf(parts.family) - parts.length;
  return Math.max(0, Math.min(wanted, ROWS_LOG_MAX, room));
};

/** Where a block is in a row; nothing: it is not in it. */
const spanIn = (row: CidrParts) => {
  const size = sizeOfParts(row);
  const end = row.base + size;
  return (parts: CidrParts): Span[] => {
    if (parts.family !== row.family) return [];
    const blockEnd = parts.base + sizeOfParts(parts);
    const from = parts.base > row.base ? parts.base : row.base;
    const to = blockEnd < end ? blockEnd : end;
    if (from >= to) return [];
    const x = pixel(from - row.base, size);
    return [{ x: STRIP_X + x, width: pixel(to - row.base, size) - x }];
  };
};

/** Exact to a thousandth of a pixel, for any size of addresses. */
const pixel = (offset: bigint, size: bigint): number =>
  Number((offset * BigInt(STRIP_WIDTH) * 1000n) / size) / 1000;

const CHIP_HEIGHT = 30;
const CHARACTER = 6.1;

/** Places boxes of equal size for blocks that are not drawn to scale; y is from the top of the first row. */
export const chipBoxes = (blocks: readonly MapBlock[]) => {
  const longest = Math.max(...blocks.map(({ cidr, owner }) => Math.max(cidr.length, owner.length)));
  const columns = Math.max(1, Math.floor(STRIP_WIDTH / (longest * CHARACTER + 14)));
  const width = STRIP_WIDTH / columns;
  return {
    height: Math.ceil(blocks.length / columns) * CHIP_HEIGHT,
    boxes: blocks.map((block, at) => ({
      block,
      x: STRIP_X + (at % columns) * width,
      y: Math.floor(at / columns) * CHIP_HEIGHT,
      width: width - 2,
      height: CHIP_HEIGHT,
    })),
  };
};
