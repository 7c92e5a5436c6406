/** Prefix-to-prefix maps between a shoot's own addresses and those under which its seed dials them. */

import { cidrFromParts, cidrParts, partsContain, type Cidr, type CidrParts } from "./cidr.ts";
import { bigintToIp, bitsOf, familyOf, ipToBigint, type IpAddress } from "./ip.ts";

/** Two blocks of one family and one size: the address at an index of one stands for that of the other. */
export interface AddressMap {
  /** What the shoot calls it. */
  readonly real: Cidr;
  /** What the seed dials. */
  readonly mapped: Cidr;
}

/** Whose a stored map is; the UID tells a Tunnel from a later one of the same name. */
export interface TunnelRef {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** A map as it is stored: in one list for all tunnels of a seed, to which is only added. */
export interface StoredMap extends AddressMap {
  readonly tunnel: TunnelRef;
}

/** `AddressMaps` after parsing: all that was ever given out of a seed's `mapped` ranges and is still somebody's. */
export interface AddressMapLedger {
  /** The SeedNetwork's name. */
  readonly name: string;
  /** Null: the object does not exist yet. */
  readonly resourceVersion: string | null;
  readonly entries: readonly StoredMap[];
}

/** True when the two blocks can be mapped to each other. */
export const isMappable = ({ real, mapped }: AddressMap): boolean => {
  const [a, b] = [cidrParts(real), cidrParts(mapped)];
  return a.family === b.family && a.length === b.length;
};

/** The address that the seed dials for one of the shoot's; null: no map has it. */
export const mappedOf = (maps: readonly AddressMap[], real: IpAddress): IpAddress | null =>
  moved(maps, real, ({ real: from, mapped: to }) => ({ from, to }));

/** The shoot's address for one that the seed dials; null: no map has it. */
export const realOf = (maps: readonly AddressMap[], mapped: IpAddress): IpAddress | null =>
  moved(maps, mapped, ({ real: to, mapped: from }) => ({ from, to }));

/** The images of the parts of a real block that maps have; a block that no map touches has none. */
export const mappedBlocks = (maps: readonly AddressMap[], real: Cidr): readonly Cidr[] => {
  const block = cidrParts(real);
  return maps.flatMap((map) => {
    const from = cidrParts(map.real);
    const to = cidrParts(map.mapped);
    if (partsContain({ outer: block, inner: from })) return [map.mapped];
    if (!partsContain({ outer: from, inner: block })) return [];
    return [cidrFromParts({ ...block, base: to.base + (block.base - from.base) })];
  });
};

type Direction = (map: AddressMap) => { readonly from: Cidr; readonly to: Cidr };

const moved = (
  maps: readonly AddressMap[],
  address: IpAddress,
  direction: Direction,
): IpAddress | null => {
  const family = familyOf(address);
  const base = ipToBigint(address);
  const host: CidrParts = { family, base, length: bitsOf(family) };
  for (const map of maps) {
    const { from, to } = direction(map);
    const outer = cidrParts(from);
    if (!partsContain({ outer, inner: host })) continue;
    return bigintToIp(cidrParts(to).base + (base - outer.base), family);
  }
  return null;
};
