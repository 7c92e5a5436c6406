/** Tests of reading claims: every rule, sentences that name the field and the fix, hostile input and sizes. */

import t from "tap";
import { parseCidr } from "#src/model/cidr.ts";
import { claimStatusRanges, parseClaimSpec, parseNetworkClaim } from "./network-claim-codec.ts";

const spec = { vpc: "vpc-a", seeds: ["eu-1"], nodes: { ipv4: { cidr: "10.1.0.0/16" } } };
const objectOf = (more: object, metadata: object = {}) => ({
  metadata: {
    namespace: "shoot--lab--alpha",
    name: "net",
    uid: "uid-1",
    generation: 4,
    creationTimestamp: "2026-01-01T00:00:00Z",
    ...metadata,
  },
  spec: { ...spec, ...more },
});

t.test("a claim keeps what it says, and asks nothing that it does not", async (t) => {
  const got = parseNetworkClaim(
    objectOf({
      seeds: ["eu-1", "eu-2", "eu-1"],
      pods: { ipv4: { prefixLength: 16 }, ipv6: { cidr: "fd00:1::/48" } },
    }),
  );
  t.same(got, {
    ok: true,
    value: {
      namespace: "shoot--lab--alpha",
      name: "net",
      uid: "uid-1",
      generation: 4,
      createdMs: 1_767_225_600_000,
      isDeleting: false,
      vpc: "vpc-a",
      seeds: ["eu-1", "eu-2"],
      ranges: {
        nodes: { ipv4: { kind: "fixed", cidr: "10.1.0.0/16" }, ipv6: null },
        pods: { ipv4: { kind: "size", length: 16 }, ipv6: { kind: "fixed", cidr: "fd00:1::/48" } },
        services: { ipv4: null, ipv6: null },
      },
      isAdopted: false,
    },
  });
});

t.test("a claim that is being deleted is read as such", async (t) => {
  const object = objectOf({}, { deletionTimestamp: "2026-01-02T00:00:00Z" });
  t.match(parseNetworkClaim(object), { ok: true, value: { isDeleting: true } });
});

const refused: readonly { name: string; spec: object; want: RegExp }[] = [
  { name: "no vpc", spec: { vpc: undefined }, want: /spec\.vpc: a VPC is a DNS label/ },
  { name: "no seeds", spec: { seeds: [] }, want: /spec\.seeds is empty: name every seed/ },
  { name: "nothing asked", spec: { nodes: undefined }, want: /spec asks for nothing/ },
  {
    name: "an empty family",
    spec: { nodes: { ipv4: {} } },
    want: /spec\.nodes\.ipv4 must have either/,
  },
  {
    name: "both a cidr and a length",
    spec: { nodes: { ipv4: { cidr: "10.0.0.0/8", prefixLength: 8 } } },
    want: /spec\.nodes\.ipv4 must have either a cidr or a prefixLength/,
  },
  {
    name: "a length of 33",
    spec: { nodes: { ipv4: { prefixLength: 33 } } },
    want: /from 1 to 32, found 33/,
  },
  {
    name: "a length of 129",
    spec: { nodes: { ipv6: { prefixLength: 129 } } },
    want: /from 1 to 128/,
  },
  {
    name: "a length as text",
    spec: { nodes: { ipv4: { prefixLength: "16" } } },
    want: /found "16"/,
  },
  {
    name: "the wrong family",
    spec: { pods: { ipv4: { cidr: "fd00::/64" } } },
    want: /spec\.pods\.ipv4\.cidr fd00::\/64 is IPv6: write it below ipv6/,
  },
  {
    name: "ranges of its own that overlap",
    spec: { pods: { ipv4: { cidr: "10.1.8.0/24" } } },
    want: /spec\.pods\.ipv4\.cidr 10\.1\.8\.0\/24 overlaps spec\.nodes\.ipv4\.cidr 10\.1\.0\.0\/16/,
  },
  {
    name: "loopback",
    spec: { pods: { ipv4: { cidr: "127.0.0.0/9" } } },
    want: /overlaps 127\.0\.0\.0\/8, which is reserved \(loopback\)/,
  },
  {
    name: "an adopted cluster with a size",
    spec: { adopt: true, pods: { ipv4: { prefixLength: 16 } } },
    want: /spec\.adopt is for a cluster that exists/,
  },
  { name: "adopt as text", spec: { adopt: "yes" }, want: /must be true or false, found "yes"/ },
  {
    name: "a list of CIDRs",
    spec: { nodes: ["10.0.0.0/8"] },
    want: /spec\.nodes must be an object, found a list/,
  },
];
for (const { name, spec: more, want } of refused) {
  t.test(`a claim with ${name} is refused with its name, field and fix`, async (t) => {
    const got = parseNetworkClaim(objectOf(more));
    t.match(got, { ok: false, problem: want });
    t.match(got, { problem: /^NetworkClaim shoot--lab--alpha\/net: / });
  });
}

/** Catalogue row A27; the same words from wherever a CIDR is read. */
const broken = [
  "010.0.0.0/8",
  "10.0.0.5/24",
  "10/8",
  "10.0.0.0/08",
  "256.0.0.1/32",
  "10.0.0.0/33",
  " 10.0.0.0/8",
  "[::1]/128",
  "1::2::3/64",
  "::ffff:10.0.0.0/104",
  "fe80::%eth0/64",
];
for (const text of broken) {
  t.test(`A27 ${text} in a claim gives the parser's own sentence and spelling`, async (t) => {
    const read = parseCidr(text);
    if (read.ok) throw new Error(`${text} is good`);
    const got = parseNetworkClaim(objectOf({ nodes: { ipv4: { cidr: text } } }));
    t.equal(got.ok, false);
    if (got.ok) return;
    const fix = read.suggestion === undefined ? "" : `; write "${read.suggestion}"`;
    t.equal(
      got.problem,
      `NetworkClaim shoot--lab--alpha/net: spec.nodes.ipv4.cidr: ${read.problem}${fix}`,
    );
    t.equal(got.suggestion, read.suggestion);
  });
}

t.test("hostile sizes are refused at once, in a short sentence", async (t) => {
  const many = Array.from({ length: 100_000 }, (_, at) => `10.${at >> 8}.${at & 255}.0/24`);
  const cases = [
    objectOf({ nodes: many }),
    objectOf({ seeds: many }),
    objectOf({ nodes: { ipv4: { cidr: many.join(",") } } }),
    objectOf({ vpc: "a".repeat(1_000_000) }),
    objectOf({ nodes: { ipv4: { cidr: "1".repeat(1_000_000) } } }),
    objectOf({ nodes: { ipv4: { cidr: `${":".repeat(1_000_000)}/64` } } }),
    objectOf({}, { name: "x".repeat(1_000_000) }),
  ];
  for (const object of cases) {
    const got = parseNetworkClaim(object);
    t.equal(got.ok, false);
    if (!got.ok) t.ok(got.problem.length < 400, got.problem);
  }
});

t.test("a getter, a prototype and strange values are refused, never run", async (t) => {
  const trap = Object.defineProperty({ ...spec }, "vpc", {
    get: () => {
      throw new Error("read");
    },
    enumerable: true,
  });
  const values = [null, 7, "x", [], { spec: trap }, { spec: Object.create(spec) as object }];
  for (const value of values) t.equal(parseNetworkClaim(value).ok, false);
});

t.test("a spec alone is read for those who have no object yet", async (t) => {
  t.match(parseClaimSpec(spec), { ok: true, value: { vpc: "vpc-a" } });
  t.match(parseClaimSpec({ ...spec, vpc: "A" }), {
    ok: false,
    problem: /^NetworkClaim.*spec\.vpc/,
  });
});

t.test("the status shows all lists in order, empty ones too", async (t) => {
  const grant = (cidr: string, kind: "nodes" | "pods") => {
    const read = parseCidr(cidr);
    if (!read.ok) throw new Error(read.problem);
    const owner = { namespace: "a", name: "b", uid: "c" };
    return { cidr: read.value, vpc: "v", kind, owner, domain: { uid: "d", revision: 1 } };
  };
  t.same(
    claimStatusRanges([
      grant("fd00::/64", "pods"),
      grant("10.0.0.0/8", "pods"),
      grant("11.0.0.0/8", "nodes"),
    ]),
    {
      nodes: ["11.0.0.0/8"],
      pods: ["10.0.0.0/8", "fd00::/64"],
      services: [],
      blocks: ["10.0.0.0-8.v", "11.0.0.0-8.v", "fd00-0-0-0-0-0-0-0-64.v"],
    },
  );
});
