/** Draws an address map as an SVG picture (SVG 1.1, no scripts, no outside fonts). */

import { bigintToIp } from "#src/model/ip.ts";
import type { AddressMap, MapUse } from "./cidr-map.ts";
import { lanesOf } from "./cidr-map-lanes.ts";
import type { MapItem, MapRegion, MapScatter } from "./cidr-map-regions.ts";
import { chipBoxes, STRIP_X, stripRows, WIDTH, type StripRow } from "./cidr-map-strip.ts";
import { overlaps, sizeOfParts } from "#src/model/cidr.ts";
import { countText, percentText } from "./cidr-map-words.ts";
import {
  blockMarks,
  chipMarks,
  COLLISION_HEIGHT,
  COLOURS,
  CONFLICT,
  type Shape,
} from "./cidr-map-marks.ts";
import { escaped, text, wrapped } from "./cidr-map-ink.ts";

const MARGIN = 24;
const SHOWN_COLLISIONS_MAX = 20;
/** Characters of a line at the bottom: 12 px monospace is about 7.2 px wide. */
const SENTENCE_CHARS = 154;

const USE_WORDS: Record<MapUse, string> = {
  nodes: "nodes",
  pods: "pods",
  services: "services",
  transit: "transit",
  mapped: "mapped",
  reserved: "reserved",
  range: "range",
};

/** The whole picture; the same map gives the same text. */
export const mapSvg = (map: AddressMap): string => {
  const shapes: Shape[] = [titleShape(map), legendShape(map)];
  for (const item of map.items) shapes.push(itemShape(item, map));
  shapes.push(collisionsShape(map));
  let y = MARGIN;
  const drawn: string[] = [];
  for (const shape of shapes) {
    drawn.push(...shape.draw(y));
    y += shape.height;
  }
  const height = Math.ceil(y + MARGIN);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(titleText(map))}" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace">`,
    ...DEFINITIONS,
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    ...drawn,
    "</svg>",
  ].join("\n");
};

const DEFINITIONS: readonly string[] = [
  "<defs>",
  `<pattern id="collision" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="8" height="8" fill="${CONFLICT}" fill-opacity="0.25"/><rect width="4" height="8" fill="${CONFLICT}"/></pattern>`,
  "</defs>",
];

const titleText = ({ blocks, collisions }: AddressMap): string => {
  const found = collisions.length === 0 ? "no" : String(collisions.length);
  return `Address space: ${blocks.length} ${blocks.length === 1 ? "block" : "blocks"}, ${found} ${collisions.length === 1 ? "collision" : "collisions"}`;
};

const titleShape = (map: AddressMap): Shape => ({
  height: 34,
  draw: (y) => [text({ x: MARGIN, y: y + 16, size: 18, weight: "bold" }, titleText(map))],
});

const legendShape = (map: AddressMap): Shape => {
  const uses = (Object.keys(COLOURS) as MapUse[]).filter((use) =>
    map.blocks.some((block) => block.use === use),
  );
  const entries: { word: string; swatch: string }[] = uses.map((use) => ({
    word: USE_WORDS[use],
    swatch: `fill="${COLOURS[use].fill}" stroke="${COLOURS[use].line}"`,
  }));
  if (map.blocks.some(({ isSeed }) => isSeed)) {
    entries.push({ word: "a seed's", swatch: 'fill="#ffffff" stroke="#111111" stroke-width="2"' });
  }
  if (map.pools.length > 0) {
    entries.push({ word: "free, in a pool", swatch: 'fill="#dff3df" stroke="#9cc89c"' });
  }
  entries.push({ word: "free", swatch: 'fill="#f4f4f4" stroke="#cccccc"' });
  if (map.collisions.length > 0) {
    entries.push({ word: "collision", swatch: `fill="url(#collision)" stroke="${CONFLICT}"` });
  }
  return {
    height: 34,
    draw: (y) => {
      let x = MARGIN;
      return entries.flatMap(({ word, swatch }) => {
        const at = x;
        x += 46 + word.length * 7.5;
        return [
          `<rect x="${at + 1}" y="${y + 1}" width="18" height="12" ${swatch}/>`,
          text({ x: at + 25, y: y + 11, size: 12, fill: "#333333" }, word),
        ];
      });
    },
  };
};

const itemShape = (item: MapItem, map: AddressMap): Shape => {
  switch (item.kind) {
    case "gap":
      return gapShape(item, map);
    case "region":
      return regionShape(item, map);
    case "scattered":
      return scatterShape(item, map);
  }
};

const gapShape = (item: MapItem & { readonly kind: "gap" }, map: AddressMap): Shape => {
  const isFree = item.pools.length > 0 || map.pools.length === 0;
  const pools = item.pools.length === 0 ? "" : ` in ${item.pools.join(", ")}`;
  const what = isFree ? `free${pools}: ${countText(item.addresses)} addresses` : "in no pool";
  return {
    height: 22,
    draw: (y) => [
      text(
        { x: MARGIN, y: y + 11, size: 11, fill: isFree ? "#3c7a3c" : "#999999" },
        `⋮ ${item.first} – ${item.last} ${what}`,
      ),
    ],
  };
};

const regionShape = (region: MapRegion, map: AddressMap): Shape => {
  const rows = stripRows(region, {
    laned: lanesOf(region.blocks),
    pools: map.pools.map(({ cidr }) => cidr),
    collisions: map.collisions.map(({ cidr }) => cidr),
  });
  const shapes = elided(rows);
  return {
    height: 26 + shapes.reduce((sum, { height }) => sum + height, 0) + 12,
    draw: (y) => {
      let at = y + 26;
      return [
        text({ x: MARGIN, y: y + 16, size: 13, weight: "bold" }, headText(region, rows.length)),
        ...shapes.flatMap((shape) => {
          const drawn = shape.draw(at);
          at += shape.height;
          return drawn;
        }),
      ];
    },
  };
};

/** Boxes of one size in order, as many in a row as their names allow. */
const scatterShape = ({ blocks, pools }: MapScatter, map: AddressMap): Shape => {
  const boxes = chipBoxes(blocks);
  const where =
    pools.length === 0 ? "" : `, ${pools.length === 1 ? "pool" : "pools"} ${pools.join(", ")}`;
  const title = `${blocks.length} blocks far apart, not to scale${where}`;
  return {
    height: 26 + boxes.height + 12,
    draw: (y) => [
      text({ x: MARGIN, y: y + 16, size: 13, weight: "bold" }, title),
      ...boxes.boxes.flatMap((box) =>
        chipMarks(box.block, {
          ...box,
          y: y + 26 + box.y,
          isCollision: map.collisions.some(({ cidr }) => overlaps(cidr, box.block.cidr)),
        }),
      ),
    ],
  };
};

const ELIDED_ROWS_MIN = 3;

/** Three or more free rows in a sequence, all in pools or all not, are one line. */
const elided = (rows: readonly StripRow[]): Shape[] => {
  const runs: StripRow[][] = [];
  for (const row of rows) {
    const run = runs.at(-1);
    const before = run?.at(-1);
    const joins = before !== undefined && isFree(row) && isFree(before);
    if (joins && row.pools.length > 0 === before.pools.length > 0) run?.push(row);
    else runs.push([row]);
  }
  return runs.flatMap((run) =>
    run.length < ELIDED_ROWS_MIN ? run.map(rowShape) : [runShape(run)],
  );
};

const isFree = ({ blocks }: StripRow): boolean => blocks.length === 0;

const runShape = (run: readonly StripRow[]): Shape => ({
  height: 22,
  draw: (y) => {
    const [first] = run;
    if (first === undefined) return [];
    const { base, family, pools } = first;
    const isPool = pools.length > 0;
    const style = { x: STRIP_X, y: y + 14, size: 11, fill: isPool ? "#3c7a3c" : "#777777" };
    const what = isPool ? "rows are free, in a pool" : "rows are free";
    return [text(style, `⋮ ${bigintToIp(base, family)} and on: ${run.length} ${what}`)];
  },
});

const rowShape = (row: StripRow): Shape => ({
  height: row.height + (row.collisions.length > 0 ? COLLISION_HEIGHT : 0) + 4,
  draw: (y) => [
    text(
      { x: STRIP_X - 8, y: y + row.height / 2 + 4, size: 11, fill: "#555555", anchor: "end" },
      bigintToIp(row.base, row.family),
    ),
    ...blockMarks(row, y),
  ],
});

const headText = (region: MapRegion, rows: number): string => {
  const { cidr, parts, blocks, taken, pools } = region;
  const rowLength = parts.length + Math.log2(rows);
  return [
    `${cidr}: ${blocks.length} ${blocks.length === 1 ? "block" : "blocks"}`,
    `${percentText(taken, sizeOfParts(parts))} taken`,
    ...(rows > 1 ? [`a row is a /${rowLength}`] : []),
    ...(pools.length > 0 ? [`${pools.length === 1 ? "pool" : "pools"} ${pools.join(", ")}`] : []),
  ].join(", ");
};

const collisionsShape = ({ collisions, hasMoreCollisions }: AddressMap): Shape => {
  const shown = collisions.slice(0, SHOWN_COLLISIONS_MAX);
  const more = collisions.length - shown.length;
  const lines = shown.flatMap(({ sentence }) =>
    wrapped(sentence, SENTENCE_CHARS).map((line, at) => (at === 0 ? `! ${line}` : `  ${line}`)),
  );
  if (more > 0) lines.push(`and ${more}${hasMoreCollisions ? " or more" : ""} more`);
  if (lines.length === 0) return { height: 0, draw: () => [] };
  return {
    height: 12 + lines.length * 17,
    draw: (y) =>
      lines.map((line, at) =>
        text({ x: MARGIN, y: y + 22 + at * 17, size: 12, fill: CONFLICT }, line),
      ),
  };
};
