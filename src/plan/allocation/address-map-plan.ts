/** Which address maps a tunnel has and still needs, out of its seed's `mapped` ranges (docs/decisions/address-maps.md). */

import type { AddressMap, StoredMap, TunnelRef } from "#src/model/address-map.ts";
import type { SeedNetwork } from "#src/model/allocation.ts";
import { CidrIndex, firstFreeInAll } from "#src/model/cidr-index.ts";
import { RESERVED_RANGES } from "#src/model/cidr-reserved.ts";
import { subtract } from "#src/model/cidr-set.ts";
import { cidrParts, compareCidrs, containsCidr, overlaps, type Cidr } from "#src/model/cidr.ts";
import type { Tunnel } from "#src/model/tunnel.ts";

/** Entries of one seed's list: 200 shoots with twenty each, and far below what etcd takes. */
export const STORED_MAPS_MAX = 4096;
/** Of one tunnel. */
const TUNNEL_MAPS_MAX = 128;

export interface AddressMapFacts {
  readonly tunnel: Tunnel;
  readonly uid: string;
  readonly seed: SeedNetwork;
  /** All maps of the seed, in the order of the list. */
  readonly stored: readonly StoredMap[];
}

export interface AddressMapPlan {
  /** The list as it must be: everything that was there, in its place, and what is new at the end. */
  readonly entries: readonly StoredMap[];
  readonly isChanged: boolean;
  /** What this tunnel has then; equal facts in any order give an equal list. */
  readonly maps: readonly AddressMap[];
  /** One sentence for each range that got no map, or whose map lost its place. */
  readonly problems: readonly string[];
}

/**
 * Adds what is missing and changes nothing that is stored. A range that grew has its old part where it was, and maps of
 * its own for the rest. A Tunnel that was made anew under its name takes over what its predecessor had: the caller has
 * made sure that this one lives.
 */
export const planAddressMaps = (facts: AddressMapFacts): AddressMapPlan => {
  const { tunnel, uid, seed, stored } = facts;
  const owner: TunnelRef = { namespace: tunnel.namespace, name: tunnel.name, uid };
  const entries: StoredMap[] = stored.map((entry) =>
    isOf(entry, owner) ? { ...entry, tunnel: owner } : entry,
  );
  const wanted = wantedRanges(facts);
  const room = new Room(facts);
  const problems = problemsOf(facts, entries);
  for (const range of wanted) {
    const own = entries.filter((entry) => isOf(entry, owner)).map(({ real }) => real);
    for (const real of subtract(range, own)) {
      const isFull = own.length >= TUNNEL_MAPS_MAX || entries.length >= STORED_MAPS_MAX;
      const mapped = isFull ? null : room.take(real);
      if (mapped !== null) entries.push({ real, mapped, tunnel: owner });
      else problems.push(isFull ? tooMany(real, seed) : room.whyNot(real));
    }
  }
  const maps = entries
    .filter((entry) => isOf(entry, owner))
    .map(({ real, mapped }) => ({ real, mapped }))
    .toSorted((a, b) => compareCidrs(a.real, b.real));
  const isChanged =
    entries.length !== stored.length ||
    entries.some((entry, at) => entry.tunnel.uid !== stored[at]?.tunnel.uid);
  return { entries, isChanged, maps, problems };
};

/** What is left when a tunnel is gone; only entries of this very UID go. */
export const releaseAddressMaps = (
  stored: readonly StoredMap[],
  uid: string,
): readonly StoredMap[] => stored.filter(({ tunnel }) => tunnel.uid !== uid);

const isOf = (entry: StoredMap, owner: TunnelRef): boolean =>
  entry.tunnel.namespace === owner.namespace && entry.tunnel.name === owner.name;

/** Ranges that need a map, with the transit ranges of their families: large ones first, then by address. */
const wantedRanges = ({ tunnel, seed }: AddressMapFacts): readonly Cidr[] => {
  const ranges = approvedOf(tunnel);
  const taken = [...seed.nodes, ...seed.pods, ...seed.services];
  const mapped = ranges.filter(
    (range) => tunnel.mapped === "all" || taken.some((other) => overlaps(range, other)),
  );
  const families = new Set(mapped.map((range) => cidrParts(range).family));
  const transit = tunnel.transit.filter((range) => families.has(cidrParts(range).family));
  return [...transit, ...mapped].toSorted(
    (a, b) => cidrParts(a).length - cidrParts(b).length || compareCidrs(a, b),
  );
};

const approvedOf = ({ ranges }: Tunnel): readonly Cidr[] => [
  ...ranges.nodes,
  ...ranges.pods,
  ...ranges.services,
];

/** Where new maps may go: in the seed's `mapped` ranges, apart from all maps and from what this tunnel carries. */
class Room {
  readonly #seed: SeedNetwork;
  readonly #taken: CidrIndex<string>;
  readonly #forbidden: CidrIndex<string>;

  constructor({ tunnel, seed, stored }: AddressMapFacts) {
    this.#seed = seed;
    this.#taken = new CidrIndex(stored.map(({ mapped }) => ({ cidr: mapped, holder: "map" })));
    const own = [...approvedOf(tunnel), ...tunnel.transit];
    const ofSeed = [...seed.nodes, ...seed.pods, ...seed.services, ...seed.transit];
    const reserved = RESERVED_RANGES.map(({ cidr }) => cidr);
    this.#forbidden = new CidrIndex(
      [...own, ...ofSeed, ...reserved].map((cidr) => ({ cidr, holder: "other" })),
    );
  }

  /** The lowest free block of the same size; null: there is none. */
  take(real: Cidr): Cidr | null {
    const { length } = cidrParts(real);
    for (const within of this.#regions(real)) {
      const found = firstFreeInAll([this.#taken, this.#forbidden], { within, length });
      if (found === null) continue;
      this.#taken.add(found, "map");
      return found;
    }
    return null;
  }

  whyNot(real: Cidr): string {
    const { family, length } = cidrParts(real);
    const where = `SeedNetwork ${this.#seed.name}`;
    const regions = this.#regions(real);
    return regions.length === 0
      ? `${real} has no address map: ${where} has no IPv${family} range in spec.mapped; add one that neither side uses`
      : `${real} has no address map: no /${length} is free in spec.mapped (${regions.join(", ")}) of ${where}; add a range that neither side uses`;
  }

  #regions(real: Cidr): readonly Cidr[] {
    const { family } = cidrParts(real);
    return this.#seed.mapped.filter((range) => cidrParts(range).family === family);
  }
}

const tooMany = (real: Cidr, seed: SeedNetwork): string =>
  `${real} has no address map: a tunnel has at most ${TUNNEL_MAPS_MAX} and AddressMaps ${seed.name} at most ${STORED_MAPS_MAX}; name fewer, larger ranges`;

/** Maps whose place was taken away, or is used on this tunnel's own side by now. */
const problemsOf = (
  { tunnel, uid, seed }: AddressMapFacts,
  entries: readonly StoredMap[],
): string[] => {
  const own = entries.filter((entry) => entry.tunnel.uid === uid);
  const used = [...approvedOf(tunnel), ...tunnel.transit];
  return own.flatMap(({ real, mapped }) => {
    const other = used.find((range) => overlaps(range, mapped));
    if (other !== undefined) {
      return `the address map of ${real} to ${mapped} is not used: ${other} of this Tunnel overlaps it; take that range out of the Tunnel`;
    }
    const isInside = seed.mapped.some((outer) => containsCidr({ outer, inner: mapped }));
    return isInside
      ? []
      : `the address map of ${real} to ${mapped} lies outside of spec.mapped of SeedNetwork ${seed.name}, where others may get it: put that range back`;
  });
};
