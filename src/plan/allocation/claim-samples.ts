/** Claims, seeds, pools and blocks that tests of the allocator use. */

import {
  RANGE_KINDS,
  type BlockGrant,
  type FamilyWishes,
  type NetworkBlock,
  type NetworkClaim,
  type NetworkDomain,
  type NetworkPool,
  type RangeKind,
  type RangeWish,
  type SeedNetwork,
} from "#src/model/allocation.ts";
import { blockName } from "#src/model/allocation-name.ts";
import { cidrParts, parseCidr, type Cidr } from "#src/model/cidr.ts";
import { valueOf } from "#src/model/parsed.ts";

export const cidr = (text: string): Cidr => valueOf(parseCidr(text));

/** `10.0.0.0/16` is a fixed wish, `/16` a size, of IPv4; `v6/64` a size of IPv6. */
const wishOf = (text: string): FamilyWishes => {
  const size = /^(v6)?\/([0-9]+)$/.exec(text);
  const wish: RangeWish =
    size === null ? { kind: "fixed", cidr: cidr(text) } : { kind: "size", length: Number(size[2]) };
  const isV6 = wish.kind === "size" ? size?.[1] === "v6" : cidrParts(wish.cidr).family === 6;
  return { ipv4: isV6 ? null : wish, ipv6: isV6 ? wish : null };
};

const wishesOf = (texts: readonly string[]): FamilyWishes =>
  texts
    .map(wishOf)
    .reduce((all, one) => ({ ipv4: one.ipv4 ?? all.ipv4, ipv6: one.ipv6 ?? all.ipv6 }), {
      ipv4: null,
      ipv6: null,
    });

export const claimOf = (
  name: string,
  wishes: Partial<Record<RangeKind, string | readonly string[]>>,
  more: Partial<NetworkClaim> = {},
): NetworkClaim => ({
  namespace: `shoot--${name}`,
  name: "net",
  uid: `uid-${name}`,
  generation: 1,
  isDeleting: false,
  createdMs: 1000,
  vpc: "vpc-a",
  seeds: ["eu-1"],
  ranges: {
    nodes: wishesOf([wishes.nodes ?? []].flat()),
    pods: wishesOf([wishes.pods ?? []].flat()),
    services: wishesOf([wishes.services ?? []].flat()),
  },
  isAdopted: false,
  ...more,
});

export const seedOf = (
  name: string,
  more: Partial<Record<keyof Omit<SeedNetwork, "name">, readonly string[]>> = {},
): SeedNetwork => ({
  name,
  nodes: (more.nodes ?? ["10.240.0.0/16"]).map(cidr),
  pods: (more.pods ?? ["10.241.0.0/17"]).map(cidr),
  services: (more.services ?? ["10.242.0.0/18"]).map(cidr),
  transit: (more.transit ?? ["198.18.0.0/23"]).map(cidr),
  mapped: (more.mapped ?? []).map(cidr),
  reserved: (more.reserved ?? []).map(cidr),
});

export const poolOf = (
  name: string,
  cidrs: readonly string[],
  more: Partial<NetworkPool> = {},
): NetworkPool => ({ name, cidrs: cidrs.map(cidr), kinds: RANGE_KINDS, vpcs: null, ...more });

export const domainOf = (more: Partial<NetworkDomain> = {}): NetworkDomain => ({
  name: "vpc-a",
  uid: "uid-domain",
  resourceVersion: "1",
  revision: 0,
  pending: [],
  ...more,
});

/** The object that a grant becomes. */
export const blockOf = (grant: BlockGrant): NetworkBlock => ({
  ...grant,
  name: blockName(grant),
  uid: `uid-of-${blockName(grant)}`,
});

/** A block of a claim, with all else made up. */
export const heldBlock = (options: {
  readonly cidr: string;
  readonly owner: string;
  readonly kind?: RangeKind;
  readonly vpc?: string;
  readonly revision?: number;
}): NetworkBlock =>
  blockOf({
    cidr: cidr(options.cidr),
    vpc: options.vpc ?? "vpc-a",
    kind: options.kind ?? "nodes",
    owner: { namespace: `shoot--${options.owner}`, name: "net", uid: `uid-${options.owner}` },
    domain: { uid: "uid-domain", revision: options.revision ?? 1 },
  });
