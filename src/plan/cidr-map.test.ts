/** Maps against naive models: every block is shown once, nothing is shown twice, free is what nobody has. */

import fc from "fast-check";
import t from "tap";
import {
  cidrFromParts,
  cidrParts,
  overlaps,
  partsContain,
  sizeOfParts,
  type Cidr,
} from "#src/model/cidr.ts";
import { bitsOf, ipToBigint, type Family } from "#src/model/ip.ts";
import { planMap } from "./cidr-map.ts";
import { gridOf } from "./cidr-map-cells.ts";
import { lanesOf } from "./cidr-map-lanes.ts";
import type { MapItem } from "./cidr-map-regions.ts";
import { mapSvg } from "./cidr-map-svg.ts";
import { mapText } from "./cidr-map-text.ts";
import { countText, percentText } from "./cidr-map-words.ts";
import { cidr, poolOf } from "./allocation/claim-samples.ts";
import type { CidrFacts } from "./cidr-facts.ts";

const NOTHING: CidrFacts = { seeds: [], pools: [], claims: [], blocks: [], domains: [] };

const mapOf = (ranges: readonly Cidr[], pools: readonly string[] = []) =>
  planMap({
    facts: { ...NOTHING, pools: pools.length === 0 ? [] : [poolOf("main", pools)] },
    ranges,
  });

void t.test("every block is in exactly one item, in order, and items never overlap", async () => {
  fc.assert(
    fc.property(fc.array(anyCidr(), { minLength: 1, maxLength: 60 }), (ranges) => {
      const { blocks, items } = mapOf(ranges);
      const shown = items.flatMap((item) => (item.kind === "gap" ? [] : item.blocks));
      const isComplete =
        shown.length === blocks.length && shown.every((block, at) => block === blocks[at]);
      const spans = items.map(spanOf);
      const isInOrder = spans.every((span, at) => {
        const next = spans[at + 1];
        if (next === undefined || next.family !== span.family) return true;
        return span.end === next.base;
      });
      return isComplete && isInOrder && new Set(ranges).size === blocks.length;
    }),
    { numRuns: 500 },
  );
});

void t.test(
  "a picture is never emptier than a scale can show, and there are not too many",
  async () => {
    fc.assert(
      fc.property(fc.array(anyCidr(), { minLength: 1, maxLength: 60 }), (ranges) => {
        const { items } = mapOf(ranges);
        const isReadable = items.every(
          (item) => item.kind !== "region" || sizeOfParts(item.parts) / item.taken <= 48n,
        );
        const drawn = items.filter(({ kind }) => kind !== "gap").length;
        return isReadable && drawn <= 26;
      }),
      { numRuns: 300 },
    );
  },
);

void t.test("cells agree with an oracle that asks every address", async () => {
  fc.assert(
    fc.property(smallRegion(), ({ ranges, columns, pool }) => {
      const map = mapOf(ranges, [pool]);
      return map.items.every((item) => {
        if (item.kind !== "region") return true;
        const grid = gridOf(item, {
          columns,
          pools: [cidr(pool)],
          collisions: map.collisions.map((one) => one.cidr),
        });
        const cells = grid.rows.flatMap((row) => row.cells);
        const size = sizeOfParts(item.parts) / BigInt(cells.length);
        return cells.every((cell, at) => {
          const own = cidrFromParts({
            ...item.parts,
            base: item.parts.base + BigInt(at) * size,
            length: grid.cellLength,
          });
          const touching = ranges.filter((range) => overlaps(range, own));
          switch (cell.kind) {
            case "free":
              return touching.length === 0 && cell.inPool === overlaps(own, cidr(pool));
            case "taken":
              return touching.length > 0 && cell.isWhole === isCovered(own, touching);
            case "collision":
              return new Set(touching).size > 1 || touching.length > 1;
            case "mixed":
              return false;
          }
        });
      });
    }),
    { numRuns: 300 },
  );
});

void t.test("lanes never hide a block behind another, until there are more than six", async () => {
  fc.assert(
    fc.property(fc.array(anyCidr(), { maxLength: 40 }), (ranges) => {
      const { blocks } = mapOf([...ranges, cidr("10.0.0.0/8")]);
      const laned = lanesOf(blocks);
      return (
        laned.length === blocks.length &&
        laned.every(({ block, lane, lanes }) =>
          laned.every(
            (other) =>
              other.block === block ||
              lanes === 6 ||
              other.lane !== lane ||
              !overlaps(other.block.cidr, block.cidr),
          ),
        )
      );
    }),
    { numRuns: 300 },
  );
});

void t.test(
  "the same facts give the same pictures, in any order, and no picture throws",
  async () => {
    fc.assert(
      fc.property(
        fc.array(anyCidr(), { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 1, max: 300 }),
        (ranges, width) => {
          const [map, turned] = [
            mapOf(ranges, ["10.0.0.0/8"]),
            mapOf(ranges.toReversed(), ["10.0.0.0/8"]),
          ];
          const text = mapText({ ...map, collisions: [] }, { width, listsAll: false });
          return (
            text === mapText({ ...turned, collisions: [] }, { width, listsAll: false }) &&
            mapSvg({ ...map, collisions: [] }) === mapSvg({ ...turned, collisions: [] })
          );
        },
      ),
      { numRuns: 100 },
    );
  },
);

void t.test("the ends of both families can be drawn", async (t) => {
  for (const text of [
    "0.0.0.0/0",
    "255.255.255.255/32",
    "::/0",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
  ]) {
    const map = mapOf([cidr(text), cidr("10.0.0.0/31"), cidr("fd00::/127")]);
    t.match(mapText(map, { width: 80, listsAll: true }), text);
    t.match(mapSvg(map), text);
  }
});

void t.test(
  "numbers of addresses are exact up to 2^32, and never rounded to all or nothing",
  async (t) => {
    t.same(
      [0n, 1000n, 65_536n, 2n ** 32n, 2n ** 32n + 1n, 2n ** 64n, 3n * 2n ** 64n].map(countText),
      ["0", "1,000", "65,536", "4,294,967,296", "~2^32", "2^64", "~2^65.58"],
    );
    t.same(
      [0n, 1n, 500n, 9_999n, 10_000n].map((part) => percentText(part, 10_000n)),
      ["0 %", "under 0.1 %", "5.0 %", "over 99.9 %", "100 %"],
    );
  },
);

function spanOf(item: MapItem): { family: Family; base: bigint; end: bigint } {
  switch (item.kind) {
    case "region": {
      const { family, base } = item.parts;
      return { family, base, end: base + sizeOfParts(item.parts) };
    }
    case "scattered":
      return { family: item.blocks[0]?.parts.family ?? 4, base: item.base, end: item.end };
    case "gap": {
      const family = item.first.includes(":") ? 6 : 4;
      return { family, base: ipToBigint(item.first), end: ipToBigint(item.last) + 1n };
    }
  }
}

/** True when the addresses of `whole` are all in one of `parts`, each asked. */
function isCovered(whole: Cidr, parts: readonly Cidr[]): boolean {
  const { family, base, length } = cidrParts(whole);
  const count = 1 << (bitsOf(family) - length);
  return Array.from({ length: count }, (_, at) => base + BigInt(at)).every((address) =>
    parts.some((part) =>
      partsContain({
        outer: cidrParts(part),
        inner: { family, base: address, length: bitsOf(family) },
      }),
    ),
  );
}

/** Blocks of all sizes, near and far. */
function anyCidr(): fc.Arbitrary<Cidr> {
  return fc.oneof(
    fc
      .record({ base: fc.bigInt(0n, 2n ** 32n - 1n), length: fc.integer({ min: 0, max: 32 }) })
      .map((parts) => cidrFromParts({ family: 4, ...parts })),
    fc
      .record({ base: fc.bigInt(0n, 2n ** 128n - 1n), length: fc.integer({ min: 0, max: 128 }) })
      .map((parts) => cidrFromParts({ family: 6, ...parts })),
    fc
      .record({ base: fc.bigInt(0n, 2n ** 24n - 1n), length: fc.integer({ min: 12, max: 30 }) })
      .map(({ base, length }) => cidrFromParts({ family: 4, base: (10n << 24n) + base, length })),
  );
}

/** A few blocks of a /24 that are small enough to ask every address. */
function smallRegion() {
  return fc.record({
    ranges: fc.array(
      fc
        .record({ base: fc.bigInt(0n, 255n), length: fc.integer({ min: 25, max: 32 }) })
        .map(({ base, length }) => cidrFromParts({ family: 4, base: (10n << 24n) + base, length })),
      { minLength: 1, maxLength: 8 },
    ),
    columns: fc.constantFrom(16, 32, 64),
    pool: fc.constantFrom("10.0.0.0/25", "10.0.0.64/26", "10.0.0.192/27"),
  });
}
