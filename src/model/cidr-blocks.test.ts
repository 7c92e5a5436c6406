/** Tests of taking blocks apart and putting them together, at the ends and around 64 bits. */

import assert from "node:assert/strict";
import fc from "fast-check";
import t from "tap";
import { cidrFromParts, cidrParts, containsCidr, parseCidr, type Cidr } from "./cidr.ts";
import {
  addressesIn,
  blocksBetween,
  enclosing,
  endsOf,
  halves,
  intersectAll,
  nextBlock,
  pieces,
  previousBlock,
  subtractAll,
} from "./cidr-blocks.ts";
import { bigintToIp, bitsOf, ipToBigint, type Family, type IpAddress } from "./ip.ts";
import { valueOf } from "./parsed.ts";

const cidr = (text: string): Cidr => valueOf(parseCidr(text));
const ip = (text: string): IpAddress => text as IpAddress;

const arbitraryCidr: fc.Arbitrary<Cidr> = fc.constantFrom<Family>(4, 6).chain((family) =>
  fc
    .record({
      base: fc.bigInt({ min: 0n, max: (1n << BigInt(bitsOf(family))) - 1n }),
      length: fc.oneof(
        fc.integer({ min: 0, max: bitsOf(family) }),
        fc.constantFrom(...[0, 1, 31, 32, 63, 64, 65, 127, 128].filter((n) => n <= bitsOf(family))),
      ),
    })
    .map((parts) => cidrFromParts({ family, ...parts })),
);

const edges: readonly {
  of: string;
  halves: readonly string[] | null;
  next: string | null;
  previous: string | null;
  last: string;
}[] = [
  {
    of: "0.0.0.0/0",
    halves: ["0.0.0.0/1", "128.0.0.0/1"],
    next: null,
    previous: null,
    last: "255.255.255.255",
  },
  {
    of: "128.0.0.0/1",
    halves: ["128.0.0.0/2", "192.0.0.0/2"],
    next: null,
    previous: "0.0.0.0/1",
    last: "255.255.255.255",
  },
  {
    of: "10.0.0.0/31",
    halves: ["10.0.0.0/32", "10.0.0.1/32"],
    next: "10.0.0.2/31",
    previous: "9.255.255.254/31",
    last: "10.0.0.1",
  },
  {
    of: "255.255.255.255/32",
    halves: null,
    next: null,
    previous: "255.255.255.254/32",
    last: "255.255.255.255",
  },
  {
    of: "::/0",
    halves: ["::/1", "8000::/1"],
    next: null,
    previous: null,
    last: "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
  },
  {
    of: "fd00::/63",
    halves: ["fd00::/64", "fd00:0:0:1::/64"],
    next: "fd00:0:0:2::/63",
    previous: "fcff:ffff:ffff:fffe::/63",
    last: "fd00::1:ffff:ffff:ffff:ffff",
  },
  {
    of: "fd00::/64",
    halves: ["fd00::/65", "fd00::8000:0:0:0/65"],
    next: "fd00:0:0:1::/64",
    previous: "fcff:ffff:ffff:ffff::/64",
    last: "fd00::ffff:ffff:ffff:ffff",
  },
  {
    of: "fd00::/127",
    halves: ["fd00::/128", "fd00::1/128"],
    next: "fd00::2/127",
    previous: "fcff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127",
    last: "fd00::1",
  },
  { of: "::/128", halves: null, next: "::1/128", previous: null, last: "::" },
];
for (const want of edges) {
  t.test(`A22 halves, neighbours and ends of ${want.of}`, async (t) => {
    const block = cidr(want.of);
    t.same(halves(block), want.halves);
    t.equal(nextBlock(block), want.next);
    t.equal(previousBlock(block), want.previous);
    t.equal(ipToBigint(endsOf(block).last), ipToBigint(ip(want.last)));
  });
}

t.test("A22 halves and parents belong together, neighbours touch", async () => {
  fc.assert(
    fc.property(arbitraryCidr, (block) => {
      const both = halves(block);
      const { length } = cidrParts(block);
      for (const half of both ?? []) assert.equal(enclosing(half, length), block);
      if (both !== null) {
        assert.equal(nextBlock(both[0]), both[1]);
        assert.equal(addressesIn(both), addressesIn([block]));
        assert.deepEqual(subtractAll([block], [both[0]]), [both[1]]);
      }
      const next = nextBlock(block);
      if (next !== null) {
        assert.equal(previousBlock(next), block);
        assert.equal(ipToBigint(endsOf(block).last) + 1n, ipToBigint(endsOf(next).first));
      }
      const { first, last } = endsOf(block);
      assert.deepEqual(blocksBetween({ first, last }), [block]);
    }),
  );
});

t.test("A22 a span of addresses is the fewest blocks, and nothing else is in them", async () => {
  const address = fc.integer({ min: 0, max: 63 });
  fc.assert(
    fc.property(fc.constantFrom<Family>(4, 6), address, address, (family, a, b) => {
      const top = (1n << BigInt(bitsOf(family))) - 64n;
      const [low, high] = [Math.min(a, b), Math.max(a, b)];
      const span = {
        first: bigintToIp(top + BigInt(low), family),
        last: bigintToIp(top + BigInt(high), family),
      };
      const blocks = blocksBetween(span);
      assert.equal(addressesIn(blocks), BigInt(high - low + 1));
      assert.equal(endsOf(blocks[0] ?? cidr("::/0")).first, span.first);
      assert.equal(endsOf(blocks.at(-1) ?? cidr("::/0")).last, span.last);
      for (const [at, block] of blocks.entries()) {
        const next = blocks[at + 1];
        if (next !== undefined)
          assert.equal(ipToBigint(endsOf(block).last) + 1n, ipToBigint(endsOf(next).first));
      }
    }),
  );
});

t.test("a span that ends before it begins, or of two families, has no blocks", async (t) => {
  t.same(blocksBetween({ first: ip("10.0.0.2"), last: ip("10.0.0.1") }), []);
  t.same(blocksBetween({ first: ip("10.0.0.2"), last: ip("fd00::1") }), []);
  t.same(blocksBetween({ first: ip("10.0.0.1"), last: ip("10.0.0.6") }), [
    "10.0.0.1/32",
    "10.0.0.2/31",
    "10.0.0.4/31",
    "10.0.0.6/32",
  ]);
});

t.test(
  "pieces of a length are in order, walked lazily, none where the length does not fit",
  async (t) => {
    t.same([...pieces(cidr("10.0.0.0/30"), 31)], ["10.0.0.0/31", "10.0.0.2/31"]);
    t.same([...pieces(cidr("10.0.0.0/30"), 29)], []);
    t.same([...pieces(cidr("10.0.0.0/30"), 33)], []);
    t.same([...pieces(cidr("::/0"), 128).take(2)], ["::/128", "::1/128"]);
  },
);

t.test("sets: difference and common part of lists", async (t) => {
  const list = ["10.0.0.0/9", "10.128.0.0/9"].map(cidr);
  t.same(subtractAll(list, [cidr("10.0.0.0/10")]), ["10.64.0.0/10", "10.128.0.0/9"]);
  t.same(intersectAll(list, ["10.0.0.0/8", "fd00::/8"].map(cidr)), ["10.0.0.0/8"]);
  t.equal(addressesIn([...list, cidr("10.1.0.0/16")]), 1n << 24n);
  t.equal(containsCidr({ outer: cidr("10.0.0.0/8"), inner: cidr("10.0.0.0/9") }), true);
});
