/** Tests of the names of blocks: valid for Kubernetes, and one name for one pair of CIDR and VPC. */

import assert from "node:assert/strict";
import fc from "fast-check";
import t from "tap";
import { blockName, parseBlockName, parseVpc } from "./allocation-name.ts";
import { cidrFromParts, type Cidr } from "./cidr.ts";
import { bitsOf, isMapped, type Family } from "./ip.ts";

/** RFC 1123 subdomain, as the API server checks it. */
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

const arbitraryCidr: fc.Arbitrary<Cidr> = fc.constantFrom<Family>(4, 6).chain((family) =>
  fc
    .record({
      base: fc.bigInt({ min: 0n, max: (1n << BigInt(bitsOf(family))) - 1n }),
      length: fc.integer({ min: 0, max: bitsOf(family) }),
    })
    .filter(({ base }) => !isMapped({ family, value: base }))
    .map((parts) => cidrFromParts({ family, ...parts })),
);
/** Few letters, so that names which look alike are frequent. */
const arbitraryVpc = fc
  .string({ unit: fc.constantFrom("a", "0", "1", "6", "-"), minLength: 1, maxLength: 63 })
  .filter((text) => parseVpc(text).ok);

const names: readonly { cidr: string; name: string }[] = [
  { cidr: "10.0.0.0/16", name: "10.0.0.0-16.vpc-a" },
  { cidr: "0.0.0.0/0", name: "0.0.0.0-0.vpc-a" },
  { cidr: "255.255.255.255/32", name: "255.255.255.255-32.vpc-a" },
  { cidr: "::/0", name: "0-0-0-0-0-0-0-0-0.vpc-a" },
  { cidr: "::/128", name: "0-0-0-0-0-0-0-0-128.vpc-a" },
  { cidr: "fd00:10::/64", name: "fd00-10-0-0-0-0-0-0-64.vpc-a" },
];
for (const { cidr, name } of names) {
  t.test(`${cidr} of vpc-a is named ${name}`, async (t) => {
    t.equal(blockName({ cidr: cidr as Cidr, vpc: "vpc-a" }), name);
    t.same(parseBlockName(name), { ok: true, value: { cidr, vpc: "vpc-a" } });
  });
}

t.test(
  "a name is a Kubernetes name and reads back as its one CIDR and VPC, so no two share it",
  async () => {
    fc.assert(
      fc.property(arbitraryCidr, arbitraryVpc, (cidr, vpc) => {
        const name = blockName({ cidr, vpc });
        assert.match(name, SUBDOMAIN);
        assert.ok(name.length <= 107);
        assert.deepEqual(parseBlockName(name), { ok: true, value: { cidr, vpc } });
      }),
      { numRuns: 2000 },
    );
  },
);

const refused = [
  "10.0.0.0-16",
  "10.0.0.5-16.vpc",
  "010.0.0.0-8.vpc",
  "10.0.0.0-08.vpc",
  "10.0.0.0-33.vpc",
  "10.0.0.0-16.VPC",
  "10.0.0.0-16.a.b",
  "10.0.0.0/16.a",
  "fd00-10--64.vpc",
  "fd00-10-0-0-0-0-0-1-64.vpc",
  "FD00-10-0-0-0-0-0-0-64.vpc",
  "0fd0-10-0-0-0-0-0-0-64.vpc",
  "0-0-0-0-0-ffff-0-0-96.vpc",
  "0-0-0-0-0-0-0-0-129.vpc",
  "",
  null,
  "x".repeat(1_000_000),
];
for (const name of refused) {
  t.test(`parseBlockName refuses ${String(name).slice(0, 30)}`, async (t) => {
    t.match(parseBlockName(name), { ok: false, problem: /is not the name of a block/ });
  });
}

t.test("a VPC is a DNS label without dots", async (t) => {
  for (const vpc of ["a", "vpc-a", "0", "a".repeat(63)]) t.ok(parseVpc(vpc).ok, vpc);
  for (const vpc of ["", "a.b", "-a", "a-", "A", "a_b", "a".repeat(64), 7, null]) {
    t.notOk(parseVpc(vpc).ok, String(vpc));
  }
});
