/** All open claims at once: who gets what in one revision of each domain, oldest first; nobody blocks anybody else. */

import {
  olderClaimFirst,
  type BlockGrant,
  type NetworkClaim,
  type NetworkDomain,
} from "#src/model/allocation.ts";
import { planClaim, type ClaimVerdict } from "./claim-plan.ts";
import { PENDING_BLOCKS_MAX } from "./domain-plan.ts";
import type { Ledger } from "./ledger.ts";
import type { Refusal } from "./sentence.ts";

export interface RetryPlan {
  /** By VPC: the blocks of one grant; at most one revision a domain. */
  readonly grants: ReadonlyMap<string, readonly BlockGrant[]>;
  /** By the claim's UID; claims of `later` have none yet. */
  readonly verdicts: ReadonlyMap<string, ClaimVerdict>;
  /** Claims that were not looked at, because their VPC's grant is full: run again after it is written. */
  readonly later: readonly NetworkClaim[];
}

/**
 * Plans every claim that lacks blocks, as if the ones before had theirs. To be called whenever blocks were freed, and
 * when pools, seeds or claims changed; a claim that can't be served only gets its own verdict (A19).
 */
export const planRetry = (facts: {
  readonly claims: Iterable<NetworkClaim>;
  readonly ledger: Ledger;
  /** Domains that `planDomain` calls ready, by VPC; claims of other VPCs are left for later. */
  readonly domains: ReadonlyMap<string, NetworkDomain>;
  readonly unsynced: readonly string[];
}): RetryPlan => {
  const { ledger, unsynced } = facts;
  const verdicts = new Map<string, ClaimVerdict>();
  const later: NetworkClaim[] = [];
  const grants = new Map<string, BlockGrant[]>();
  for (const claim of [...facts.claims].toSorted(olderClaimFirst)) {
    const domain = facts.domains.get(claim.vpc);
    const granted = grants.get(claim.vpc) ?? [];
    if (domain === undefined || granted.length > PENDING_BLOCKS_MAX - BLOCKS_PER_CLAIM_MAX) {
      later.push(claim);
      continue;
    }
    const asIf = { ...domain, pending: [...domain.pending, ...granted] };
    const verdict = planClaim({ claim, ledger, domain: asIf, unsynced });
    verdicts.set(claim.uid, verdict);
    if (verdict.kind !== "granted" || verdict.create.length === 0) continue;
    grants.set(claim.vpc, [...granted, ...verdict.create]);
  }
  return { grants, verdicts, later };
};

/** Three kinds, two families. */
const BLOCKS_PER_CLAIM_MAX = 6;

/** True for a verdict that may change without a change of the claim's spec: when a block, seed or pool does. */
export const isRetryable = (verdict: ClaimVerdict): boolean => {
  switch (verdict.kind) {
    case "granted":
      return verdict.create.length > 0;
    case "waiting":
      return verdict.wait.kind !== "deleting";
    case "refused":
      return verdict.refusal.kind === "overlap" && isMovable(verdict.refusal);
  }
};

/** Another claim's block may be freed, a seed's range may change; all else is in the claim itself. */
const isMovable = ({ asked, other }: Refusal & { kind: "overlap" }): boolean => {
  switch (other.party.kind) {
    case "claim":
      return asked.party.kind !== "claim" || asked.party.uid !== other.party.uid;
    case "seed":
      return true;
    case "reserved":
    case "range":
      return false;
  }
};
