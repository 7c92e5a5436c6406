/** A picture of address space as data: who has what, where it collides, what is shown together and what lies between. */

import { SEED_USES, type NetworkPool, type SeedUse } from "#src/model/allocation.ts";
import { knownCidr, type Cidr, type CidrParts, compareParts, intersect } from "#src/model/cidr.ts";
import { describePlace, type Party } from "./allocation/sentence.ts";
import { claimPlaces, seedPlaces, type CidrFacts, type RuledPlace } from "./cidr-facts.ts";
import { mapItems, type MapItem } from "./cidr-map-regions.ts";
import { findCollisions } from "./cidr-rules.ts";

/** What a block is for; `range`: nobody says. */
export type MapUse = SeedUse | "range";

export const MAP_USES: readonly MapUse[] = [...SEED_USES, "range"];

/** A block of one use, and all who have it. */
export interface MapBlock {
  readonly cidr: Cidr;
  readonly parts: CidrParts;
  readonly use: MapUse;
  readonly isSeed: boolean;
  /** The first holder, short: `eu-1`, `shoot--a/net`; empty: nobody says. */
  readonly owner: string;
  /** The first holder in words, e.g. `nodes 10.0.0.0/16 of SeedNetwork eu-1`. */
  readonly description: string;
  /** How many have this very block for this use. */
  readonly holders: number;
}

export interface AddressMap {
  /** In order, IPv4 first; larger blocks before those in them. */
  readonly blocks: readonly MapBlock[];
  readonly pools: readonly { readonly name: string; readonly cidr: Cidr }[];
  /** The addresses that two have who must be apart, or that need a bridge. */
  readonly collisions: readonly { readonly cidr: Cidr; readonly sentence: string }[];
  readonly hasMoreCollisions: boolean;
  readonly items: readonly MapItem[];
}

/** Draws nothing yet: collects blocks, finds collisions, and decides what is shown together. */
export const planMap = (source: {
  readonly facts: CidrFacts;
  /** Ranges that only a person named. */
  readonly ranges: readonly Cidr[];
}): AddressMap => {
  const { facts, ranges } = source;
  const places = [
    ...facts.seeds.flatMap(seedPlaces),
    ...claimPlaces(facts),
    ...ranges.map(rangePlace),
  ];
  const { found, isCut } = findCollisions(places, { withDepends: true });
  const blocks = groupBlocks(places);
  const pools = poolRanges(facts.pools);
  return {
    blocks,
    pools,
    collisions: found.flatMap(({ a, b, sentence }) => {
      const cidr = intersect(a.place.cidr, b.place.cidr);
      return cidr === null ? [] : [{ cidr, sentence }];
    }),
    hasMoreCollisions: isCut,
    items: mapItems(blocks, pools),
  };
};

const rangePlace = (cidr: Cidr): RuledPlace => ({
  place: { cidr, party: { kind: "range", label: null } },
  vpc: null,
  seeds: [],
  isAdopted: false,
});

const poolRanges = (pools: readonly NetworkPool[]) =>
  pools.flatMap(({ name, cidrs }) => cidrs.map((cidr) => ({ name, cidr })));

const groupBlocks = (places: readonly RuledPlace[]): readonly MapBlock[] => {
  const groups = new Map<string, { first: RuledPlace; holders: number }>();
  for (const place of places) {
    const { cidr, party } = place.place;
    const key = `${cidr} ${useOf(party)} ${party.kind}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { first: place, holders: 1 });
    else group.holders += 1;
  }
  return [...groups.values()]
    .map(({ first: { place }, holders }) => ({
      ...knownCidr(place.cidr),
      use: useOf(place.party),
      isSeed: place.party.kind === "seed",
      owner: ownerOf(place.party),
      description: describePlace(place),
      holders,
    }))
    .toSorted(
      (a, b) => compareParts(a.parts, b.parts) || MAP_USES.indexOf(a.use) - MAP_USES.indexOf(b.use),
    );
};

const useOf = (party: Party): MapUse => {
  switch (party.kind) {
    case "claim":
    case "seed":
      return party.use;
    case "reserved":
      return "reserved";
    case "range":
      return "range";
  }
};

const ownerOf = (party: Party): string => {
  switch (party.kind) {
    case "claim":
      return `${party.namespace}/${party.name}`;
    case "seed":
      return party.name;
    case "reserved":
      return party.purpose;
    case "range":
      return party.label ?? "";
  }
};
