/** Tests of the algebra against three libraries, on inputs where these are right; where they are wrong is listed. */

import assert from "node:assert/strict";
import fc from "fast-check";
import { Address4, Address6 } from "ip-address";
import IPCIDR from "ip-cidr";
import ipaddr from "ipaddr.js";
import t from "tap";
import { cidrFromParts, containsCidr, overlaps, parseCidr, sizeOf, type Cidr } from "./cidr.ts";
import { endsOf } from "./cidr-blocks.ts";
import { bitsOf, ipToBigint, isMapped, type Family } from "./ip.ts";

const arbitraryOf = (family: Family): fc.Arbitrary<Cidr> =>
  fc
    .record({
      // Few bits, so that blocks often meet.
      high: fc.integer({ min: 0, max: 7 }),
      low: fc.bigInt({ min: 0n, max: (1n << BigInt(bitsOf(family) - 3)) - 1n }),
      length: fc.integer({ min: 0, max: bitsOf(family) }),
    })
    .map(({ high, low, length }) => ({
      family,
      base: (BigInt(high) << BigInt(bitsOf(family) - 3)) | low,
      length,
    }))
    .filter(({ base }) => !isMapped({ family, value: base }))
    .map(cidrFromParts);

const arbitraryPair = fc
  .constantFrom<Family>(4, 6)
  .chain((family) => fc.tuple(arbitraryOf(family), arbitraryOf(family)));

/** As ip-address has it. */
const peerOf = (cidr: Cidr): Address4 | Address6 =>
  cidr.includes(":") ? new Address6(cidr) : new Address4(cidr);

t.test("A22 containment agrees with ip-address", async () => {
  fc.assert(
    fc.property(arbitraryPair, ([outer, inner]) => {
      assert.equal(containsCidr({ outer, inner }), peerOf(inner).isInSubnet(peerOf(outer)));
    }),
    { numRuns: 1000 },
  );
});

t.test("A22 first and last address agree with ip-address and ip-cidr", async () => {
  fc.assert(
    fc.property(fc.oneof(arbitraryOf(4), arbitraryOf(6)), (cidr) => {
      const { first, last } = endsOf(cidr);
      const peer = peerOf(cidr);
      assert.equal(ipToBigint(first), peer.startAddress().bigInt());
      assert.equal(ipToBigint(last), peer.endAddress().bigInt());
      const other = new IPCIDR(cidr);
      assert.equal(BigInt(String(other.start({ type: "bigInteger" }))), ipToBigint(first));
      assert.equal(BigInt(String(other.end({ type: "bigInteger" }))), ipToBigint(last));
      assert.equal(BigInt(String(other.size)), sizeOf(cidr));
    }),
    { numRuns: 500 },
  );
});

t.test("A22 overlap agrees with ipaddr.js, which matches one address against a block", async () => {
  fc.assert(
    fc.property(arbitraryPair, ([a, b]) => {
      const isIn = (address: string, block: Cidr): boolean =>
        ipaddr.parse(address).match(ipaddr.parseCIDR(block));
      const peer = isIn(endsOf(a).first, b) || isIn(endsOf(b).first, a);
      assert.equal(overlaps(a, b), peer);
    }),
    { numRuns: 1000 },
  );
});

t.test("A27 canonical text is read alike by all; ipaddr.js prints it the same", async () => {
  fc.assert(
    fc.property(fc.oneof(arbitraryOf(4), arbitraryOf(6)), (cidr) => {
      assert.deepEqual(parseCidr(cidr), { ok: true, value: cidr });
      const [address, length] = ipaddr.parseCIDR(cidr);
      assert.equal(`${address.toString()}/${length}`, cidr);
    }),
    { numRuns: 500 },
  );
});

/** What others take, and we refuse. Whatever a peer reads it as, somebody else reads it as another range. */
const lenient: readonly {
  input: string;
  takenBy: readonly ("ip-cidr" | "ipaddr.js" | "ip-address")[];
}[] = [
  { input: "010.0.0.0/8", takenBy: ["ipaddr.js"] },
  { input: "10.0.0.5/24", takenBy: ["ip-cidr", "ipaddr.js", "ip-address"] },
  { input: "10/8", takenBy: ["ipaddr.js"] },
  { input: "10.0.0.0/08", takenBy: ["ip-cidr", "ipaddr.js", "ip-address"] },
  { input: "256.0.0.1/32", takenBy: [] },
  { input: "10.0.0.0/33", takenBy: [] },
  { input: " 10.0.0.0/8", takenBy: [] },
  { input: "[::1]/128", takenBy: [] },
  { input: "1::2::3/64", takenBy: [] },
  { input: "::ffff:10.0.0.0/104", takenBy: ["ip-cidr", "ipaddr.js", "ip-address"] },
  { input: "fe80::%eth0/64", takenBy: ["ip-cidr", "ipaddr.js", "ip-address"] },
  { input: "0x0a.0.0.0/8", takenBy: ["ipaddr.js"] },
  { input: "2001:DB8::/32", takenBy: ["ip-cidr", "ipaddr.js", "ip-address"] },
  { input: "10.0.0.0", takenBy: ["ip-address"] },
];

const takes = {
  "ip-cidr": (text: string) => IPCIDR.isValidCIDR(text),
  "ipaddr.js": (text: string) => ipaddr.isValidCIDR(text),
  "ip-address": (text: string) => Address4.isValid(text) || Address6.isValid(text),
};
const peers = ["ip-cidr", "ipaddr.js", "ip-address"] as const;

for (const { input, takenBy } of lenient) {
  t.test(
    `A27 ${JSON.stringify(input)} is refused, though ${takenBy.join(", ") || "nobody"} takes it`,
    async (t) => {
      t.equal(parseCidr(input).ok, false);
      t.same(
        peers.filter((peer) => takes[peer](input)),
        takenBy,
      );
    },
  );
}
