/** Tests of the words: what two ranges have in common, and what a seed's ranges would do to shoots. */

import t from "tap";
import { claimOf, cidr, heldBlock, seedOf } from "./claim-samples.ts";
import { Ledger } from "./ledger.ts";
import { checkSeedNetwork } from "./seed-check.ts";
import { explainOverlap, waitSentence, type Place } from "./sentence.ts";

const range = (text: string, label: string | null = null): Place => ({
  cidr: cidr(text),
  party: { kind: "range", label },
});

const pairs: readonly { a: Place; b: Place; want: string | null }[] = [
  { a: range("10.0.0.0/16"), b: range("10.1.0.0/16"), want: null },
  { a: range("10.0.0.0/8"), b: range("fd00::/8"), want: null },
  { a: range("0.0.0.0/0"), b: range("::/0"), want: null },
  {
    a: range("10.0.0.0/16"),
    b: range("10.0.0.0/16"),
    want: "10.0.0.0/16 is the same range as 10.0.0.0/16",
  },
  { a: range("10.0.4.0/24"), b: range("10.0.0.0/16"), want: "10.0.4.0/24 lies inside 10.0.0.0/16" },
  {
    a: range("fd00::/48", "a.yaml"),
    b: range("fd00::/64", "b.yaml"),
    want: "fd00::/48 (a.yaml) contains fd00::/64 (b.yaml)",
  },
  {
    a: { cidr: cidr("10.1.0.0/16"), party: { kind: "seed", name: "eu-1", use: "pods" } },
    b: { cidr: cidr("10.0.0.0/8"), party: { kind: "reserved", purpose: "x" } },
    want: "pods 10.1.0.0/16 of SeedNetwork eu-1 lies inside 10.0.0.0/8, which is reserved (x)",
  },
];
for (const { a, b, want } of pairs) {
  t.test(`${a.cidr} and ${b.cidr}: ${want ?? "nothing in common"}`, async (t) => {
    t.equal(explainOverlap(a, b), want);
  });
}

t.test("a sentence names a few of many", async (t) => {
  const seeds = Array.from({ length: 60 }, (_, at) => `s${at}`);
  const claim = { namespace: "n", name: "c" };
  t.match(waitSentence({ kind: "unknown-seed", claim, seeds }), /s0, s1, s2, s3 and 56 more/);
});

const ledger = new Ledger({
  blocks: [
    heldBlock({ cidr: "10.7.1.0/24", owner: "a", kind: "pods" }),
    heldBlock({ cidr: "10.7.2.0/24", owner: "b", vpc: "vpc-b" }),
  ],
});
const seed = seedOf("eu-2", { services: ["10.7.0.0/16"] });

t.test("A23 a seed's new range that takes in shoots on it names each of them", async (t) => {
  const claims = [
    claimOf("a", { pods: "/24" }, { seeds: ["eu-1", "eu-2"] }),
    claimOf("b", { nodes: "/24" }, { seeds: ["eu-2"], vpc: "vpc-b" }),
  ];
  t.same(
    checkSeedNetwork({ seed, claims, ledger }).map(({ reason }) => reason),
    [
      "pods 10.7.1.0/24 of NetworkClaim shoot--a/net",
      "nodes 10.7.2.0/24 of NetworkClaim shoot--b/net",
    ].map(
      (held) =>
        `services 10.7.0.0/16 of SeedNetwork eu-2 contains ${held}; a shoot must be apart from every seed that it may run on: choose a range outside of ${held.split(" ")[1]}`,
    ),
  );
});

t.test("a seed's new range disturbs neither shoots of other seeds nor adopted ones", async (t) => {
  const claims = [
    claimOf("a", { pods: "/24" }, { seeds: ["eu-1"] }),
    claimOf("b", { nodes: "10.7.2.0/24" }, { seeds: ["eu-2"], isAdopted: true }),
  ];
  t.same(checkSeedNetwork({ seed, claims, ledger }), []);
});

t.test("what is told of a seed is bounded", async (t) => {
  const owners = Array.from({ length: 100 }, (_, at) => `c${at}`);
  const many = new Ledger({
    blocks: owners.map((owner, at) => heldBlock({ cidr: `10.7.${at}.0/24`, owner })),
  });
  const claims = owners.map((owner) => claimOf(owner, { nodes: "/24" }, { seeds: ["eu-2"] }));
  t.equal(checkSeedNetwork({ seed, claims, ledger: many }).length, 16);
});
