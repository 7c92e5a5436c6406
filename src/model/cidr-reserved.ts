/** Ranges that mean the same on every machine and so can belong to no cluster (RFC 6890, RFC 4291). */

import { cidrFromParts, intersectKnown, knownCidr, parseCidr, type Cidr } from "./cidr.ts";
import { valueOf } from "./parsed.ts";

export interface ReservedRange {
  readonly cidr: Cidr;
  /** What it is for, e.g. `loopback`. */
  readonly purpose: string;
}

/** 240.0.0.0/4 is not among them: shoots use it. */
export const RESERVED_RANGES: readonly ReservedRange[] = [
  ...[
    ["0.0.0.0/8", "this network"],
    ["127.0.0.0/8", "loopback"],
    ["169.254.0.0/16", "link-local"],
    ["224.0.0.0/4", "multicast"],
    ["255.255.255.255/32", "broadcast"],
    ["::/127", "unspecified and loopback"],
    ["fe80::/10", "link-local"],
    ["ff00::/8", "multicast"],
  ].map(([text, purpose = ""]) => ({ cidr: valueOf(parseCidr(text)), purpose })),
  // Made from its parts, because the strict parser refuses it.
  {
    cidr: cidrFromParts({ family: 6, base: 0xffff_0000_0000n, length: 96 }),
    purpose: "IPv4-mapped IPv6",
  },
];

const RESERVED = RESERVED_RANGES.map((range) => ({ range, known: knownCidr(range.cidr) }));

/** The first reserved range that shares an address with `cidr`; null: there is none. */
export const reservedOverlap = (cidr: Cidr): ReservedRange | null => {
  const asked = knownCidr(cidr);
  return RESERVED.find(({ known }) => intersectKnown(known, asked) !== null)?.range ?? null;
};
