/** Which blocks may be freed: those whose owner's UID is gone for good, seen by a read that no cache can spoil. */

import type { ClaimRef, NetworkBlock, NetworkDomain } from "#src/model/allocation.ts";

export interface ReleaseFacts {
  readonly blocks: Iterable<NetworkBlock>;
  /** UIDs of all claims that are known, deleted ones that a finalizer still holds included. */
  readonly claimUids: ReadonlySet<string>;
  /** False: the claims are not all known yet, so nothing may be concluded from a missing one. */
  readonly isSynced: boolean;
  /**
   * UIDs that a read of the claim from the API server, begun after the block was seen, did not find: no object of that
   * name, or one with another UID. A UID never comes back, so an answer stays true.
   */
  readonly goneUids: ReadonlySet<string>;
  readonly domains: Iterable<NetworkDomain>;
}

export interface ReleasePlan {
  /** Owners that the cache does not have: read each from the API server, add it to `goneUids` when it is gone. */
  readonly confirm: readonly ClaimRef[];
  /** Domains whose `pending` names a gone owner: take those entries out first, or somebody would make the block again. */
  readonly clean: readonly NetworkDomain[];
  /** To be deleted, with the block's UID as precondition. */
  readonly free: readonly NetworkBlock[];
}

/** Decides what is freed; a cache that lags can only delay it (A3, A13). */
export const planRelease = (facts: ReleaseFacts): ReleasePlan => {
  if (!facts.isSynced) return { confirm: [], clean: [], free: [] };
  const { claimUids, goneUids } = facts;
  const orphans = [...facts.blocks].filter(({ owner }) => !claimUids.has(owner.uid));
  const confirm = new Map<string, ClaimRef>();
  for (const { owner } of orphans) {
    if (!goneUids.has(owner.uid)) confirm.set(owner.uid, owner);
  }
  const clean = [...facts.domains].filter(({ pending }) =>
    pending.some(({ owner }) => goneUids.has(owner.uid)),
  );
  const promised = new Set(
    clean.flatMap(({ pending }) => pending.map((grant) => `${grant.cidr} ${grant.vpc}`)),
  );
  const free = orphans.filter(
    ({ owner, cidr, vpc }) => goneUids.has(owner.uid) && !promised.has(`${cidr} ${vpc}`),
  );
  return { confirm: [...confirm.values()], clean, free };
};

/** A domain without what it promised to owners that are gone. */
export const cleanedDomain = (
  domain: NetworkDomain,
  goneUids: ReadonlySet<string>,
): NetworkDomain => ({
  ...domain,
  pending: domain.pending.filter(({ owner }) => !goneUids.has(owner.uid)),
});
