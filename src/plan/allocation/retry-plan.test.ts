/** Tests of planning all open claims at once. */

import t from "tap";
import type { NetworkClaim } from "#src/model/allocation.ts";
import { blockOf, claimOf, domainOf, heldBlock, poolOf, seedOf } from "./claim-samples.ts";
import { PENDING_BLOCKS_MAX } from "./domain-plan.ts";
import { Ledger } from "./ledger.ts";
import { isRetryable, planRetry } from "./retry-plan.ts";

const domains = new Map([["vpc-a", domainOf()]]);
const seeds = [seedOf("eu-1")];
const pools = [poolOf("p", ["10.0.0.0/16"])];

const plan = (claims: readonly NetworkClaim[], ledger = new Ledger({ seeds, pools })) => {
  const got = planRetry({ claims, ledger, domains, unsynced: [] });
  return {
    ...got,
    granted: (got.grants.get("vpc-a") ?? []).map(({ cidr, owner }) => `${owner.uid} ${cidr}`),
  };
};

t.test("A19 a claim that can never be served doesn't keep others from theirs", async (t) => {
  const claims = [
    claimOf("a", { nodes: "/8" }, { createdMs: 1 }),
    claimOf("b", { nodes: "/17" }, { createdMs: 2 }),
    claimOf("c", { nodes: "127.0.0.0/16" }, { createdMs: 3 }),
    claimOf("d", { nodes: "/18" }, { createdMs: 4, seeds: ["nowhere"] }),
    claimOf("e", { nodes: "/17" }, { createdMs: 5 }),
    claimOf("f", { nodes: "/24" }, { createdMs: 6 }),
  ];
  const got = plan(claims);
  t.same(got.granted, ["uid-b 10.0.0.0/17", "uid-e 10.0.128.0/17"]);
  t.same(
    [...got.verdicts].map(([uid, { kind }]) => `${uid} ${kind}`),
    [
      "uid-a waiting",
      "uid-b granted",
      "uid-c refused",
      "uid-d waiting",
      "uid-e granted",
      "uid-f waiting",
    ],
  );
  t.match(got.verdicts.get("uid-f"), { reason: "nothing is free there" });
});

t.test(
  "the older claim is served first, whatever the order of the list; then the smaller UID",
  async (t) => {
    const claims = [
      claimOf("b", { nodes: "/16" }, { createdMs: 5 }),
      claimOf("a", { nodes: "/16" }, { createdMs: 5 }),
      claimOf("c", { nodes: "/16" }, { createdMs: 9 }),
    ];
    t.same(plan(claims).granted, ["uid-a 10.0.0.0/16"]);
    t.same(plan(claims.toReversed()).granted, ["uid-a 10.0.0.0/16"]);
  },
);

t.test("a claim that waited gets its block as soon as one is freed", async (t) => {
  const held = heldBlock({ cidr: "10.0.0.0/16", owner: "b" });
  const ledger = new Ledger({ seeds, pools, blocks: [held] });
  const claims = [claimOf("a", { nodes: "/20" })];
  t.same(plan(claims, ledger).granted, []);
  ledger.forgetBlock(held);
  t.same(plan(claims, ledger).granted, ["uid-a 10.0.0.0/20"]);
});

t.test("two fixed wishes for one range: the older has it, the younger hears of it", async (t) => {
  const claims = [
    claimOf("a", { nodes: "10.9.0.0/16" }, { createdMs: 2 }),
    claimOf("b", { nodes: "10.9.4.0/24" }, { createdMs: 1 }),
  ];
  const got = plan(claims);
  t.same(got.granted, ["uid-b 10.9.4.0/24"]);
  t.match(got.verdicts.get("uid-a"), { kind: "refused", reason: "contains nodes 10.9.4.0/24" });
});

t.test(
  "planning changes nothing: the same facts give the same plan, and held claims cost none",
  async (t) => {
    const ledger = new Ledger({ seeds, pools });
    const claims = ["a", "b", "c"].map((name) => claimOf(name, { nodes: "/20", pods: "/20" }));
    const first = plan(claims, ledger);
    t.same(plan(claims, ledger), first);
    t.equal(ledger.size, 0);
    for (const grant of first.grants.get("vpc-a") ?? []) ledger.observeBlock(blockOf(grant));
    t.same(plan(claims, ledger).granted, []);
  },
);

t.test(
  "a grant is bounded, the rest comes later; claims of domains that aren't ready, too",
  async (t) => {
    const many = Array.from({ length: 200 }, (_, at) => claimOf(`c${at}`, { nodes: "/28" }));
    const got = plan([...many, claimOf("x", { nodes: "/28" }, { vpc: "vpc-b", createdMs: 1 })]);
    t.ok(got.granted.length <= PENDING_BLOCKS_MAX);
    t.ok(got.granted.length > PENDING_BLOCKS_MAX - 7);
    t.equal(got.granted.length + got.later.length, 201);
    t.equal(got.later[0]?.uid, "uid-x");
  },
);

t.test("what can change without the claim is retried, what can't is not", async (t) => {
  const blocks = [heldBlock({ cidr: "10.9.0.0/16", owner: "b" })];
  const ledger = new Ledger({ seeds, pools, blocks });
  const cases = [
    { claim: claimOf("a", { nodes: "/8" }), want: true },
    { claim: claimOf("a", { nodes: "10.9.0.0/24" }), want: true },
    { claim: claimOf("a", { nodes: "10.240.0.0/24" }), want: true },
    { claim: claimOf("a", { nodes: "/20" }), want: true },
    { claim: claimOf("a", { nodes: "127.0.0.0/24" }), want: false },
    { claim: claimOf("a", { nodes: "10.1.0.0/16", pods: "10.1.0.0/17" }), want: false },
    { claim: claimOf("b", { nodes: "10.9.0.0/16" }), want: false },
    { claim: claimOf("b", { nodes: "10.8.0.0/16" }), want: false },
    { claim: claimOf("a", { nodes: "/20" }, { isDeleting: true }), want: false },
  ];
  for (const { claim, want } of cases) {
    const verdict = plan([claim], ledger).verdicts.get(claim.uid);
    t.equal(verdict !== undefined && isRetryable(verdict), want, claim.uid);
  }
});
