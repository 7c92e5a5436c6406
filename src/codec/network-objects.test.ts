/** Tests of reading seeds, pools, blocks and domains, and of writing what the allocator writes. */

import t from "tap";
import { parseNetworkBlock, networkBlockObject } from "./network-block-codec.ts";
import {
  networkDomainObject,
  newDomainObject,
  parseNetworkDomain,
} from "./network-domain-codec.ts";
import { parseNetworkPool } from "./network-pool-codec.ts";
import { parseSeedNetwork } from "./seed-network-codec.ts";

const named = (spec: object, name = "eu-1") => ({
  metadata: { name, uid: "uid-1", resourceVersion: "7" },
  spec,
});

t.test("a SeedNetwork has the tunnels' standard transit range where it names none", async (t) => {
  t.same(
    parseSeedNetwork(named({ nodes: ["10.0.0.0/16"], reserved: ["127.0.0.0/8", "10.0.0.0/8"] })),
    {
      ok: true,
      value: {
        name: "eu-1",
        nodes: ["10.0.0.0/16"],
        pods: [],
        services: [],
        transit: ["198.18.0.0/23"],
        mapped: [],
        reserved: ["127.0.0.0/8", "10.0.0.0/8"],
      },
    },
  );
});

const badSeeds: readonly { name: string; spec: object; want: RegExp }[] = [
  { name: "no ranges", spec: {}, want: /names? the seed's own ranges/ },
  {
    name: "ranges that overlap",
    spec: { nodes: ["10.0.0.0/16"], mapped: ["10.0.4.0/24"] },
    want: /spec\.mapped\[0\] 10\.0\.4\.0\/24 overlaps spec\.nodes\[0\] 10\.0\.0\.0\/16/,
  },
  {
    name: "the default transit range as its own",
    spec: { pods: ["198.18.0.0/16"] },
    want: /spec\.transit \(the default\) 198\.18\.0\.0\/23 overlaps spec\.pods\[0\]/,
  },
  { name: "link-local pods", spec: { pods: ["fe80::/64"] }, want: /reserved \(link-local\)/ },
  {
    name: "a broken reserved range",
    spec: { nodes: ["10.0.0.0/16"], reserved: ["10/8"] },
    want: /write "10\.0\.0\.0\/8"/,
  },
  {
    name: "100,000 ranges",
    spec: { nodes: Array.from({ length: 100_000 }, () => "10.0.0.0/16") },
    want: /has 100000 items: at most 256/,
  },
];
for (const { name, spec, want } of badSeeds) {
  t.test(`a SeedNetwork with ${name} is refused`, async (t) => {
    t.match(parseSeedNetwork(named(spec)), { ok: false, problem: want });
  });
}

t.test("a NetworkPool is for everything where it says nothing else", async (t) => {
  t.same(parseNetworkPool(named({ cidrs: ["10.0.0.0/8"] })), {
    ok: true,
    value: {
      name: "eu-1",
      cidrs: ["10.0.0.0/8"],
      kinds: ["nodes", "pods", "services"],
      vpcs: null,
    },
  });
  t.match(parseNetworkPool(named({ cidrs: ["10.0.0.0/8"], for: ["pods", "pods"], vpcs: ["a"] })), {
    ok: true,
    value: { kinds: ["pods"], vpcs: ["a"] },
  });
  t.match(parseNetworkPool(named({ cidrs: [] })), { problem: /spec\.cidrs is empty/ });
  t.match(parseNetworkPool(named({ cidrs: ["10.0.0.0/8"], for: ["node"] })), {
    problem: /found "node"/,
  });
  t.match(parseNetworkPool(named({ cidrs: ["10.0.0.0/8", "10.0.0.0/9"] })), {
    problem: /must be apart/,
  });
});

const grant = {
  cidr: "10.1.0.0/16",
  vpc: "vpc-a",
  kind: "pods",
  owner: { namespace: "shoot--a", name: "net", uid: "uid-a" },
  domain: { uid: "uid-d", revision: 3 },
};

t.test("a NetworkBlock is read as it was written", async (t) => {
  const read = parseNetworkBlock(named(grant, "10.1.0.0-16.vpc-a"));
  t.same(read, { ok: true, value: { ...grant, name: "10.1.0.0-16.vpc-a", uid: "uid-1" } });
  if (!read.ok) return;
  const object = networkBlockObject(read.value);
  t.match(object.metadata, { name: "10.1.0.0-16.vpc-a", labels: { "xylem.dev/vpc": "vpc-a" } });
  t.same(object.spec, grant);
});

t.test(
  "A5 a NetworkBlock with another name than its CIDR and VPC is refused: the name is the lock",
  async (t) => {
    t.match(parseNetworkBlock(named(grant, "10.1.0.0-16.vpc-b")), {
      ok: false,
      problem: /must be named 10\.1\.0\.0-16\.vpc-a/,
    });
  },
);

t.test(
  "a NetworkDomain is read as it was written, with the version that a replacement needs",
  async (t) => {
    const spec = { revision: 3, pending: [grant] };
    const read = parseNetworkDomain(named(spec, "vpc-a"));
    t.match(read, { ok: true, value: { name: "vpc-a", resourceVersion: "7", revision: 3 } });
    if (!read.ok) return;
    const object = networkDomainObject(read.value);
    t.match(object.metadata, { uid: "uid-1", resourceVersion: "7", finalizers: { length: 1 } });
    t.same(object.spec, spec);
    t.same(newDomainObject("vpc-a").spec, { revision: 0, pending: [] });
    t.match(parseNetworkDomain(named(spec, "vpc-b")), { problem: /only blocks of VPC vpc-b/ });
  },
);
