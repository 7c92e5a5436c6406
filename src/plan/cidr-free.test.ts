/** Free space of pools, against an oracle that counts every address. */

import fc from "fast-check";
import t from "tap";
import { cidrFromParts, sizeOf, type Cidr } from "#src/model/cidr.ts";
import { cidr, domainOf, heldBlock, poolOf, seedOf } from "./allocation/claim-samples.ts";
import type { CidrFacts } from "./cidr-facts.ts";
import { freeSpace } from "./cidr-free.ts";

const NOTHING: CidrFacts = { seeds: [], pools: [], claims: [], blocks: [], domains: [] };

void t.test("counts, lengths and the largest block agree with an oracle", async () => {
  fc.assert(
    fc.property(fc.array(smallCidr(), { maxLength: 12 }), (taken) => {
      const blocks = [...new Set(taken)].map((text) => heldBlock({ cidr: text, owner: "a" }));
      const [space] = freeSpace({ ...NOTHING, pools: [poolOf("p", ["10.0.0.0/26"])], blocks }, {});
      const free = new Set(Array.from({ length: 64 }, (_, at) => at));
      for (const text of taken) for (const at of addressesOf(text)) free.delete(at);
      if (space === undefined) return false;
      const listed = space.lengths.reduce(
        (sum, { length, whole }) => sum + whole * 2 ** (32 - length),
        0,
      );
      const isFitRight = space.lengths.every(({ length, fit }) => {
        const size = 2 ** (32 - length);
        const starts = Array.from({ length: 64 / size }, (_, at) => at * size);
        const free32 = starts.filter((start) =>
          Array.from({ length: size }, (_, at) => start + at).every((at) => free.has(at)),
        );
        return Number(fit) === free32.length;
      });
      const isLargestRight =
        space.largest === null
          ? free.size === 0
          : addressesOf(space.largest).every((at) => free.has(at));
      return (
        Number(space.free) === free.size && listed === free.size && isFitRight && isLargestRight
      );
    }),
    { numRuns: 500 },
  );
});

void t.test("only blocks of the same VPC are in the way, seeds are in everybody's", async (t) => {
  const facts = {
    ...NOTHING,
    pools: [poolOf("p", ["10.0.0.0/16"])],
    seeds: [
      seedOf("eu-1", { nodes: ["10.0.0.0/18"] }),
      seedOf("eu-2", { nodes: ["10.0.64.0/18"] }),
    ],
    blocks: [heldBlock({ cidr: "10.0.128.0/17", owner: "a" })],
  };
  const free = (options: Parameters<typeof freeSpace>[1]) =>
    freeSpace(facts, options).map((one) => one.free);
  t.same(free({}), [0n]);
  t.same(free({ vpcs: ["vpc-b"] }), [sizeOf(cidr("10.0.128.0/17"))]);
  t.same(free({ vpcs: ["vpc-b"], seeds: ["eu-1"] }), [3n * sizeOf(cidr("10.0.0.0/18"))]);
});

void t.test(
  "what a domain has promised is taken, and a pool for one VPC is shown for it alone",
  async (t) => {
    const { name: _, uid: __, ...pending } = heldBlock({ cidr: "10.0.0.0/17", owner: "a" });
    const facts = {
      ...NOTHING,
      pools: [poolOf("p", ["10.0.0.0/16"], { vpcs: ["vpc-b"] }), poolOf("q", ["10.0.0.0/16"])],
      domains: [domainOf({ pending: [pending] })],
    };
    t.match(freeSpace(facts, {}), [
      { pool: "p", vpc: "vpc-b", free: 65_536n },
      { pool: "q", vpc: "vpc-a", free: 32_768n, largest: "10.0.128.0/17" },
    ]);
    t.match(freeSpace({ ...NOTHING, pools: [poolOf("q", ["::/0"])] }, {}), [
      { vpc: null, free: 1n << 128n },
    ]);
  },
);

function smallCidr(): fc.Arbitrary<Cidr> {
  return fc
    .record({ base: fc.bigInt(0n, 63n), length: fc.integer({ min: 27, max: 32 }) })
    .map(({ base, length }) => cidrFromParts({ family: 4, base: (10n << 24n) + base, length }));
}

function addressesOf(block: Cidr): number[] {
  const [ip = "", length] = block.split("/");
  const first = Number(ip.split(".")[3]);
  return Array.from({ length: 2 ** (32 - Number(length)) }, (_, at) => first + at);
}
