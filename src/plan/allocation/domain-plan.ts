/**
 * How two allocators never grant overlapping blocks of one VPC: every grant replaces the VPC's one NetworkDomain
 * (compare and swap on resourceVersion) and names its blocks there; docs/decisions/cidr-revision.md has the proof.
 *
 *   read domain at revision R
 *     |  blocks of R are missing          -> complete: make them (anybody may; names make it idempotent)
 *     |  blocks before R may be unknown   -> list: read all blocks afresh, `ledger.markComplete`
 *     |  else                             -> ready: plan, replace the domain by R+1 with the new blocks as pending
 *     v
 *   replaced -> make the blocks; conflict -> begin again
 */

import type { BlockGrant, NetworkDomain } from "#src/model/allocation.ts";
import type { Ledger } from "./ledger.ts";

/** How many blocks one revision grants at most: bounds the domain's size. */
export const PENDING_BLOCKS_MAX = 96;

export type DomainStep =
  /** Make these first; "already exists" is success. */
  | { readonly kind: "complete"; readonly create: readonly BlockGrant[] }
  /** Read all blocks afresh, take them into the ledger, then call `ledger.markComplete(name, {uid, revision})`. */
  | { readonly kind: "list"; readonly uid: string; readonly revision: number }
  | { readonly kind: "ready" };

/**
 * Says what must happen before the next grant in a domain that was just read from the API server. A block of another
 * owner at a promised place is not the promised one: a create that was long on its way can land after its owner is gone.
 */
export const planDomain = (facts: {
  readonly domain: NetworkDomain;
  readonly ledger: Ledger;
  /** Owners that are gone for good: their promised blocks are not made any more. */
  readonly goneUids: ReadonlySet<string>;
}): DomainStep => {
  const { domain, ledger, goneUids } = facts;
  const create = domain.pending.filter(
    (grant) =>
      !goneUids.has(grant.owner.uid) && ledger.blockAt(grant)?.owner.uid !== grant.owner.uid,
  );
  if (create.length > 0) return { kind: "complete", create };
  if (!ledger.isComplete(domain)) {
    return { kind: "list", uid: domain.uid, revision: domain.revision };
  }
  return { kind: "ready" };
};

/** The domain to replace the one that was read with: the next revision, promising these blocks. */
export const grantedDomain = (
  domain: NetworkDomain,
  grants: readonly BlockGrant[],
): NetworkDomain => ({ ...domain, revision: domain.revision + 1, pending: grants });
