/** What one claim gets now: blocks, a reason to wait, or a refusal (design.md, section 6). Reads the ledger, never changes it. */

import {
  familyKey,
  RANGE_KINDS,
  type BlockGrant,
  type ClaimRef,
  type DomainRevision,
  type NetworkClaim,
  type NetworkDomain,
  type RangeKind,
} from "#src/model/allocation.ts";
import { cidrParts, type Cidr } from "#src/model/cidr.ts";
import type { Family } from "#src/model/ip.ts";
import type { Ledger } from "./ledger.ts";
import { Obstacles } from "./obstacles.ts";
import {
  refusalSentence,
  waitSentence,
  type Place,
  type Refusal,
  type SizeWish,
  type Wait,
} from "./sentence.ts";

export type ClaimVerdict =
  | {
      readonly kind: "granted";
      /** To be made, under the revision after the domain's; empty: there is nothing to do. */
      readonly create: readonly BlockGrant[];
      /** What the claim has already. */
      readonly held: readonly BlockGrant[];
      /** Where an adopted cluster overlaps its seeds: an address map or proxy mode is needed there. */
      readonly bridged: readonly { readonly asked: Place; readonly other: Place }[];
    }
  | {
      readonly kind: "waiting";
      readonly wait: Wait;
      readonly reason: string;
      readonly whatWouldFit: Cidr | null;
      readonly held: readonly BlockGrant[];
    }
  | {
      readonly kind: "refused";
      readonly refusal: Refusal;
      readonly reason: string;
      readonly held: readonly BlockGrant[];
    };

export interface ClaimFacts {
  readonly claim: NetworkClaim;
  readonly ledger: Ledger;
  /** The claim's VPC as just read; null: it has none yet, or this is a dry run. */
  readonly domain: NetworkDomain | null;
  /** Kinds whose first list is not here yet; nothing is granted until this is empty (A1). */
  readonly unsynced: readonly string[];
}

interface Slot {
  readonly use: RangeKind;
  readonly family: Family;
}

const SLOTS: readonly Slot[] = RANGE_KINDS.flatMap((use) =>
  ([4, 6] as const).map((family) => ({ use, family })),
);

/**
 * Decides one claim. The same facts give the same answer, so a restart in the middle finds what it began; what a claim
 * has already is never moved.
 */
export const planClaim = (facts: ClaimFacts): ClaimVerdict => {
  const { claim, ledger, unsynced } = facts;
  if (unsynced.length > 0) return waiting({ kind: "not-synced", missing: unsynced }, []);
  const held = heldBy(facts);
  if (claim.isDeleting) return waiting({ kind: "deleting", claim }, held);
  const changed = changeOf(claim, held);
  if (changed !== null) return refused(changed, held);
  const unknown = claim.seeds.filter((seed) => ledger.rangesOfSeed(seed) === null);
  if (unknown.length > 0) return waiting({ kind: "unknown-seed", claim, seeds: unknown }, held);

  const obstacles = new Obstacles(facts);
  const bridged: { asked: Place; other: Place }[] = [];
  const fixed = fixedPlaces(claim, held);
  for (const asked of fixed) {
    const { blocking, bridgeable } = obstacles.conflictsOf(asked);
    if (blocking !== null)
      return refused(overlapOf(facts, obstacles, { asked, other: blocking }), held);
    bridged.push(...bridgeable.map((other) => ({ asked, other })));
    obstacles.place(asked);
  }
  const picked = pickSizes(facts, obstacles, held);
  if (picked.kind === "waiting") return waiting(picked.wait, held);
  const isHeld = new Set(held.map(({ cidr }) => cidr));
  const create = [...fixed, ...picked.places].filter(({ cidr }) => !isHeld.has(cidr));
  return {
    kind: "granted",
    create: create.flatMap(({ cidr, party }) =>
      party.kind === "claim"
        ? [
            {
              cidr,
              vpc: claim.vpc,
              kind: party.use,
              owner: refOf(claim),
              domain: nextRevision(facts),
            },
          ]
        : [],
    ),
    held,
    bridged,
  };
};

const waiting = (wait: Wait, held: readonly BlockGrant[]): ClaimVerdict => ({
  kind: "waiting",
  wait,
  reason: waitSentence(wait),
  whatWouldFit: wait.kind === "no-space" ? wait.wouldFit : null,
  held,
});

const refused = (refusal: Refusal, held: readonly BlockGrant[]): ClaimVerdict => ({
  kind: "refused",
  refusal,
  reason: refusalSentence(refusal),
  held,
});

/** A dry run has no domain; its grants are never written. */
const nextRevision = ({ domain }: ClaimFacts): DomainRevision => ({
  uid: domain?.uid ?? "",
  revision: (domain?.revision ?? 0) + 1,
});

const refOf = ({ namespace, name, uid }: NetworkClaim): ClaimRef => ({ namespace, name, uid });

/** Blocks of this very claim, those that are granted and not made yet included. */
const heldBy = ({ claim, ledger, domain }: ClaimFacts): BlockGrant[] => {
  const made = ledger.blocksOf(claim.uid);
  const known = new Set(made.map(({ cidr, vpc }) => `${cidr} ${vpc}`));
  const granted = (domain?.pending ?? []).filter(
    ({ owner, cidr, vpc }) => owner.uid === claim.uid && !known.has(`${cidr} ${vpc}`),
  );
  return [...made, ...granted];
};

const heldAt = (held: readonly BlockGrant[], slot: Slot): BlockGrant | undefined =>
  held.find(({ kind, cidr }) => kind === slot.use && cidrParts(cidr).family === slot.family);

/** A claim that has blocks must still ask for these. */
const changeOf = (claim: NetworkClaim, held: readonly BlockGrant[]): Refusal | null => {
  const moved = held.find(({ vpc }) => vpc !== claim.vpc);
  if (moved !== undefined) {
    return { kind: "changed", claim, has: moved, asks: `VPC ${claim.vpc}` };
  }
  for (const slot of SLOTS) {
    const has = heldAt(held, slot);
    const wish = claim.ranges[slot.use][familyKey(slot.family)];
    if (has === undefined || wish === null) continue;
    const isSame =
      wish.kind === "fixed" ? wish.cidr === has.cidr : wish.length === cidrParts(has.cidr).length;
    if (isSame) continue;
    return {
      kind: "changed",
      claim,
      has,
      asks: wish.kind === "fixed" ? wish.cidr : `a /${wish.length}`,
    };
  }
  return null;
};

/** What is asked by address, and what is held: both are judged, and neither moves. */
const fixedPlaces = (claim: NetworkClaim, held: readonly BlockGrant[]): Place[] =>
  SLOTS.flatMap((slot) => {
    const wish = claim.ranges[slot.use][familyKey(slot.family)];
    const cidr = heldAt(held, slot)?.cidr ?? (wish?.kind === "fixed" ? wish.cidr : undefined);
    return cidr === undefined ? [] : [placeOf(claim, { use: slot.use, cidr })];
  });

const placeOf = (claim: NetworkClaim, range: { use: RangeKind; cidr: Cidr }): Place => ({
  cidr: range.cidr,
  party: { kind: "claim", ...refOf(claim), use: range.use },
});

const overlapOf = (
  { claim, ledger }: ClaimFacts,
  obstacles: Obstacles,
  pair: { readonly asked: Place; readonly other: Place },
): Refusal => {
  const { family, length } = cidrParts(pair.asked.cidr);
  const use = pair.asked.party.kind === "claim" ? pair.asked.party.use : "nodes";
  const pools = ledger.poolsFor({ use, vpc: claim.vpc }).flatMap(({ cidrs }) => cidrs);
  return {
    kind: "overlap",
    ...pair,
    vpc: claim.vpc,
    wouldFit: obstacles.suggest({ pools, family, length }),
  };
};

type Picked =
  | { readonly kind: "picked"; readonly places: readonly Place[] }
  | { readonly kind: "waiting"; readonly wait: Wait };

/** Finds blocks for all wishes by size, the largest first, because the small ones fit into what is left. */
const pickSizes = (
  { claim, ledger }: ClaimFacts,
  obstacles: Obstacles,
  held: readonly BlockGrant[],
): Picked => {
  const wishes: SizeWish[] = SLOTS.flatMap((slot) => {
    const wish = claim.ranges[slot.use][familyKey(slot.family)];
    if (wish?.kind !== "size" || heldAt(held, slot) !== undefined) return [];
    return [{ ...slot, length: wish.length, vpc: claim.vpc }];
  });
  const places: Place[] = [];
  for (const wish of wishes.toSorted((a, b) => a.length - b.length)) {
    const pools = ledger.poolsFor(wish).map((pool) => ({
      name: pool.name,
      cidrs: pool.cidrs.filter((cidr) => {
        const { family, length } = cidrParts(cidr);
        return family === wish.family && length <= wish.length;
      }),
    }));
    const useful = pools.filter(({ cidrs }) => cidrs.length > 0);
    if (useful.length === 0) return { kind: "waiting", wait: { kind: "no-pool", claim, wish } };
    const regions = useful.flatMap(({ cidrs }) => cidrs);
    const cidr = obstacles.firstFree(regions, wish.length);
    if (cidr === null) {
      const wouldFit = obstacles.largestFree(regions, wish.length);
      const names = useful.map(({ name }) => name);
      return { kind: "waiting", wait: { kind: "no-space", claim, wish, pools: names, wouldFit } };
    }
    const place = placeOf(claim, { use: wish.use, cidr });
    places.push(place);
    obstacles.place(place);
  }
  return { kind: "picked", places };
};
