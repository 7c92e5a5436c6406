/** The marks of one row of an SVG map: free space, blocks with their names, collisions. */

import type { MapBlock, MapUse } from "./cidr-map.ts";
import { escaped, rounded, text } from "./cidr-map-ink.ts";
import type { Span, StripRow } from "./cidr-map-strip.ts";

/** Something of a known height that can be drawn at any place. */
export interface Shape {
  readonly height: number;
  readonly draw: (y: number) => readonly string[];
}

/** Told apart by people who see few colours too: their lightness differs (after Okabe and Ito). */
export const COLOURS: Record<MapUse, { readonly fill: string; readonly line: string }> = {
  nodes: { fill: "#8ec1ea", line: "#3f7fb5" },
  pods: { fill: "#f7c76c", line: "#b9851f" },
  services: { fill: "#86d1b0", line: "#2e8b62" },
  transit: { fill: "#d9a8d6", line: "#99579a" },
  mapped: { fill: "#f3e67a", line: "#a59a20" },
  reserved: { fill: "#c4c4c4", line: "#777777" },
  range: { fill: "#b5bfd9", line: "#5d6b94" },
};
export const CONFLICT = "#c62828";

/** Narrower marks would not be seen. */
const WIDTH_MIN = 1.5;
const CHARACTER = 6.1;

export const blockMarks = (row: StripRow, y: number): string[] => [
  rect({ ...row.strip, y, height: row.height }, 'fill="#f4f4f4" stroke="#dddddd"'),
  ...row.pools.map((span) => rect({ ...span, y, height: row.height }, 'fill="#dff3df"')),
  ...row.blocks.flatMap((mark) => {
    const { lane, lanes, block } = mark.laned;
    const height = row.height / lanes;
    return blockInk(block, { ...mark, y: y + lane * height, height });
  }),
  ...row.collisions.map((span) => collisionInk(span, y + row.height + 2)),
];

/** Room below a row that has collisions. */
export const COLLISION_HEIGHT = 11;
/** What collides is often small, and must be found. */
const COLLISION_WIDTH_MIN = 7;

const collisionInk = (span: Span, y: number): string => {
  const width = Math.max(span.width, COLLISION_WIDTH_MIN);
  const x = span.x + span.width / 2 - width / 2;
  return rect(
    { x, y, width, height: COLLISION_HEIGHT - 3 },
    `fill="url(#collision)" stroke="${CONFLICT}"`,
  );
};

/** A block that is not drawn to scale. */
export const chipMarks = (
  block: MapBlock,
  box: Box & { readonly isCollision: boolean },
): string[] => [
  ...blockInk(block, box),
  ...(box.isCollision
    ? [
        rect(
          { ...box, y: box.y + 1, height: box.height - 2 },
          `fill="none" stroke="${CONFLICT}" stroke-width="2.5"`,
        ),
      ]
    : []),
];

interface Box extends Span {
  readonly y: number;
  readonly height: number;
}

const rect = ({ x, y, width, height }: Box, style: string): string =>
  `<rect x="${rounded(x)}" y="${rounded(y)}" width="${rounded(width)}" height="${rounded(height)}" ${style}/>`;

const blockInk = (block: MapBlock, box: Box): string[] => {
  const { fill, line } = COLOURS[block.use];
  const stroke = block.isSeed ? "#111111" : line;
  const inset = box.width > 4 ? 0.75 : 0;
  const inner: Box = {
    x: box.x + inset,
    y: box.y + 1,
    width: Math.max(box.width - 2 * inset, WIDTH_MIN),
    height: box.height - 2,
  };
  const strokeWidth = box.width < 3 ? 0.4 : block.isSeed ? 1.6 : 0.8;
  return [
    `<g><title>${escaped(titleOf(block))}</title>`,
    rect(inner, `fill="${fill}" stroke="${stroke}" stroke-width="${strokeWidth}"`),
    ...labels(block, inner),
    "</g>",
  ];
};

const titleOf = ({ description, holders }: MapBlock): string =>
  holders > 1 ? `${description}, and ${holders - 1} more` : description;

/** One or two lines, as far as there is room: whose it is above what it is. */
const labels = (block: MapBlock, box: Box): string[] => {
  const room = Math.floor((box.width - 6) / CHARACTER);
  const more = block.holders > 1 ? ` +${block.holders - 1}` : "";
  const owner = `${block.owner}${more}`;
  const style = { x: box.x + 4, size: 10, fill: "#111111" } as const;
  if (box.height >= 26 && owner !== "") {
    const above = fitting([owner, shortOwner(owner)], room);
    const below = fitting([block.cidr], room);
    if (above !== null && below !== null) {
      return [
        text({ ...style, y: box.y + box.height / 2 - 2 }, above),
        text({ ...style, y: box.y + box.height / 2 + 10, fill: "#444444" }, below),
      ];
    }
  }
  const one = fitting([`${owner} ${block.cidr}`.trim(), block.cidr, shortOwner(owner)], room);
  return one === null ? [] : [text({ ...style, y: box.y + box.height / 2 + 3.5 }, one)];
};

/** `shoot--a/net` is the claim of `shoot--a`; a part of a name tells more than nothing. */
const shortOwner = (owner: string): string => owner.replace(/^shoot--/, "").replace(/\/[^ ]*/, "");

const fitting = (choices: readonly string[], room: number): string | null =>
  choices.find((choice) => choice !== "" && choice.length <= room) ?? null;
