/** Tests of deciding one claim: every rule of design.md section 6, who is named, and what would fit. */

import t from "tap";
import { RANGE_KINDS, type NetworkBlock, type NetworkClaim } from "#src/model/allocation.ts";
import { planClaim, type ClaimVerdict } from "./claim-plan.ts";
import { blockOf, claimOf, domainOf, heldBlock, poolOf, seedOf } from "./claim-samples.ts";
import { Ledger } from "./ledger.ts";

const POOL = poolOf("private", ["10.0.0.0/12", "fd00:10::/40"]);

const plan = (
  claim: NetworkClaim,
  facts: Partial<ConstructorParameters<typeof Ledger>[0]> & {
    readonly unsynced?: readonly string[];
    readonly domain?: ReturnType<typeof domainOf>;
  } = {},
): ClaimVerdict =>
  planClaim({
    claim,
    ledger: new Ledger({ seeds: [seedOf("eu-1")], pools: [POOL], ...facts }),
    domain: facts.domain ?? domainOf(),
    unsynced: facts.unsynced ?? [],
  });

const shown = (verdict: ClaimVerdict): string =>
  verdict.kind === "granted"
    ? verdict.create.map(({ kind, cidr }) => `${kind} ${cidr}`).join(", ")
    : `${verdict.kind}: ${verdict.reason}`;

t.test("fixed ranges that are free are granted as they are", async (t) => {
  const claim = claimOf("a", { nodes: "10.1.0.0/16", pods: ["10.2.0.0/16", "fd00:1::/48"] });
  const verdict = plan(claim, { domain: domainOf({ revision: 6 }) });
  t.equal(shown(verdict), "nodes 10.1.0.0/16, pods 10.2.0.0/16, pods fd00:1::/48");
  if (verdict.kind !== "granted") return;
  t.same(verdict.create[0], {
    cidr: "10.1.0.0/16",
    vpc: "vpc-a",
    kind: "nodes",
    owner: { namespace: "shoot--a", name: "net", uid: "uid-a" },
    domain: { uid: "uid-domain", revision: 7 },
  });
});

t.test("sizes are served from pools, the largest first, both families", async (t) => {
  const claim = claimOf("a", { nodes: "/24", pods: ["/14", "v6/64"], services: "/20" });
  t.equal(
    shown(plan(claim)),
    "pods 10.0.0.0/14, services 10.4.0.0/20, nodes 10.4.16.0/24, pods fd00:10::/64",
  );
});

t.test("a size avoids fixed ranges of its own claim, blocks of its VPC, and seeds", async (t) => {
  const facts = {
    seeds: [seedOf("eu-1", { reserved: ["10.1.0.0/16"], nodes: ["10.2.0.0/17"] })],
    pools: [poolOf("p", ["10.0.0.0/13"])],
    blocks: [heldBlock({ cidr: "10.3.7.0/24", owner: "b" })],
  };
  const claim = claimOf("a", { nodes: "/16", pods: "10.0.9.0/24" });
  t.equal(shown(plan(claim, facts)), "pods 10.0.9.0/24, nodes 10.4.0.0/16");
});

t.test("a gap in the middle is used again", async (t) => {
  const blocks = ["10.0.0.0/16", "10.2.0.0/16"].map((cidr) => heldBlock({ cidr, owner: "b" }));
  t.equal(shown(plan(claimOf("a", { nodes: "/16" }), { blocks })), "nodes 10.1.0.0/16");
});

t.test("A1 nothing is granted before everything is known", async (t) => {
  t.equal(
    shown(plan(claimOf("a", { nodes: "/16" }), { unsynced: ["NetworkBlocks"] })),
    "waiting: nothing is allocated before all NetworkBlocks are known: wait",
  );
});

t.test("A1 the answer after a restart is what was begun: no second block", async (t) => {
  const claim = claimOf("a", { nodes: "/16", pods: "/16" });
  const first = plan(claim);
  if (first.kind !== "granted") throw new Error(first.reason);
  const made = first.create.map(blockOf);
  const all = plan(claim, { blocks: made });
  t.equal(shown(all), "");
  t.match(all, { kind: "granted", held: { length: 2 } });
  const promised = domainOf({ revision: 1, pending: first.create });
  t.equal(shown(plan(claim, { blocks: made.slice(0, 1), domain: promised })), "");
  t.equal(shown(plan(claim, { blocks: made.slice(0, 1) })), "pods 10.1.0.0/16");
});

t.test(
  "A4 a block inside of another claim's larger one is refused, naming the holder",
  async (t) => {
    const blocks = [heldBlock({ cidr: "10.4.0.0/16", owner: "b", kind: "pods" })];
    t.equal(
      shown(plan(claimOf("a", { nodes: "10.4.7.0/24" }), { blocks })),
      "refused: nodes 10.4.7.0/24 of NetworkClaim shoot--a/net lies inside pods 10.4.0.0/16 of NetworkClaim shoot--b/net; clusters of one VPC (vpc-a) must be apart: choose another range, e.g. 10.0.0.0/24, the first free /24",
    );
    t.match(shown(plan(claimOf("a", { nodes: "10.0.0.0/13" }), { blocks })), /contains pods 10\.4/);
    t.match(
      shown(plan(claimOf("a", { nodes: "10.4.0.0/16" }), { blocks })),
      /is the same range as/,
    );
  },
);

t.test("A4 what is promised and not made yet is in the way, too", async (t) => {
  const pending = [heldBlock({ cidr: "10.4.0.0/16", owner: "b" })];
  const domain = domainOf({ revision: 1, pending });
  t.match(shown(plan(claimOf("a", { nodes: "10.4.7.0/24" }), { domain })), /shoot--b\/net/);
});

t.test("A16 claims from several namespaces for one pool are distinct", async (t) => {
  const blocks: NetworkBlock[] = [];
  for (const name of ["a", "b", "c", "d"]) {
    const verdict = plan(claimOf(name, { nodes: "/14" }), { blocks });
    if (verdict.kind === "granted") blocks.push(...verdict.create.map(blockOf));
  }
  t.same(
    blocks.map(({ cidr }) => cidr),
    ["10.0.0.0/14", "10.4.0.0/14", "10.8.0.0/14", "10.12.0.0/14"],
  );
  t.match(shown(plan(claimOf("e", { nodes: "/14" }), { blocks })), /nothing is free there/);
});

t.test("clusters of different VPCs may overlap", async (t) => {
  const blocks = [heldBlock({ cidr: "10.4.0.0/16", owner: "b", vpc: "vpc-b" })];
  t.equal(shown(plan(claimOf("a", { nodes: "10.4.0.0/16" }), { blocks })), "nodes 10.4.0.0/16");
});

for (const shoot of RANGE_KINDS) {
  for (const seed of RANGE_KINDS) {
    t.test(`A23 ${shoot} of a shoot may not overlap ${seed} of a seed`, async (t) => {
      const seeds = [seedOf("eu-1"), seedOf("eu-2", { [seed]: ["10.60.0.0/20"] })];
      const claim = claimOf("a", { [shoot]: "10.60.1.0/24" }, { seeds: ["eu-1", "eu-2"] });
      t.equal(
        shown(plan(claim, { seeds })),
        `refused: ${shoot} 10.60.1.0/24 of NetworkClaim shoot--a/net lies inside ${seed} 10.60.0.0/20 of SeedNetwork eu-2; a shoot must be apart from every seed that it may run on: choose another range, e.g. 10.0.0.0/24, the first free /24`,
      );
      t.match(plan({ ...claim, seeds: ["eu-1"] }, { seeds }), { kind: "granted" });
      const sized = plan(claimOf("a", { [shoot]: "/20" }, { seeds: ["eu-2"] }), {
        seeds,
        pools: [poolOf("p", ["10.60.0.0/19"])],
      });
      t.equal(shown(sized), `${shoot} 10.60.16.0/20`);
    });
    t.test(`A23 ${shoot} of a shoot may not overlap ${seed} of another in its VPC`, async (t) => {
      const blocks = [heldBlock({ cidr: "10.7.0.0/20", owner: "b", kind: seed })];
      const claim = claimOf("a", { [shoot]: "10.7.1.0/24" });
      t.match(plan(claim, { blocks }), {
        kind: "refused",
        reason: `lies inside ${seed} 10.7.0.0/20 of NetworkClaim shoot--b/net`,
      });
    });
    if (shoot === seed) continue;
    t.test(`A23 ${shoot} and ${seed} of one shoot may not overlap`, async (t) => {
      const claim = claimOf("a", { [shoot]: "10.7.0.0/20", [seed]: "10.7.1.0/24" });
      t.match(plan(claim), { kind: "refused", reason: "nodes, pods and services of one cluster" });
    });
  }
}

const setAside: readonly { use: "transit" | "mapped" | "reserved"; asked: string }[] = [
  { use: "transit", asked: "198.18.1.0/24" },
  { use: "mapped", asked: "10.64.3.0/24" },
  { use: "reserved", asked: "10.65.0.0/16" },
];
for (const { use, asked } of setAside) {
  t.test(`what a seed has set aside (${use}) is refused, adopted or not`, async (t) => {
    const seeds = [seedOf("eu-1", { mapped: ["10.64.0.0/16"], reserved: ["10.65.0.0/24"] })];
    for (const isAdopted of [false, true]) {
      t.match(plan(claimOf("a", { pods: asked }, { isAdopted }), { seeds }), {
        kind: "refused",
        reason: `of SeedNetwork eu-1; what a seed has set aside (${use}) belongs to no shoot`,
      });
    }
  });
}

t.test("loopback, link-local, multicast and their like are refused", async (t) => {
  const cases = ["127.1.0.0/16", "169.254.0.0/16", "224.0.0.0/8", "0.0.0.0/1", "fe80::/64", "::/0"];
  for (const asked of cases) {
    t.match(shown(plan(claimOf("a", { pods: asked }))), /which is reserved \(.+\); no cluster/);
  }
});

t.test("a pool over a reserved range never gives it away", async (t) => {
  const pools = [poolOf("p", ["126.0.0.0/7", "168.0.0.0/7"])];
  t.equal(
    shown(plan(claimOf("a", { pods: "/8", nodes: "/8" }), { pools })),
    "nodes 126.0.0.0/8, pods 168.0.0.0/8",
  );
});

t.test("an adopted cluster may overlap its seed, and the plan says where", async (t) => {
  const claim = claimOf("a", { nodes: "10.240.0.0/20", pods: "10.9.0.0/16" }, { isAdopted: true });
  const verdict = plan(claim);
  t.equal(shown(verdict), "nodes 10.240.0.0/20, pods 10.9.0.0/16");
  t.match(verdict, {
    bridged: [
      {
        asked: { cidr: "10.240.0.0/20" },
        other: { cidr: "10.240.0.0/16", party: { name: "eu-1" } },
      },
    ],
  });
  const blocks = [heldBlock({ cidr: "10.9.1.0/24", owner: "b" })];
  t.match(plan(claim, { blocks }), { kind: "refused" });
});

t.test("A3 a block of an earlier object of the same name is somebody else's", async (t) => {
  const blocks = [heldBlock({ cidr: "10.4.0.0/16", owner: "a" })];
  t.match(
    shown(plan(claimOf("a", { nodes: "10.4.0.0/16" }, { uid: "uid-new" }), { blocks })),
    /with UID uid-a, an earlier object of that name/,
  );
});

t.test("a claim for an unknown seed waits and says what to do", async (t) => {
  const claim = claimOf("a", { nodes: "/16" }, { seeds: ["eu-1", "eu-8", "eu-9"] });
  t.match(
    shown(plan(claim)),
    /may run on eu-8, eu-9, whose ranges are unknown: create a SeedNetwork/,
  );
});

t.test("a size that no pool serves waits and says so", async (t) => {
  const want = /asks for nodes \/16 \(IPv4\), but no NetworkPool serves IPv4 nodes in VPC vpc-a/;
  const claim = claimOf("a", { nodes: "/16" });
  const none = [
    [],
    [poolOf("p", ["10.0.0.0/12"], { kinds: ["pods"] })],
    [poolOf("p", ["10.0.0.0/12"], { vpcs: ["vpc-b"] })],
    [poolOf("p", ["10.0.0.0/17", "fd00::/8"])],
  ];
  for (const pools of none) t.match(shown(plan(claim, { pools })), want);
});

t.test("A19 a size that nothing is left for waits and says what would fit", async (t) => {
  const blocks = [heldBlock({ cidr: "10.0.128.0/18", owner: "b" })];
  const pools = [poolOf("small", ["10.0.0.0/16"])];
  const verdict = plan(claimOf("a", { nodes: "/16" }), { blocks, pools });
  t.equal(
    shown(verdict),
    "waiting: NetworkClaim shoot--a/net asks for nodes /16 (IPv4), but NetworkPool small has no such block free for it: the largest free block is 10.0.0.0/17, so a /17 or longer would fit; ask for less, or add to the pool",
  );
  t.match(verdict, { whatWouldFit: "10.0.0.0/17" });
});

t.test("pools made for a VPC are used before those for everybody", async (t) => {
  const pools = [poolOf("a", ["10.0.0.0/16"]), poolOf("b", ["10.9.0.0/16"], { vpcs: ["vpc-a"] })];
  t.equal(
    shown(plan(claimOf("a", { nodes: "/17", pods: "/16" }), { pools })),
    "pods 10.9.0.0/16, nodes 10.0.0.0/17",
  );
});

t.test("a claim that is changed under its blocks is refused and keeps them", async (t) => {
  const blocks = [heldBlock({ cidr: "10.4.0.0/16", owner: "a" })];
  const cases = [
    claimOf("a", { nodes: "10.5.0.0/16" }),
    claimOf("a", { nodes: "/17" }),
    claimOf("a", { nodes: "10.4.0.0/16" }, { vpc: "vpc-b" }),
  ];
  for (const claim of cases) {
    const verdict = plan(claim, { blocks });
    t.match(
      shown(verdict),
      /has nodes 10\.4\.0\.0\/16 in VPC vpc-a and now asks for .*never changes/,
    );
    t.match(verdict, { held: { length: 1 } });
  }
});

t.test("a seed that is added to a claim with blocks is checked", async (t) => {
  const blocks = [heldBlock({ cidr: "10.60.1.0/24", owner: "a" })];
  const seeds = [seedOf("eu-1"), seedOf("eu-2", { pods: ["10.60.0.0/20"] })];
  const claim = claimOf("a", { nodes: "/24" }, { seeds: ["eu-1", "eu-2"] });
  t.match(plan(claim, { blocks, seeds }), { kind: "refused", held: { length: 1 } });
});

t.test("a claim that is being deleted gets nothing more", async (t) => {
  t.match(shown(plan(claimOf("a", { nodes: "/16" }, { isDeleting: true }))), /is being deleted/);
});
