/** All that is known of seeds, pools, claims and blocks, and who is where in it. */

import {
  familyKey,
  RANGE_KINDS,
  SEED_USES,
  type BlockGrant,
  type NetworkBlock,
  type NetworkClaim,
  type NetworkDomain,
  type NetworkPool,
  type SeedNetwork,
} from "#src/model/allocation.ts";
import type { Place } from "./allocation/sentence.ts";

export interface CidrFacts {
  readonly seeds: readonly SeedNetwork[];
  readonly pools: readonly NetworkPool[];
  readonly claims: readonly NetworkClaim[];
  readonly blocks: readonly NetworkBlock[];
  readonly domains: readonly NetworkDomain[];
}

/** A range, whose it is, and what decides which rules are about it. */
export interface RuledPlace {
  readonly place: Place;
  /** Null: a seed's range, or one that nobody has. */
  readonly vpc: string | null;
  /** Where a claim's shoot may run. */
  readonly seeds: readonly string[];
  /** An adopted cluster may overlap the cluster ranges of its seeds. */
  readonly isAdopted: boolean;
  /** Only where blocks are cut from: nobody has it. */
  readonly isPool?: true;
}

/** Blocks, and what domains promise and nobody made yet. */
export const grantsOf = (facts: CidrFacts): readonly BlockGrant[] => {
  const made = new Set(facts.blocks.map(({ cidr, vpc }) => `${cidr} ${vpc}`));
  const promised = facts.domains.flatMap(({ pending }) =>
    pending.filter(({ cidr, vpc }) => !made.has(`${cidr} ${vpc}`)),
  );
  return [...facts.blocks, ...promised];
};

/** What a seed has and has set aside. */
export const seedPlaces = (seed: SeedNetwork): RuledPlace[] =>
  SEED_USES.flatMap((use) =>
    seed[use].map((cidr) => ({
      place: { cidr, party: { kind: "seed", name: seed.name, use } as const },
      vpc: null,
      seeds: [],
      isAdopted: false,
    })),
  );

/** What claims hold; a claim that has nothing yet counts with the ranges that it asks for by address. */
export const claimPlaces = (facts: CidrFacts): RuledPlace[] => {
  const grants = grantsOf(facts);
  const claims = new Map(facts.claims.map((claim) => [claim.uid, claim]));
  const held = grants.map(({ cidr, vpc, kind, owner }) => {
    const claim = claims.get(owner.uid);
    return {
      place: { cidr, party: { kind: "claim", ...owner, use: kind } as const },
      vpc,
      seeds: claim?.seeds ?? [],
      isAdopted: claim?.isAdopted ?? false,
    };
  });
  const owners = new Set(grants.map(({ owner }) => owner.uid));
  const asked = facts.claims.filter(({ uid }) => !owners.has(uid)).flatMap(askedPlaces);
  return [...held, ...asked];
};

/** The ranges that a claim asks for by address. */
const askedPlaces = (claim: NetworkClaim): RuledPlace[] =>
  RANGE_KINDS.flatMap((use) =>
    ([4, 6] as const).flatMap((family) => {
      const wish = claim.ranges[use][familyKey(family)];
      if (wish?.kind !== "fixed") return [];
      const { namespace, name, uid, vpc, seeds, isAdopted } = claim;
      const party = { kind: "claim", namespace, name, uid, use } as const;
      return [{ place: { cidr: wish.cidr, party }, vpc, seeds, isAdopted }];
    }),
  );
