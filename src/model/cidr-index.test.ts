/** Tests of the index of blocks: every answer against a list that is searched naively, on small universes. */

import assert from "node:assert/strict";
import fc from "fast-check";
import t from "tap";
import {
  cidrFromParts,
  cidrParts,
  compareCidrs,
  containsCidr,
  overlaps,
  parseCidr,
  type Cidr,
} from "./cidr.ts";
import { pieces } from "./cidr-blocks.ts";
import { CidrIndex, firstFreeInAll, type Held } from "./cidr-index.ts";
import { subtract } from "./cidr-set.ts";
import type { IpAddress } from "./ip.ts";
import { valueOf } from "./parsed.ts";

const cidr = (text: string): Cidr => valueOf(parseCidr(text));

/** Universes of 16 to 32 addresses whose blocks cross word boundaries and both ends of the address space. */
const universes: readonly Cidr[] = [
  "0.0.0.0/27",
  "10.0.0.0/28",
  "255.255.255.224/27",
  "::/123",
  "fd00::/124",
  "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffe0/123",
].map(cidr);
/** The same, of large blocks: 16 pieces of each. */
const regions: readonly { universe: Cidr; longest: number }[] = [
  ...universes.map((universe) => ({
    universe,
    longest: cidrParts(universe).family === 4 ? 32 : 128,
  })),
  { universe: cidr("0.0.0.0/0"), longest: 4 },
  { universe: cidr("::/0"), longest: 4 },
  { universe: cidr("fd00::/30"), longest: 35 },
  { universe: cidr("fd00::/62"), longest: 66 },
  { universe: cidr("fd00::/94"), longest: 98 },
];

const arbitraryBlock = ({ universe, longest }: { universe: Cidr; longest: number }) => {
  const { length } = cidrParts(universe);
  return fc
    .record({ length: fc.integer({ min: length, max: longest }), at: fc.nat() })
    .map((pick) => {
      const all = [...pieces(universe, pick.length)];
      return all[pick.at % all.length] ?? universe;
    });
};

type Step = { readonly kind: "add" | "remove"; readonly cidr: Cidr; readonly holder: string };

const arbitrarySteps = fc.constantFrom(...regions).chain((region) =>
  fc.record({
    region: fc.constant(region),
    steps: fc.array(
      fc.record({
        kind: fc.constantFrom("add", "add", "remove"),
        cidr: arbitraryBlock(region),
        holder: fc.constantFrom("a", "b", "c"),
      }) as fc.Arbitrary<Step>,
      { maxLength: 24 },
    ),
    probe: arbitraryBlock(region),
    length: fc.integer({ min: cidrParts(region.universe).length, max: region.longest }),
    from: arbitraryBlock(region),
  }),
);

const keyOf = ({ cidr: block, holder }: Held<string>): string => `${block} ${holder}`;
const keysOf = (held: Iterable<Held<string>>): string[] => Array.from(held, keyOf);
const blocksOf = (held: Iterable<Held<string>>): Cidr[] => Array.from(held, (one) => one.cidr);
const byKey = (a: string, b: string): number => {
  const [x = "", hx = ""] = a.split(" ");
  const [y = "", hy = ""] = b.split(" ");
  return compareCidrs(x as Cidr, y as Cidr) || (hx < hy ? -1 : 1);
};

const naiveOf = (list: readonly Held<string>[]) => {
  const free = (region: Cidr) =>
    subtract(
      region,
      list.map((held) => held.cidr),
    );
  return {
    overlapping: (probe: Cidr) => list.filter((held) => overlaps(held.cidr, probe)),
    free,
    largestFree: (region: Cidr) =>
      free(region).toSorted((a, b) => cidrParts(a).length - cidrParts(b).length)[0] ?? null,
    firstFree: (region: Cidr, length: number, from: Cidr | null) =>
      [...pieces(region, length)].find(
        (piece) =>
          (from === null || cidrParts(piece).base >= cidrParts(from).base) &&
          free(region).some((outer) => containsCidr({ outer, inner: piece })),
      ) ?? null,
  };
};

t.test("A22 the index answers as a naive list does", async () => {
  fc.assert(
    fc.property(arbitrarySteps, ({ region, steps, probe, length, from }) => {
      const index = new CidrIndex<string>();
      let list: Held<string>[] = [];
      for (const step of steps) {
        const same = (held: Held<string>) => held.cidr === step.cidr && held.holder === step.holder;
        const isThere = list.some(same);
        if (step.kind === "add") {
          assert.equal(index.add(step.cidr, step.holder), !isThere);
          if (!isThere) list.push({ cidr: step.cidr, holder: step.holder });
        } else {
          assert.equal(index.remove(step.cidr, step.holder), isThere);
          list = list.filter((held) => !same(held));
        }
      }
      const naive = naiveOf(list);
      assert.equal(index.size, list.length);
      assert.deepEqual(blocksOf(index.all()), blocksOf(list).toSorted(compareCidrs));
      assert.deepEqual(keysOf(index.all()).toSorted(byKey), keysOf(list).toSorted(byKey));
      assert.deepEqual(
        keysOf(index.overlapping(probe)).toSorted(byKey),
        keysOf(naive.overlapping(probe)).toSorted(byKey),
      );
      assert.equal(index.firstOverlap(probe) === null, naive.overlapping(probe).length === 0);
      assert.deepEqual([...index.freeBlocks(probe)], naive.free(probe));
      assert.equal(index.largestFree(probe), naive.largestFree(probe));
      const base = from.slice(0, from.indexOf("/")) as IpAddress;
      const wish = { within: region.universe, length };
      assert.equal(index.firstFree(wish), naive.firstFree(region.universe, length, null));
      assert.equal(
        index.firstFree({ ...wish, from: base }),
        naive.firstFree(region.universe, length, from),
      );
      assert.equal(
        index.firstFree({ within: probe, length }),
        length < cidrParts(probe).length ? null : naive.firstFree(probe, length, null),
      );
    }),
    { numRuns: 3000 },
  );
});

t.test("free in all of several indexes is free in their union", async () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...regions).chain((region) =>
        fc.record({
          region: fc.constant(region),
          lists: fc.array(fc.array(arbitraryBlock(region), { maxLength: 10 }), {
            minLength: 1,
            maxLength: 4,
          }),
          length: fc.integer({ min: cidrParts(region.universe).length, max: region.longest }),
        }),
      ),
      ({ region, lists, length }) => {
        const indexes = lists.map(
          (list) => new CidrIndex(list.map((block) => ({ cidr: block, holder: block }))),
        );
        const union = naiveOf(lists.flat().map((block) => ({ cidr: block, holder: "" })));
        assert.equal(
          firstFreeInAll(indexes, { within: region.universe, length }),
          union.firstFree(region.universe, length, null),
        );
      },
    ),
  );
});

t.test(
  "A8 every prefix length of both families is found, first and last byte zero or not",
  async (t) => {
    for (const [universe, bits] of [
      [cidr("0.0.0.0/0"), 32],
      [cidr("::/0"), 128],
    ] as const) {
      const { family } = cidrParts(universe);
      for (let length = 0; length <= bits; length += 1) {
        const index = new CidrIndex<string>();
        const first = index.firstFree({ within: universe, length });
        t.equal(first, cidrFromParts({ family, base: 0n, length }));
        if (first === null) continue;
        index.add(first, "first");
        const last = cidrFromParts({ family, base: (1n << BigInt(bits)) - 1n, length });
        const second = index.firstFree({ within: universe, length });
        t.equal(
          second,
          length === 0
            ? null
            : cidrFromParts({ family, base: 1n << BigInt(bits - length), length }),
        );
        if (length === 0) continue;
        const from = last.slice(0, last.indexOf("/")) as IpAddress;
        t.equal(index.firstFree({ within: universe, length, from }), last);
        t.same([...index.freeBlocks(universe)], subtract(universe, [first]));
      }
    }
  },
);

t.test("a gap in the middle is used again", async (t) => {
  const pool = cidr("10.0.0.0/8");
  const index = new CidrIndex<string>();
  for (let count = 0; count < 100; count += 1) {
    index.add(index.firstFree({ within: pool, length: 20 }) ?? pool, "x");
  }
  t.equal(index.remove(cidr("10.2.16.0/20"), "x"), true);
  t.equal(index.firstFree({ within: pool, length: 20 }), "10.2.16.0/20");
  t.equal(index.firstFree({ within: pool, length: 24 }), "10.2.16.0/24");
  t.equal(index.firstFree({ within: pool, length: 19 }), "10.6.64.0/19");
});

t.test("several holders of one block are told apart", async (t) => {
  const index = new CidrIndex<string>();
  const block = cidr("10.0.0.0/16");
  for (const holder of ["a", "b", "c"]) t.equal(index.add(block, holder), true);
  t.equal(index.add(block, "b"), false);
  t.same(
    [...index.overlapping(cidr("10.0.9.0/24"))].map(({ holder }) => holder),
    ["a", "b", "c"],
  );
  for (const holder of ["a", "b", "c"]) t.equal(index.remove(block, holder), true);
  t.equal(index.firstOverlap(block), null);
  t.equal(index.size, 0);
});
