/** What a seed's ranges would do to the shoots that may run on it: asked before a `SeedNetwork` changes, and after. */

import type { NetworkClaim, SeedNetwork } from "#src/model/allocation.ts";
import { Ledger } from "./ledger.ts";
import { refusalSentence, type Refusal } from "./sentence.ts";

/** A SeedNetwork's findings are told to a person: some are enough. */
const FINDINGS_MAX = 16;

export interface SeedConflict {
  readonly refusal: Refusal;
  readonly reason: string;
}

/**
 * The blocks of claims that name this seed and overlap what it would have. Adopted clusters may. Bounded; in the order
 * of the claims.
 */
export const checkSeedNetwork = (facts: {
  readonly seed: SeedNetwork;
  readonly claims: Iterable<NetworkClaim>;
  readonly ledger: Ledger;
}): readonly SeedConflict[] => {
  const { seed, ledger } = facts;
  const ranges = new Ledger({ seeds: [seed] }).rangesOfSeed(seed.name);
  const found: SeedConflict[] = [];
  for (const claim of facts.claims) {
    if (claim.isAdopted || !claim.seeds.includes(seed.name)) continue;
    for (const block of ledger.blocksOf(claim.uid)) {
      const held = ranges?.firstOverlap(block.cidr) ?? null;
      if (held === null) continue;
      const refusal: Refusal = {
        kind: "overlap",
        asked: {
          cidr: held.cidr,
          party: { kind: "seed", name: seed.name, use: held.holder.use },
        },
        other: { cidr: block.cidr, party: { kind: "claim", ...block.owner, use: block.kind } },
        vpc: block.vpc,
        wouldFit: null,
      };
      found.push({ refusal, reason: refusalSentence(refusal) });
      if (found.length === FINDINGS_MAX) return found;
    }
  }
  return found;
};
