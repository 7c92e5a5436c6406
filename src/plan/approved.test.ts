/** Tests of cutting nodes' claims to the approved ranges: first owner wins. */

import fc from "fast-check";
import t from "tap";
import { containsIp, knownCidr, overlaps, parseCidr, type Cidr } from "#src/model/cidr.ts";
import { parseIp } from "#src/model/ip.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { ApprovedRanges, NodeFacts } from "#src/model/tunnel.ts";
import { shareApproved } from "./approved.ts";
import { BlockOwners } from "./block-owners.ts";

const ranges: ApprovedRanges = {
  nodes: [c("10.250.0.0/20"), c("fd00:250::/64")],
  pods: [c("10.222.0.0/17"), c("fd00:222::/56")],
  services: [c("10.97.0.0/22")],
};

t.test("a node gets its own addresses and pod CIDRs", async (t) => {
  const n1 = node({
    name: "n1",
    addresses: ["10.250.0.2", "fd00:250::2"],
    podCidrs: ["10.222.1.0/24", "fd00:222:0:1::/64"],
  });
  const { shares, findings } = shareApproved({ ranges, nodes: [n1] });
  t.same(shares.get("n1"), { node: "n1", addresses: n1.addresses, podCidrs: n1.podCidrs });
  t.same(findings, []);
});

t.test(
  "W26 of two nodes that claim one pod CIDR the older keeps it, and the conflict is reported",
  async (t) => {
    const older = node({ name: "zoe", createdMs: 1, podCidrs: ["10.222.1.0/24"] });
    const younger = node({ name: "abe", createdMs: 2, podCidrs: ["10.222.1.0/24"] });
    for (const nodes of [
      [older, younger],
      [younger, older],
    ]) {
      const { shares, findings } = shareApproved({ ranges, nodes });
      t.same(shares.get("zoe")?.podCidrs, ["10.222.1.0/24"]);
      t.same(shares.get("abe")?.podCidrs, []);
      t.match(findings, [
        {
          code: "pod-cidr-conflict",
          object: "Node abe",
          message: /older Node zoe: zoe keeps it until it withdraws/,
        },
      ]);
    }
  },
);

t.test("W26 the survivor gets the prefix when its owner withdraws", async (t) => {
  const withdrawn = node({ name: "zoe", createdMs: 1 });
  const survivor = node({ name: "abe", createdMs: 2, podCidrs: ["10.222.1.0/24"] });
  const { shares, findings } = shareApproved({ ranges, nodes: [withdrawn, survivor] });
  t.same(shares.get("abe")?.podCidrs, ["10.222.1.0/24"]);
  t.same(findings, []);
});

t.test("W26 nodes of the same age are ordered by UID", async (t) => {
  const nodes = [
    node({ name: "a", uid: "u2", addresses: ["10.250.0.9"] }),
    node({ name: "b", uid: "u1", addresses: ["10.250.0.9"] }),
  ];
  const { shares, findings } = shareApproved({ ranges, nodes });
  t.same(shares.get("b")?.addresses, ["10.250.0.9"]);
  t.same(shares.get("a")?.addresses, []);
  t.match(findings, [{ code: "node-address-conflict", object: "Node a" }]);
});

const overlapping = [
  { name: "a larger block around it", block: "10.222.0.0/18" },
  { name: "a smaller block inside it", block: "10.222.1.128/25" },
];

for (const { name, block } of overlapping) {
  t.test(`S1 a younger node does not get ${name}`, async (t) => {
    const nodes = [
      node({ name: "good", createdMs: 1, podCidrs: ["10.222.1.0/24"] }),
      node({ name: "evil", createdMs: 2, podCidrs: [block] }),
    ];
    const { shares } = shareApproved({ ranges, nodes });
    t.same(shares.get("evil")?.podCidrs, []);
    t.same(shares.get("good")?.podCidrs, ["10.222.1.0/24"]);
  });
}

const strangers = [
  {
    name: "an address of the seed",
    addresses: ["192.168.7.7"],
    podCidrs: [],
    code: "node-address-not-approved",
  },
  {
    name: "a pod's address as its own",
    addresses: ["10.222.1.1"],
    podCidrs: [],
    code: "node-address-not-approved",
  },
  {
    name: "a service range as pod CIDR",
    addresses: [],
    podCidrs: ["10.97.0.0/24"],
    code: "pod-cidr-not-approved",
  },
  {
    name: "a node range as pod CIDR",
    addresses: [],
    podCidrs: ["10.250.0.0/24"],
    code: "pod-cidr-not-approved",
  },
];

for (const { name, addresses, podCidrs, code } of strangers) {
  t.test(`S1 a node that claims ${name} gets nothing, which is reported`, async (t) => {
    const { shares, findings } = shareApproved({
      ranges,
      nodes: [node({ name: "evil", addresses, podCidrs })],
    });
    t.same(shares.get("evil"), { node: "evil", addresses: [], podCidrs: [] });
    t.match(findings, [{ code, object: "Node evil" }]);
  });
}

t.test("S1 a node that claims the whole world is cut to the approved pod ranges", async (t) => {
  const { shares, findings } = shareApproved({
    ranges,
    nodes: [node({ name: "evil", podCidrs: ["0.0.0.0/0"] })],
  });
  t.same(shares.get("evil")?.podCidrs, ["10.222.0.0/17"]);
  t.match(findings, [{ code: "pod-cidr-not-approved", message: /cut to 10\.222\.0\.0\/17/ }]);
});

t.test("a node that says a thing twice gets it once, without a finding", async (t) => {
  const twice = node({
    name: "n",
    addresses: ["10.250.0.2", "10.250.0.2"],
    podCidrs: ["10.222.1.0/24", "10.222.1.0/24"],
  });
  const { shares, findings } = shareApproved({ ranges, nodes: [twice] });
  t.same(shares.get("n"), { node: "n", addresses: ["10.250.0.2"], podCidrs: ["10.222.1.0/24"] });
  t.same(findings, []);
});

t.test(
  "a node whose own pod CIDRs overlap keeps the first, and is told about itself",
  async (t) => {
    const confused = node({ name: "n", podCidrs: ["10.222.1.0/25", "10.222.1.0/24"] });
    const { shares, findings } = shareApproved({ ranges, nodes: [confused] });
    t.same(shares.get("n")?.podCidrs, ["10.222.1.0/25"]);
    t.match(findings, [
      { code: "pod-cidr-conflict", message: /overlaps its own 10\.222\.1\.0\/25/ },
    ]);
  },
);

t.test("W26 shares are disjoint, approved, and independent of the order of nodes", async () => {
  const anyNode = fc.record({
    name: fc.constantFrom("a", "b", "c", "d", "e"),
    createdMs: fc.integer({ min: 0, max: 3 }),
    addresses: fc.array(
      fc.integer({ min: 0, max: 9 }).map((last) => `10.250.0.${last}`),
      { maxLength: 3 },
    ),
    podCidrs: fc.array(podCidr(), { maxLength: 3 }),
  });
  const someNodes = fc.uniqueArray(anyNode, { selector: ({ name }) => name, maxLength: 5 });
  fc.assert(
    fc.property(someNodes, (specs) => {
      const nodes = specs.map(node);
      const { shares } = shareApproved({ ranges, nodes });
      const again = shareApproved({ ranges, nodes: nodes.toReversed() }).shares;
      const all = [...shares.values()];
      return all.every(
        (share) =>
          JSON.stringify(share) === JSON.stringify(again.get(share.node)) &&
          share.addresses.every((ip) => ranges.nodes.some((range) => containsIp(range, ip))) &&
          all.every((other) => other === share || isDisjoint(share.podCidrs, other.podCidrs)),
      );
    }),
    { numRuns: 500 },
  );
});

t.test(
  "S2 a shoot full of conflicts gives a bounded list of findings that says how many more there are",
  async (t) => {
    const nodes = Array.from({ length: 300 }, (_, at) =>
      node({ name: `n${at}`, createdMs: at, addresses: ["10.250.0.2", "192.0.2.1"] }),
    );
    const { findings, shares } = shareApproved({ ranges, nodes });
    t.equal(findings.length, 101);
    t.match(findings.at(-1), { code: "more-findings", message: /^499 more findings/ });
    t.equal(shares.size, 300);
  },
);

t.test("BlockOwners agrees with a list that is searched from end to end", async () => {
  const claims = fc.array(fc.record({ cidr: podCidr(), owner: fc.constantFrom("a", "b", "c") }), {
    maxLength: 40,
  });
  fc.assert(
    fc.property(claims, (list) => {
      const owners = new BlockOwners();
      const kept: { cidr: Cidr; owner: string }[] = [];
      return list.every(({ cidr: text, owner }) => {
        const cidr = c(text);
        const rivals = kept.filter((block) => overlaps(block.cidr, cidr));
        const got = owners.claim(knownCidr(cidr), owner);
        if (rivals.length === 0) kept.push({ cidr, owner });
        const isOwn = rivals.some((block) => block.owner === owner && isInside(cidr, block.cidr));
        return got.kind === (rivals.length === 0 || isOwn ? "owned" : "taken");
      });
    }),
    { numRuns: 1000 },
  );
});

function c(text: string): Cidr {
  return valueOf(parseCidr(text));
}

function node(facts: {
  name: string;
  uid?: string;
  createdMs?: number;
  addresses?: string[];
  podCidrs?: string[];
}): NodeFacts {
  return {
    name: facts.name,
    uid: facts.uid ?? `uid-${facts.name}`,
    createdMs: facts.createdMs ?? 0,
    addresses: (facts.addresses ?? []).map((text) => valueOf(parseIp(text))),
    podCidrs: (facts.podCidrs ?? []).map(c),
    isReady: true,
  };
}

/** Blocks of /22 to /26 in one /22, and a few outside of the approved ranges. */
function podCidr(): fc.Arbitrary<string> {
  const inside = fc
    .record({ length: fc.integer({ min: 22, max: 26 }), at: fc.integer({ min: 0, max: 1023 }) })
    .map(({ length, at }) => {
      const start = at - (at % 2 ** (32 - length));
      return `10.222.${start >> 8}.${start & 255}/${length}`;
    });
  return fc.oneof(
    { weight: 9, arbitrary: inside },
    { weight: 1, arbitrary: fc.constant("10.1.0.0/16") },
  );
}

function isDisjoint(a: readonly Cidr[], b: readonly Cidr[]): boolean {
  return !a.some((left) => b.some((right) => overlaps(left, right)));
}

function isInside(inner: Cidr, outer: Cidr): boolean {
  return overlaps(inner, outer) && Number(inner.split("/")[1]) >= Number(outer.split("/")[1]);
}
