/** What every claim would get if it were asked now, without asking anybody (the same rules, the same order). */

import { olderClaimFirst, type NetworkClaim, type SeedNetwork } from "#src/model/allocation.ts";
import { planClaim, type ClaimVerdict } from "./allocation/claim-plan.ts";
import { Ledger } from "./allocation/ledger.ts";
import { checkSeedNetwork, type SeedConflict } from "./allocation/seed-check.ts";
import type { CidrFacts } from "./cidr-facts.ts";

export interface PlannedClaim {
  readonly claim: NetworkClaim;
  readonly verdict: ClaimVerdict;
}

export interface DryRun {
  /** The oldest first. */
  readonly claims: readonly PlannedClaim[];
  /** Seeds that overlap what claims hold already. */
  readonly seeds: readonly {
    readonly seed: SeedNetwork;
    readonly conflicts: readonly SeedConflict[];
  }[];
}

/** Plans all claims as if each earlier one had got what it was granted. */
export const dryRun = (facts: CidrFacts): DryRun => {
  const ledger = new Ledger(facts);
  const domains = new Map(facts.domains.map((domain) => [domain.name, domain]));
  const seeds = facts.seeds.map((seed) => ({
    seed,
    conflicts: checkSeedNetwork({ seed, claims: facts.claims, ledger }),
  }));
  const claims = facts.claims.toSorted(olderClaimFirst).map((claim) => {
    const domain = domains.get(claim.vpc) ?? null;
    const verdict = planClaim({ claim, ledger, domain, unsynced: [] });
    if (verdict.kind === "granted") for (const grant of verdict.create) ledger.hold(grant);
    return { claim, verdict };
  });
  return { claims, seeds: seeds.filter(({ conflicts }) => conflicts.length > 0) };
};
