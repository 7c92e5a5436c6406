/** Tests of set algebra over CIDR blocks, against sets of single addresses. */

import fc from "fast-check";
import t from "tap";
import { cidrFromParts, cidrParts, compareCidrs, overlaps, sizeOf, type Cidr } from "./cidr.ts";
import { mergeCidrs, subtract } from "./cidr-set.ts";
import { bigintToIp, bitsOf } from "./ip.ts";

const c = (text: string) => text as Cidr;

const differences = [
  { name: "nothing removed", from: "10.0.0.0/8", remove: [], want: ["10.0.0.0/8"] },
  { name: "all removed", from: "10.0.0.0/8", remove: ["0.0.0.0/0"], want: [] },
  { name: "one half removed", from: "0.0.0.0/0", remove: ["0.0.0.0/1"], want: ["128.0.0.0/1"] },
  { name: "a /127 out of a /126", from: "::/126", remove: ["::2/127"], want: ["::/127"] },
  { name: "a /128 out of a /127", from: "::/127", remove: ["::/128"], want: ["::1/128"] },
  { name: "the other family", from: "::/0", remove: ["0.0.0.0/0"], want: ["::/0"] },
  {
    name: "an address in the middle",
    from: "10.0.0.0/29",
    remove: ["10.0.0.3/32"],
    want: ["10.0.0.0/31", "10.0.0.2/32", "10.0.0.4/30"],
  },
];

for (const { name, from, remove, want } of differences) {
  t.test(`A22 subtract: ${name}`, async (t) => t.same(subtract(c(from), remove.map(c)), want));
}

t.test("A22 an address out of ::/0 leaves the 128 other branches", async (t) => {
  const left = subtract(c("::/0"), [c("::1/128")]);
  t.equal(left.length, 128);
  t.equal(
    left.reduce((sum, block) => sum + sizeOf(block), 0n),
    2n ** 128n - 1n,
  );
});

t.test(
  "A22 subtract and mergeCidrs agree with plain sets and give the fewest blocks in order",
  async () => {
    fc.assert(
      fc.property(blocks(), blocks(), (from, remove) => {
        const left = mergeCidrs(from.flatMap((block) => subtract(block, remove)));
        const gone = setOf(remove);
        const want = new Set([...setOf(from)].filter((address) => !gone.has(address)));
        return (
          isSame(setOf(left), want) &&
          isShortest(left) &&
          isSame(setOf(mergeCidrs(from)), setOf(from))
        );
      }),
      { numRuns: 1000 },
    );
  },
);

t.test("mergeCidrs joins halves up to the whole space", async (t) => {
  t.same(mergeCidrs([c("128.0.0.0/1"), c("0.0.0.0/2"), c("64.0.0.0/2")]), ["0.0.0.0/0"]);
  t.same(mergeCidrs([c("10.0.1.0/24"), c("10.0.2.0/24")]), ["10.0.1.0/24", "10.0.2.0/24"]);
});

function blocks(): fc.Arbitrary<Cidr[]> {
  const block = fc
    .record({
      isSix: fc.boolean(),
      offset: fc.bigInt(0n, 31n),
      hostBits: fc.integer({ min: 0, max: 5 }),
    })
    .map(({ isSix, offset, hostBits }) => {
      const family = isSix ? 6 : 4;
      const base = 2n ** BigInt(bitsOf(family)) - 32n + offset;
      return cidrFromParts({ family, base, length: bitsOf(family) - hostBits });
    });
  return fc.array(block, { maxLength: 8 });
}

function setOf(list: readonly Cidr[]): Set<string> {
  return new Set(
    list.flatMap((cidr) => {
      const { base, family } = cidrParts(cidr);
      return Array.from({ length: Number(sizeOf(cidr)) }, (_, at) =>
        bigintToIp(base + BigInt(at), family),
      );
    }),
  );
}

function isSame(a: Set<string>, b: Set<string>): boolean {
  return a.size === b.size && a.isSubsetOf(b);
}

/** Sorted, disjoint, and no two neighbours fill one larger block. */
function isShortest(list: readonly Cidr[]): boolean {
  return list.slice(1).every((block, at) => {
    const before = list[at] ?? block;
    const [a, b] = [cidrParts(before), cidrParts(block)];
    const isPair =
      a.family === b.family &&
      a.length === b.length &&
      a.base + sizeOf(before) === b.base &&
      a.base % (2n * sizeOf(before)) === 0n;
    return compareCidrs(before, block) < 0 && !overlaps(before, block) && !isPair;
  });
}
