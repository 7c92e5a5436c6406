/** Tests of blocks as words against the same blocks as bigints. */

import assert from "node:assert/strict";
import fc from "fast-check";
import t from "tap";
import { cidrFromParts, cidrParts, type Cidr } from "./cidr.ts";
import {
  bitAt,
  bitsFromCidr,
  bitsFromParts,
  commonLength,
  halfOf,
  partsFromBits,
  shortenedTo,
} from "./cidr-bits.ts";
import { bitsOf, type Family } from "./ip.ts";

const MIXED = 0xdb8_0000_ffff_0000_0001_8000_0000_0000n;

const arbitraryCidr: fc.Arbitrary<Cidr> = fc.constantFrom<Family>(4, 6).chain((family) =>
  fc
    .record({
      base: fc.oneof(
        fc.bigInt({ min: 0n, max: (1n << BigInt(bitsOf(family))) - 1n }),
        fc.constantFrom(0n, 1n, MIXED & ((1n << BigInt(bitsOf(family))) - 1n)),
      ),
      length: fc.integer({ min: 0, max: bitsOf(family) }),
    })
    .map((parts) => cidrFromParts({ family, ...parts })),
);

t.test("A22 words are read from text as parts are, and back", async () => {
  fc.assert(
    fc.property(arbitraryCidr, (cidr) => {
      const parts = cidrParts(cidr);
      const { family, ...bits } = bitsFromCidr(cidr);
      assert.deepEqual(bits, bitsFromParts(parts));
      assert.equal(cidrFromParts(partsFromBits(bits, family)), cidr);
    }),
    { numRuns: 2000 },
  );
});

t.test("the mapped range, which has dots and colons, is read, too", async (t) => {
  const mapped = cidrFromParts({ family: 6, base: 0xffff_0a00_0000n, length: 104 });
  t.equal(mapped, "::ffff:10.0.0.0/104");
  t.same(bitsFromCidr(mapped), { a: 0, b: 0, c: 0xffff, d: 0x0a000000, length: 104, family: 6 });
});

t.test("A22 halves, parents and common lengths agree with bigints", async () => {
  fc.assert(
    fc.property(arbitraryCidr, arbitraryCidr, (x, y) => {
      const [bx, by] = [bitsFromCidr(x), bitsFromCidr(y)];
      if (bx.family !== by.family) return;
      const common = commonLength(bx, by);
      const shorter = Math.min(bx.length, by.length);
      const top = (cidr: Cidr, length: number) => cidrFromParts({ ...cidrParts(cidr), length });
      assert.equal(top(x, common), top(y, common));
      if (common < shorter) assert.notEqual(top(x, common + 1), top(y, common + 1));
      assert.equal(
        cidrFromParts(partsFromBits(shortenedTo(bx, common), bx.family)),
        top(x, common),
      );
      for (const side of [0, 1] as const) {
        if (bx.length === bitsOf(bx.family)) continue;
        const half = halfOf(bx, side);
        assert.equal(bitAt(half, bx.length), side);
        assert.equal(cidrFromParts(partsFromBits(shortenedTo(half, bx.length), bx.family)), x);
      }
    }),
    { numRuns: 2000 },
  );
});
