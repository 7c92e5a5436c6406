/** Tests of the strict CIDR parser and of what two blocks are to each other. */

import fc from "fast-check";
import t from "tap";
import {
  addressAt,
  cidrFromParts,
  cidrParts,
  containsCidr,
  containsIp,
  hostCidr,
  intersect,
  overlaps,
  parseCidr,
  sizeOf,
  type Cidr,
} from "./cidr.ts";
import { bigintToIp, bitsOf, type Family } from "./ip.ts";

const refused: { input: unknown; why: RegExp; suggestion?: string }[] = [
  { input: "010.0.0.0/8", why: /octal/ },
  { input: "10.0.0.5/24", why: /bits are set/, suggestion: "10.0.0.0/24" },
  { input: "10/8", why: /four numbers/, suggestion: "10.0.0.0/8" },
  { input: "10.1/16", why: /four numbers/, suggestion: "10.1.0.0/16" },
  { input: "10.0.0.0/08", why: /leading zero/, suggestion: "10.0.0.0/8" },
  { input: "256.0.0.1/32", why: /above 255/ },
  { input: "10.0.0.0/33", why: /at most 32/ },
  { input: "::/129", why: /at most 128/ },
  { input: " 10.0.0.0/8", why: /white space/, suggestion: "10.0.0.0/8" },
  { input: "10.0.0.0/8 ", why: /decimal/, suggestion: "10.0.0.0/8" },
  { input: "10.0.0.0 /8", why: /white space/, suggestion: "10.0.0.0/8" },
  { input: "[::1]/128", why: /brackets/, suggestion: "::1/128" },
  { input: "1::2::3/64", why: /only once/ },
  { input: "::ffff:10.0.0.0/104", why: /mapped/, suggestion: "10.0.0.0/8" },
  { input: "::ffff:0:0/96", why: /mapped/, suggestion: "0.0.0.0/0" },
  { input: "fe80::%eth0/64", why: /zones/, suggestion: "fe80::/64" },
  { input: "2001:DB8::/32", why: /shortest/, suggestion: "2001:db8::/32" },
  { input: "2001:db8:0::/48", why: /shortest/, suggestion: "2001:db8::/48" },
  { input: "2001:db8::1/64", why: /bits are set/, suggestion: "2001:db8::/64" },
  { input: "10.0.0.0", why: /length is missing/ },
  { input: "10.0.0.0/", why: /length is missing/ },
  { input: "10.0.0.0/-1", why: /decimal/ },
  { input: "10.0.0.0/+8", why: /decimal/ },
  { input: "10.0.0.0/8/8", why: /decimal/ },
  { input: "10.0.0.0/255.0.0.0", why: /decimal/ },
  { input: "/8", why: /empty/ },
  { input: "", why: /length is missing/ },
  { input: "a".repeat(10_000), why: /too long/ },
  { input: null, why: /must be text/ },
  { input: ["10.0.0.0/8"], why: /must be text/ },
];

for (const { input, why, suggestion } of refused) {
  t.test(`A27 parseCidr refuses ${JSON.stringify(input).slice(0, 40)}`, async (t) => {
    const got = parseCidr(input);
    t.equal(got.ok, false);
    if (got.ok) return;
    t.match(got.problem, why);
    t.equal(got.suggestion, suggestion);
  });
}

for (const family of [4, 6] as const) {
  t.test(`A8 every prefix length of IPv${family} is right and in range`, async (t) => {
    const bits = bitsOf(family);
    const top = 2n ** BigInt(bits) - 1n;
    for (let length = 0; length <= bits; length++) {
      for (const base of [0n, top]) {
        const block = cidrFromParts({ family, base, length });
        const size = 2n ** BigInt(bits - length);
        t.same(parseCidr(block), { ok: true, value: block });
        t.equal(sizeOf(block), size);
        t.equal(addressAt(block, 0), bigintToIp(cidrParts(block).base, family));
        t.equal(addressAt(block, size - 1n), bigintToIp(cidrParts(block).base + size - 1n, family));
        t.equal(addressAt(block, size), null);
        t.equal(addressAt(block, -1), null);
      }
    }
  });
}

t.test("A22 relations between blocks agree with an oracle that lists all addresses", async () => {
  fc.assert(
    fc.property(smallUniverse(), smallUniverse(), (a, b) => {
      const [left, right] = [addressesOf(a), addressesOf(b)];
      const both = [...left].filter((address) => right.has(address));
      const common = intersect(a, b);
      return (
        overlaps(a, b) === both.length > 0 &&
        containsCidr({ outer: a, inner: b }) === (both.length === right.size) &&
        (common === null ? both.length === 0 : isSame(addressesOf(common), new Set(both)))
      );
    }),
    { numRuns: 2000 },
  );
});

t.test("A22 families never meet, not even 0.0.0.0/0 and ::/0", async (t) => {
  const [all4, all6] = ["0.0.0.0/0" as Cidr, "::/0" as Cidr];
  t.equal(overlaps(all4, all6), false);
  t.equal(containsCidr({ outer: all6, inner: all4 }), false);
  t.equal(containsIp(all4, bigintToIp(1n, 6)), false);
});

t.test("A22 mapped addresses inside ::/0 are IPv6 like all others", async (t) => {
  const mapped = cidrFromParts({ family: 6, base: 0xffff_0000_0000n, length: 96 });
  t.equal(mapped, "::ffff:0.0.0.0/96");
  t.equal(containsCidr({ outer: "::/0" as Cidr, inner: mapped }), true);
  t.equal(sizeOf(mapped), 2n ** 32n);
});

t.test("hostCidr is one address of its family", async (t) => {
  t.equal(hostCidr(bigintToIp(0n, 4)), "0.0.0.0/32");
  t.equal(hostCidr(bigintToIp(1n, 6)), "::1/128");
});

t.test("S2 parseCidr never throws; its suggestions are canonical", async () => {
  const alphabet = fc.string({ unit: fc.constantFrom(...Array.from("0123456789abf:./%[] ")) });
  fc.assert(
    fc.property(fc.oneof(fc.anything(), alphabet, fc.string({ unit: "binary" })), (input) => {
      const got = parseCidr(input);
      if (got.ok) return got.value === input;
      return got.suggestion === undefined || parseCidr(got.suggestion).ok;
    }),
    { numRuns: 2000 },
  );
});

/** Blocks of the last 5 bits of a family, at the low and the high end of its space. */
function smallUniverse(): fc.Arbitrary<Cidr> {
  return fc
    .record({
      family: fc.constantFrom<Family>(4, 6),
      isHigh: fc.boolean(),
      offset: fc.bigInt(0n, 31n),
      hostBits: fc.integer({ min: 0, max: 5 }),
    })
    .map(({ family, isHigh, offset, hostBits }) => {
      const start = isHigh ? 2n ** BigInt(bitsOf(family)) - 32n : 0n;
      return cidrFromParts({ family, base: start + offset, length: bitsOf(family) - hostBits });
    });
}

function addressesOf(cidr: Cidr): Set<string> {
  const { base, family } = cidrParts(cidr);
  return new Set(
    Array.from({ length: Number(sizeOf(cidr)) }, (_, at) => bigintToIp(base + BigInt(at), family)),
  );
}

function isSame(a: Set<string>, b: Set<string>): boolean {
  return a.size === b.size && a.isSubsetOf(b);
}
