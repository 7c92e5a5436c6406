/** Draws an address map with plain characters, as wide as a terminal. */

import { overlaps, sizeOfParts } from "#src/model/cidr.ts";
import { bigintToIp, type Family } from "#src/model/ip.ts";
import type { AddressMap, MapBlock, MapUse } from "./cidr-map.ts";
import { gridOf, type MapCell } from "./cidr-map-cells.ts";
import type { MapItem, MapRegion, MapScatter } from "./cidr-map-regions.ts";
import { countText, percentText } from "./cidr-map-words.ts";

export interface MapTextOptions {
  /** Characters in a line. */
  readonly width: number;
  /** List every block, however many there are. */
  readonly listsAll: boolean;
}

const LETTERS: Record<MapUse, string> = {
  nodes: "N",
  pods: "P",
  services: "S",
  transit: "T",
  mapped: "M",
  reserved: "R",
  range: "X",
};
const WORDS: Record<MapUse, string> = {
  nodes: "nodes",
  pods: "pods",
  services: "services",
  transit: "transit",
  mapped: "mapped",
  reserved: "reserved",
  range: "range",
};
/** A map with more blocks is a picture first; its list is asked for. */
const LISTED_BLOCKS_MAX = 40;
const SHOWN_COLLISIONS_MAX = 20;
const ELIDED_ROWS_MIN = 3;
const WIDTH_MIN = 40;
const WIDTH_MAX = 240;

/** A legend, then each region as rows of characters with its blocks below, then what collides. */
export const mapText = (map: AddressMap, options: MapTextOptions): string => {
  const width = Math.min(Math.max(options.width, WIDTH_MIN), WIDTH_MAX);
  const isListed = options.listsAll || map.blocks.length <= LISTED_BLOCKS_MAX;
  const parts = [
    legend(map, width),
    ...map.items.map((item) => itemText(item, { map, width, isListed })),
    collisionsText(map),
  ];
  return parts.filter((part) => part !== "").join("\n\n");
};

const legend = (map: AddressMap, width: number): string => {
  const uses = (Object.keys(LETTERS) as MapUse[]).filter((use) =>
    map.blocks.some((block) => block.use === use),
  );
  const words = [
    ...uses.map((use) => `${LETTERS[use]} ${WORDS[use]}`),
    "small letter: a part of the cell",
    "+ several uses",
    ...(map.pools.length > 0 ? [". free in a pool", "- free elsewhere"] : [". free"]),
    "! collision",
  ];
  const lines: string[] = [];
  for (const word of words) {
    const line = lines.at(-1);
    const longer = `${line ?? ""}   ${word}`;
    if (line === undefined || longer.length > width) lines.push(word);
    else lines.splice(-1, 1, longer);
  }
  return lines.join("\n");
};

interface Drawing {
  readonly map: AddressMap;
  readonly width: number;
  readonly isListed: boolean;
}

const itemText = (item: MapItem, drawing: Drawing): string => {
  const { map } = drawing;
  switch (item.kind) {
    case "gap": {
      const { first, last, addresses, pools } = item;
      const isFree = pools.length > 0 || map.pools.length === 0;
      const what = isFree
        ? `free: ${countText(addresses)} addresses${poolsText(pools)}`
        : "in no pool";
      return `... ${first} - ${last} ${what}`;
    }
    case "scattered":
      return scatterText(item, drawing);
    case "region":
      return item.blocks.length === 1 ? blocksText(item) : regionText(item, drawing);
  }
};

const poolsText = (pools: readonly string[]): string =>
  pools.length === 0 ? "" : ` (${pools.length === 1 ? "pool" : "pools"} ${pools.join(", ")})`;

const UNLISTED_BLOCKS_SHOWN = 5;

const scatterText = ({ blocks, pools }: MapScatter, { isListed, map }: Drawing): string => {
  const shown = isListed ? blocks : blocks.slice(0, UNLISTED_BLOCKS_SHOWN);
  const wide = Math.max(...shown.map(({ cidr }) => cidr.length));
  const more = blocks.length - shown.length;
  return [
    `${blocks.length} blocks far apart${poolsText(pools)}`,
    ...shown.map((block) => `  ${block.cidr.padEnd(wide)}  ${markedText(block, map)}`),
    ...(more > 0 ? [`  and ${more} more: --list lists them`] : []),
  ].join("\n");
};

/** What has no need of a picture. */
const blocksText = ({ cidr, blocks, pools }: MapRegion): string =>
  `${cidr}: ${blocks.map(blockText).join(", ")}${poolsText(pools)}`;

const regionText = (region: MapRegion, drawing: Drawing): string => {
  const { map, width, isListed } = drawing;
  const collisions = map.collisions.map(({ cidr }) => cidr);
  const pools = map.pools.map(({ cidr }) => cidr);
  const end = region.parts.base + sizeOfParts(region.parts) - 1n;
  const label = Math.max(
    ...[region.parts.base, end].map((at) => labelWidth(at, region.parts.family)),
  );
  const columns = 2 ** Math.floor(Math.log2(Math.max(width - label - 1, 16)));
  const grid = gridOf(region, { columns, pools, collisions });
  // Few addresses are drawn wider than a character each.
  const scale = Math.max(1, Math.floor(columns / (grid.rows[0]?.cells.length ?? columns)));
  const rows = grid.rows.map(({ first, cells }) => ({
    text: `${first.padEnd(label)} ${cells.map((cell) => cellText(cell, map).repeat(scale)).join("")}`,
    isFree: cells.every(({ kind }) => kind === "free"),
  }));
  const count = region.blocks.length;
  const head = [
    `${region.cidr}: ${count} ${count === 1 ? "block" : "blocks"}`,
    `${percentText(region.taken, sizeOfParts(region.parts))} taken`,
    scale > 1 ? "" : `a character is a /${grid.cellLength}`,
  ].filter((part) => part !== "");
  return [
    `${head.join(", ")}${poolsText(region.pools)}`,
    ...elided(rows),
    ...(isListed ? listText(region, map) : []),
  ].join("\n");
};

/** Three or more free rows in a sequence are one line. */
const elided = (rows: readonly { readonly text: string; readonly isFree: boolean }[]): string[] => {
  const lines: string[] = [];
  for (let at = 0; at < rows.length;) {
    const next = rows.findIndex((row, index) => index >= at && !row.isFree);
    const end = next === -1 ? rows.length : next;
    const free = rows.slice(at, end);
    if (free.length >= ELIDED_ROWS_MIN) lines.push(`  ... ${free.length} rows are free`);
    else lines.push(...free.map(({ text }) => text));
    if (next !== -1) lines.push(rows[next]?.text ?? "");
    at = end + 1;
  }
  return lines;
};

/** The longest first address of a row is about as long as the longer end of the region. */
const labelWidth = (at: bigint, family: Family): number =>
  Math.min(bigintToIp(at, family).length, family === 4 ? 15 : 24);

const cellText = (cell: MapCell, map: AddressMap): string => {
  switch (cell.kind) {
    case "free":
      return cell.inPool || map.pools.length === 0 ? "." : "-";
    case "taken":
      return cell.isWhole ? LETTERS[cell.use] : LETTERS[cell.use].toLowerCase();
    case "mixed":
      return "+";
    case "collision":
      return "!";
  }
};

/** All blocks in order, nested ones indented, with the free space between. */
const listText = (region: MapRegion, map: AddressMap): string[] => {
  const { parts } = region;
  const rows: { range: string; what: string }[] = [];
  const around: bigint[] = [];
  let at = parts.base;
  for (const block of region.blocks) {
    const end = block.parts.base + sizeOfParts(block.parts);
    while (around.length > 0 && (around.at(-1) ?? 0n) <= block.parts.base) around.pop();
    if (around.length === 0) rows.push(...freeRow({ from: at, to: block.parts.base, region }));
    rows.push({
      range: `${"  ".repeat(around.length)}${block.cidr}`,
      what: markedText(block, map),
    });
    around.push(end);
    if (end > at) at = end;
  }
  rows.push(...freeRow({ from: at, to: parts.base + sizeOfParts(parts), region }));
  const wide = Math.max(...rows.map(({ range }) => range.length));
  return rows.map(({ range, what }) => `  ${range.padEnd(wide)}  ${what}`);
};

const freeRow = (span: {
  readonly from: bigint;
  readonly to: bigint;
  readonly region: MapRegion;
}): { range: string; what: string }[] => {
  const { from, to, region } = span;
  if (from >= to) return [];
  const { family } = region.parts;
  const range = `${bigintToIp(from, family)} - ${bigintToIp(to - 1n, family)}`;
  return [{ range, what: `free: ${countText(to - from)} addresses` }];
};

const markedText = (block: MapBlock, { collisions }: AddressMap): string =>
  collisions.some(({ cidr }) => overlaps(cidr, block.cidr))
    ? `${blockText(block)}  ! collision`
    : blockText(block);

const blockText = (block: MapBlock): string => {
  const more = block.holders > 1 ? ` and ${block.holders - 1} more` : "";
  const of = block.isSeed ? "seed " : "";
  const owner = block.owner === "" ? "" : ` of ${of}${block.owner}`;
  return `${LETTERS[block.use]} ${WORDS[block.use]}${owner}${more}`;
};

const collisionsText = ({ collisions, hasMoreCollisions }: AddressMap): string => {
  if (collisions.length === 0) return "no collisions";
  const shown = collisions.slice(0, SHOWN_COLLISIONS_MAX).map(({ sentence }) => `  ! ${sentence}`);
  const more = collisions.length - shown.length;
  const count = `${collisions.length}${hasMoreCollisions ? " or more" : ""}`;
  return [
    `${count} ${collisions.length === 1 ? "collision" : "collisions"}:`,
    ...shown,
    ...(more > 0 ? [`  and ${more} more: -o json has them`] : []),
  ].join("\n");
};
