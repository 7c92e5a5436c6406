/** Grants blocks in one VPC: what is promised is made, then the domain is swapped, then its new blocks are made. */

import type { BlockGrant, NetworkClaim, NetworkDomain } from "#src/model/allocation.ts";
import type { ClaimVerdict } from "#src/plan/allocation/claim-plan.ts";
import { cleanedDomain } from "#src/plan/allocation/release-plan.ts";
import { grantedDomain, planDomain } from "#src/plan/allocation/domain-plan.ts";
import type { Ledger } from "#src/plan/allocation/ledger.ts";
import { planRetry } from "#src/plan/allocation/retry-plan.ts";
import type { AllocationFacts } from "./allocation-facts.ts";
import type { AllocationStore } from "./allocation-store.ts";
import { inParallel } from "./parallel-work.ts";

/** How often a pass begins again after another allocator was quicker. */
const TRIES_MAX = 3;

export interface GrantParts {
  readonly vpc: string;
  /** Claims of this VPC that lack blocks, the oldest first. */
  readonly claims: readonly NetworkClaim[];
  readonly facts: AllocationFacts;
  readonly store: AllocationStore;
  /** Takes over what the watch has shown meanwhile. */
  readonly sync: () => void;
  readonly callsMax: number;
  /** True: blocks of this revision that are not shown are waited for, not made or listed. */
  readonly isPatient: (revision: string) => boolean;
}

export interface GrantResult {
  /** By UID; granted ones are made. */
  readonly verdicts: ReadonlyMap<string, ClaimVerdict>;
  /** Blocks. */
  readonly granted: number;
  /** False: there is more to do, which has to wait for the watch or for others. */
  readonly isDone: boolean;
}

const NOT_YET: GrantResult = { verdicts: new Map(), granted: 0, isDone: false };

/** Grants one revision to as many claims as fit into it. Throws HostError; all that was begun is found again. */
export const grantInDomain = async (parts: GrantParts): Promise<GrantResult> => {
  const { vpc, facts, store } = parts;
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const domain = await store.domain(vpc);
    parts.sync();
    const ledger = await readyLedger(parts, domain);
    if (ledger === null) return NOT_YET;
    const plan = planRetry({
      claims: parts.claims.filter(({ uid }) => facts.claims.has(uid)),
      ledger,
      domains: new Map([[vpc, cleanedDomain(domain, store.goneUids)]]),
      unsynced: [],
    });
    const grants = plan.grants.get(vpc) ?? [];
    if (grants.length > 0) {
      if ((await store.replaceDomain(grantedDomain(domain, grants))) === null) continue;
      await make(parts, grants);
    }
    const verdicts = ledger === facts.ledger ? plan.verdicts : onlyGranted(plan.verdicts);
    const isDone = plan.later.length === 0 && verdicts.size === plan.verdicts.size;
    return { verdicts, granted: grants.length, isDone };
  }
  return NOT_YET;
};

/**
 * What a list says is in the way may never be shown by the watch, and then its end would not be either: a claim that has
 * to wait is told so by what the watch shows, whose changes ask it again.
 */
const onlyGranted = (
  verdicts: ReadonlyMap<string, ClaimVerdict>,
): ReadonlyMap<string, ClaimVerdict> =>
  new Map([...verdicts].filter(([, { kind }]) => kind === "granted"));

/** A ledger in which a grant after this revision can be planned; null: it is too early. */
const readyLedger = async (parts: GrantParts, domain: NetworkDomain): Promise<Ledger | null> => {
  const { facts, store, isPatient } = parts;
  const step = planDomain({ domain, ledger: facts.ledger, goneUids: store.goneUids });
  if (step.kind === "ready") return facts.ledger;
  if (isPatient(`${domain.uid} ${domain.revision}`)) return null;
  if (step.kind === "complete") {
    await make(parts, await ofLivingOwners(parts, step.create));
  }
  // The watch may lag behind what was just made, or show no block of this revision at all, because all were freed since.
  const ledger = facts.ledgerOf(await store.blocksOf(domain.name));
  ledger.markComplete(domain.name, { uid: domain.uid, revision: domain.revision });
  const now = planDomain({ domain, ledger, goneUids: store.goneUids });
  return now.kind === "ready" ? ledger : null;
};

const ofLivingOwners = async (
  { facts, store }: GrantParts,
  grants: readonly BlockGrant[],
): Promise<readonly BlockGrant[]> => {
  const living: BlockGrant[] = [];
  for (const grant of grants) {
    if (facts.claims.has(grant.owner.uid) || !(await store.isGone(grant.owner))) living.push(grant);
  }
  return living;
};

const make = (parts: GrantParts, grants: readonly BlockGrant[]): Promise<void> =>
  inParallel(grants, parts.callsMax, (grant) => parts.store.makeBlock(grant));
