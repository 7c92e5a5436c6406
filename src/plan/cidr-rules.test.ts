/** Every pair of parties under design.md, section 6: allowed, bridged, forbidden, or dependent on who has the range. */

import fc from "fast-check";
import t from "tap";
import { RANGE_KINDS, SEED_USES, type RangeKind, type SeedUse } from "#src/model/allocation.ts";
import { cidrFromParts, overlaps, type Cidr } from "#src/model/cidr.ts";
import { cidr, claimOf, heldBlock, seedOf } from "./allocation/claim-samples.ts";
import { dryRun } from "./cidr-dry-run.ts";
import { claimPlaces, seedPlaces, type CidrFacts, type RuledPlace } from "./cidr-facts.ts";
import { relate } from "./cidr-relation.ts";
import { findCollisions, ruleBetween, type RuleVerdict } from "./cidr-rules.ts";

const WIDE = cidr("10.0.0.0/8");
const NARROW = cidr("10.1.0.0/16");

const claim = (
  name: string,
  more: { cidr?: Cidr; use?: RangeKind; vpc?: string; seeds?: string[]; isAdopted?: boolean } = {},
): RuledPlace => ({
  place: {
    cidr: more.cidr ?? NARROW,
    party: { kind: "claim", namespace: "ns", name, uid: `uid-${name}`, use: more.use ?? "nodes" },
  },
  vpc: more.vpc ?? "vpc-a",
  seeds: more.seeds ?? ["eu-1"],
  isAdopted: more.isAdopted ?? false,
});

const seed = (name: string, use: SeedUse = "nodes", range: Cidr = WIDE): RuledPlace => ({
  place: { cidr: range, party: { kind: "seed", name, use } },
  vpc: null,
  seeds: [],
  isAdopted: false,
});

const range = (block: Cidr = WIDE): RuledPlace => ({
  place: { cidr: block, party: { kind: "range", label: null } },
  vpc: null,
  seeds: [],
  isAdopted: false,
});

const pairs: readonly {
  readonly name: string;
  readonly a: RuledPlace;
  readonly b: RuledPlace;
  readonly want: RuleVerdict;
  readonly why: RegExp;
}[] = [
  {
    name: "two claims of one VPC",
    a: claim("a"),
    b: claim("b", { cidr: WIDE }),
    want: "forbidden",
    why: /clusters of one VPC \(vpc-a\) must be apart/,
  },
  {
    name: "two ranges of one claim",
    a: claim("a"),
    b: claim("a", { cidr: WIDE, use: "pods" }),
    want: "forbidden",
    why: /nodes, pods and services of one cluster/,
  },
  {
    name: "claims of two VPCs",
    a: claim("a"),
    b: claim("b", { vpc: "vpc-b" }),
    want: "allowed",
    why: /clusters of different VPCs \(vpc-[ab], vpc-[ab]\) may overlap/,
  },
  {
    name: "a claim and a seed that it never runs on",
    a: claim("a"),
    b: seed("eu-2"),
    want: "allowed",
    why: /does not name this seed/,
  },
  {
    name: "two seeds",
    a: seed("eu-1"),
    b: seed("eu-2"),
    want: "allowed",
    why: /seeds may overlap each other/,
  },
  {
    name: "a range and a claim",
    a: range(),
    b: claim("a"),
    want: "depends",
    why: /of VPC vpc-a can't have it/,
  },
  {
    name: "a range and a seed",
    a: range(),
    b: seed("eu-1"),
    want: "depends",
    why: /no shoot that may run on this seed/,
  },
  {
    name: "two ranges",
    a: range(),
    b: range(NARROW),
    want: "depends",
    why: /both can't be in one cluster/,
  },
  {
    name: "a pool and a claim",
    a: { ...range(), isPool: true },
    b: claim("a"),
    want: "allowed",
    why: /what is taken is passed over/,
  },
];

for (const { name, a, b, want, why } of pairs) {
  void t.test(`${name}: ${want}, whichever is named first`, async (t) => {
    for (const answer of [ruleBetween(a, b), ruleBetween(b, a)]) {
      t.match(answer, { verdict: want, sentence: why });
    }
  });
}

void t.test("A23 every use of a shoot against every use of its seed, adopted or not", async (t) => {
  for (const use of RANGE_KINDS) {
    for (const other of SEED_USES) {
      const isCluster = RANGE_KINDS.some((kind) => kind === other);
      for (const isAdopted of [false, true]) {
        const answer = ruleBetween(claim("a", { use, isAdopted }), seed("eu-1", other));
        t.equal(
          answer?.verdict,
          isAdopted && isCluster ? "bridged" : "forbidden",
          `${use} ${other}`,
        );
      }
    }
  }
});

void t.test("collisions agree with an oracle that compares every pair", async () => {
  fc.assert(
    fc.property(fc.array(anyPlace(), { maxLength: 30 }), fc.boolean(), (places, withDepends) => {
      const { found, isCut } = findCollisions(places, { withDepends });
      const want = places.flatMap((a, at) =>
        places.slice(0, at).filter((b) => {
          const verdict = ruleBetween(a, b)?.verdict ?? "allowed";
          return (
            verdict === "forbidden" ||
            verdict === "bridged" ||
            (withDepends && verdict === "depends")
          );
        }),
      );
      return (
        !isCut &&
        found.length === want.length &&
        found.every(({ a, b }) => overlaps(a.place.cidr, b.place.cidr))
      );
    }),
    { numRuns: 300 },
  );
});

void t.test("A27 reserved ranges collide with everything but what a seed sets aside", async (t) => {
  const loopback = cidr("127.0.0.0/16");
  const found = (place: RuledPlace) => findCollisions([place], { withDepends: false }).found.length;
  t.equal(found(claim("a", { cidr: loopback })), 1);
  t.equal(found(range(loopback)), 1);
  t.equal(found(seed("eu-1", "reserved", loopback)), 0);
});

void t.test(
  "the rules forbid exactly what the allocator refuses, and bridge what it bridges",
  async () => {
    const block = fc.constantFrom(
      "10.0.0.0/8",
      "10.1.0.0/16",
      "10.1.2.0/24",
      "11.0.0.0/8",
      "127.0.0.0/9",
    );
    fc.assert(
      fc.property(
        block,
        block,
        block,
        fc.constantFrom(...SEED_USES),
        fc.boolean(),
        (own, held, seeds, use, isAdopted) => {
          const facts: CidrFacts = {
            seeds: [
              seedOf("eu-1", { nodes: [], pods: [], services: [], transit: [], [use]: [seeds] }),
            ],
            pools: [],
            domains: [],
            blocks: [heldBlock({ cidr: held, owner: "old" })],
            claims: [claimOf("new", { nodes: own }, { isAdopted, createdMs: 2000 })],
          };
          const verdict = dryRun(facts).claims[0]?.verdict;
          const places = [...facts.seeds.flatMap(seedPlaces), ...claimPlaces(facts)];
          const about = findCollisions(places, { withDepends: false }).found.filter(({ a, b }) =>
            [a, b].some(
              ({ place: { party } }) => party.kind === "claim" && party.uid === "uid-new",
            ),
          );
          const isForbidden = about.some((one) => one.verdict === "forbidden");
          if (isForbidden || verdict?.kind !== "granted")
            return isForbidden === (verdict?.kind === "refused");
          return verdict.bridged.length === about.length;
        },
      ),
      { numRuns: 500 },
    );
  },
);

void t.test(
  "ten thousand equal ranges of as many VPCs are no collision, and of one VPC end with a bound",
  async (t) => {
    const places = Array.from({ length: 10_000 }, (_, at) => claim(`c${at}`, { vpc: `vpc-${at}` }));
    t.same(findCollisions(places, { withDepends: true }), { found: [], isCut: false });
    const same = Array.from({ length: 2000 }, (_, at) => claim(`c${at}`));
    const { found, isCut } = findCollisions(same, { withDepends: false });
    t.same([found.length, isCut], [1000, true]);
  },
);

void t.test("A22 relations of sets agree with an oracle that lists all addresses", async () => {
  fc.assert(
    fc.property(
      fc.array(smallCidr(), { minLength: 1, maxLength: 4 }),
      fc.array(smallCidr(), { minLength: 1, maxLength: 4 }),
      (a, b) => {
        const [left, right] = [addressesOf(a), addressesOf(b)];
        const both = left.intersection(right);
        const { relation, common } = relate(
          a.map((one) => range(one)),
          b.map((one) => range(one)),
        );
        const want =
          both.size === 0
            ? "disjoint"
            : both.size === left.size && both.size === right.size
              ? "equal"
              : both.size === left.size
                ? "inside"
                : both.size === right.size
                  ? "contains"
                  : "overlaps";
        return relation === want && addressesOf(common).size === both.size;
      },
    ),
    { numRuns: 500 },
  );
});

function anyPlace(): fc.Arbitrary<RuledPlace> {
  const block = fc
    .constantFrom("10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "11.0.0.0/8", "fd00::/16")
    .map(cidr);
  return fc.oneof(
    fc
      .record({
        block,
        name: fc.constantFrom("a", "b", "c"),
        vpc: fc.constantFrom("vpc-a", "vpc-b"),
        isAdopted: fc.boolean(),
        use: fc.constantFrom(...RANGE_KINDS),
      })
      .map(({ block: own, name, ...more }) => claim(name, { cidr: own, ...more })),
    fc
      .record({ block, name: fc.constantFrom("eu-1", "eu-2"), use: fc.constantFrom(...SEED_USES) })
      .map(({ block: own, name, use }) => seed(name, use, own)),
    block.map((own) => range(own)),
  );
}

function smallCidr(): fc.Arbitrary<Cidr> {
  return fc
    .record({ base: fc.bigInt(0n, 31n), length: fc.integer({ min: 27, max: 32 }) })
    .map(({ base, length }) => cidrFromParts({ family: 4, base: (10n << 24n) + base, length }));
}

function addressesOf(list: readonly Cidr[]): Set<number> {
  return new Set(
    list.flatMap((block) => {
      const [ip = "", length] = block.split("/");
      const first = Number(ip.split(".")[3]);
      return Array.from({ length: 2 ** (32 - Number(length)) }, (_, at) => first + at);
    }),
  );
}
