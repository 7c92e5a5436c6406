/** Divides a region into rows of equal cells and says what is in each. */

import { cidrParts, sizeOfParts, type Cidr, type CidrParts } from "#src/model/cidr.ts";
import { bigintToIp, type IpAddress } from "#src/model/ip.ts";
import type { MapUse } from "./cidr-map.ts";
import type { MapRegion } from "./cidr-map-regions.ts";

export interface MapGrid {
  readonly rows: readonly { readonly first: IpAddress; readonly cells: readonly MapCell[] }[];
  /** Prefix length of a row; of a cell where a cell is a block at all. */
  readonly rowLength: number;
  readonly cellLength: number;
}

export type MapCell =
  | { readonly kind: "free"; readonly inPool: boolean }
  | { readonly kind: "taken"; readonly use: MapUse; readonly isWhole: boolean }
  /** Blocks of several uses. */
  | { readonly kind: "mixed" }
  | { readonly kind: "collision" };

interface Tally {
  readonly uses: Set<MapUse>;
  taken: bigint;
  isPool: boolean;
  isCollision: boolean;
}

const ROWS_LOG_MAX = 4;

/** Lays a region out in 1 to 16 rows of at most `columns` cells, so that its smallest block has a cell if possible. */
export const gridOf = (
  region: MapRegion,
  options: {
    /** A power of two. */
    readonly columns: number;
    readonly pools: readonly Cidr[];
    readonly collisions: readonly Cidr[];
  },
): MapGrid => {
  const { columns } = options;
  const bits = region.parts.family === 4 ? 32 : 128;
  const columnsLog = Math.log2(columns);
  const smallest = Math.max(...region.blocks.map(({ parts }) => parts.length));
  const wanted = smallest - region.parts.length;
  const room = bits - region.parts.length;
  const rowsLog = Math.min(Math.max(wanted - columnsLog, 0), ROWS_LOG_MAX, room);
  // A region of few addresses has fewer cells than a line has characters.
  const cellsLog = Math.min(rowsLog + columnsLog, room);
  const tallies = tallyCells(region, { ...options, cellsLog });
  const perRow = 2 ** (cellsLog - rowsLog);
  const rowSize = sizeOfParts(region.parts) >> BigInt(rowsLog);
  const cellSize = sizeOfParts(region.parts) >> BigInt(cellsLog);
  return {
    rows: Array.from({ length: 2 ** rowsLog }, (_, row) => ({
      first: bigintToIp(region.parts.base + BigInt(row) * rowSize, region.parts.family),
      cells: tallies
        .slice(row * perRow, (row + 1) * perRow)
        .map((tally) => cellOf(tally, cellSize)),
    })),
    rowLength: region.parts.length + rowsLog,
    cellLength: region.parts.length + cellsLog,
  };
};

const tallyCells = (
  region: MapRegion,
  options: {
    readonly cellsLog: number;
    readonly pools: readonly Cidr[];
    readonly collisions: readonly Cidr[];
  },
): Tally[] => {
  const tallies = Array.from({ length: 2 ** options.cellsLog }, (): Tally => ({
    uses: new Set(),
    taken: 0n,
    isPool: false,
    isCollision: false,
  }));
  const walk = cellWalker(region.parts, options.cellsLog);
  let end = -1n;
  for (const { parts, use } of region.blocks) {
    // Blocks are in order, so one that begins before the end of an earlier one is inside of it.
    const isInside = parts.base < end;
    if (!isInside) end = parts.base + sizeOfParts(parts);
    for (const { at, addresses } of walk(parts)) {
      const tally = tallies[at];
      tally?.uses.add(use);
      if (tally !== undefined && !isInside) tally.taken += addresses;
    }
  }
  for (const cidr of options.pools) {
    for (const { at } of walk(cidrParts(cidr))) {
      const tally = tallies[at];
      if (tally !== undefined) tally.isPool = true;
    }
  }
  for (const cidr of options.collisions) {
    for (const { at } of walk(cidrParts(cidr))) {
      const tally = tallies[at];
      if (tally !== undefined) tally.isCollision = true;
    }
  }
  return tallies;
};

/** Walks the cells that a block touches, and how many of its addresses are in each. */
const cellWalker = (region: CidrParts, cellsLog: number) => {
  const cell = sizeOfParts(region) >> BigInt(cellsLog);
  const regionEnd = region.base + sizeOfParts(region);
  return function* walk(parts: CidrParts): Generator<{ at: number; addresses: bigint }> {
    if (parts.family !== region.family) return;
    const from = parts.base > region.base ? parts.base : region.base;
    const blockEnd = parts.base + sizeOfParts(parts);
    const to = blockEnd < regionEnd ? blockEnd : regionEnd;
    if (from >= to) return;
    const first = Number((from - region.base) / cell);
    const last = Number((to - 1n - region.base) / cell);
    const addresses = to - from < cell ? to - from : cell;
    for (let at = first; at <= last; at += 1) yield { at, addresses };
  };
};

const cellOf = ({ uses, taken, isPool, isCollision }: Tally, cellSize: bigint): MapCell => {
  if (isCollision) return { kind: "collision" };
  const [use] = uses;
  if (use === undefined) return { kind: "free", inPool: isPool };
  return uses.size > 1 ? { kind: "mixed" } : { kind: "taken", use, isWhole: taken >= cellSize };
};
