/** Translation between real and mapped addresses, against one address counted at a time. */

import fc from "fast-check";
import t from "tap";
import { mappedBlocks, isMappable, mappedOf, realOf, type AddressMap } from "./address-map.ts";
import {
  addressAt,
  cidrFromParts,
  containsCidr,
  containsIp,
  hostCidr,
  parseCidr,
  sizeOf,
  type Cidr,
} from "./cidr.ts";
import { bitsOf, parseIp, type Family, type IpAddress } from "./ip.ts";
import { valueOf } from "./parsed.ts";

const cidr = (text: string): Cidr => valueOf(parseCidr(text));
const ip = (text: string): IpAddress => valueOf(parseIp(text));

const MAPS: readonly AddressMap[] = [
  { real: cidr("10.250.0.0/20"), mapped: cidr("10.64.0.0/20") },
  { real: cidr("fd25:0:1::/56"), mapped: cidr("fd99::/56") },
  { real: cidr("198.51.100.7/32"), mapped: cidr("10.65.0.1/32") },
];

const ROWS: readonly { real: string; mapped: string | null }[] = [
  { real: "10.250.0.0", mapped: "10.64.0.0" },
  { real: "10.250.1.11", mapped: "10.64.1.11" },
  { real: "10.250.15.255", mapped: "10.64.15.255" },
  { real: "10.250.16.0", mapped: null },
  { real: "10.249.255.255", mapped: null },
  { real: "fd25:0:1:3::9", mapped: "fd99:0:0:3::9" },
  { real: "fd25:0:1:100::", mapped: null },
  { real: "198.51.100.7", mapped: "10.65.0.1" },
];

for (const { real, mapped } of ROWS) {
  void t.test(`${real} is dialed as ${mapped ?? "itself: it has no map"}`, async (t) => {
    t.equal(mappedOf(MAPS, ip(real)), mapped);
    if (mapped !== null) t.equal(realOf(MAPS, ip(mapped)), real);
  });
}

void t.test("blocks of two sizes or families can't be mapped to each other", async (t) => {
  t.equal(isMappable({ real: cidr("10.0.0.0/20"), mapped: cidr("10.64.0.0/20") }), true);
  t.equal(isMappable({ real: cidr("10.0.0.0/20"), mapped: cidr("10.64.0.0/21") }), false);
  t.equal(isMappable({ real: cidr("10.0.0.0/20"), mapped: cidr("fd00::/20") }), false);
});

void t.test("a block inside a map, one around maps, and one apart from them", async (t) => {
  t.same(mappedBlocks(MAPS, cidr("10.250.3.0/24")), ["10.64.3.0/24"]);
  t.same(mappedBlocks(MAPS, cidr("10.0.0.0/8")), ["10.64.0.0/20"]);
  t.same(mappedBlocks(MAPS, cidr("10.251.0.0/20")), []);
  t.same(mappedBlocks(MAPS, cidr("fd25:0:1:2::/64")), ["fd99:0:0:2::/64"]);
});

const block = (family: Family, length: number): fc.Arbitrary<Cidr> =>
  fc
    .bigInt({ min: 0n, max: (1n << BigInt(bitsOf(family))) - 1n })
    .map((base) => cidrFromParts({ family, base, length }));

/** A map, and the index of an address in it. */
const mapAndIndex = fc
  .constantFrom<Family>(4, 6)
  .chain((family) => fc.tuple(fc.constant(family), fc.integer({ min: 0, max: bitsOf(family) })))
  .chain(([family, length]) =>
    fc.record({
      map: fc.record({ real: block(family, length), mapped: block(family, length) }),
      index: fc.bigInt({ min: 0n, max: (1n << BigInt(bitsOf(family) - length)) - 1n }),
    }),
  );

void t.test("the address at an index of one side is that at the index of the other", async () => {
  fc.assert(
    fc.property(mapAndIndex, ({ map, index }) => {
      const [real, mapped] = [addressAt(map.real, index), addressAt(map.mapped, index)];
      if (real === null || mapped === null) throw new Error("the index is outside");
      return mappedOf([map], real) === mapped && realOf([map], mapped) === real;
    }),
  );
});

void t.test("there and back is the same address, whatever maps there are", async () => {
  const few = fc.array(mapAndIndex, { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(few, (list) => {
      const disjoint = list
        .map(({ map }) => map)
        .filter((map, at, maps) =>
          maps
            .slice(0, at)
            .every((other) => !meet(other.real, map.real) && !meet(other.mapped, map.mapped)),
        );
      return list.every(({ map, index }) => {
        const real = addressAt(map.real, index);
        if (real === null) return false;
        const mapped = mappedOf(disjoint, real);
        return mapped === null || realOf(disjoint, mapped) === real;
      });
    }),
  );
});

void t.test("a block's image holds exactly the images of its addresses", async () => {
  fc.assert(
    fc.property(mapAndIndex, fc.nat(8), ({ map, index }, more) => {
      const at = addressAt(map.real, index);
      if (at === null) return false;
      const length = Math.min(bitsOf(at.includes(":") ? 6 : 4), lengthOf(map.real) + more);
      const inner = cidr(around(at, length));
      const [image] = mappedBlocks([map], inner);
      const mapped = mappedOf([map], at);
      return (
        image !== undefined &&
        mapped !== null &&
        sizeOf(image) === sizeOf(inner) &&
        containsIp(image, mapped) &&
        containsCidr({ outer: map.mapped, inner: image })
      );
    }),
  );
});

const lengthOf = (text: Cidr): number => Number(text.split("/")[1]);

const around = (address: IpAddress, length: number): string => {
  const read = parseCidr(`${address}/${length}`);
  if (read.ok) return read.value;
  return read.suggestion ?? hostCidr(address);
};

const meet = (a: Cidr, b: Cidr): boolean =>
  containsCidr({ outer: a, inner: b }) || containsCidr({ outer: b, inner: a });
