/** The one place that says in words why a range can't be had: the same sentence in CLI, REST, webhook and status. */

import type { RangeKind, SeedUse } from "#src/model/allocation.ts";
import { cidrParts, containsCidr, intersect, type Cidr } from "#src/model/cidr.ts";

/** Whose range it is. */
export type Party =
  | {
      readonly kind: "claim";
      readonly namespace: string;
      readonly name: string;
      readonly uid: string;
      readonly use: RangeKind;
    }
  | { readonly kind: "seed"; readonly name: string; readonly use: SeedUse }
  /** Reserved everywhere, e.g. for loopback. */
  | { readonly kind: "reserved"; readonly purpose: string }
  /** A range that somebody just asks about; `label` is where it was written, e.g. a file's name. */
  | { readonly kind: "range"; readonly label: string | null };

export interface Place {
  readonly cidr: Cidr;
  readonly party: Party;
}

export type Refusal =
  | {
      readonly kind: "overlap";
      /** What was asked. */
      readonly asked: Place;
      /** What is in the way. */
      readonly other: Place;
      readonly vpc: string;
      /** A free block of the same size; null: none was found. */
      readonly wouldFit: Cidr | null;
    }
  /** A claim that has blocks was changed to ask for others. */
  | {
      readonly kind: "changed";
      readonly claim: { readonly namespace: string; readonly name: string };
      readonly has: { readonly cidr: Cidr; readonly kind: RangeKind; readonly vpc: string };
      /** What it asks now, in words. */
      readonly asks: string;
    };

export type Wait =
  /** The allocator does not know yet what exists. */
  | { readonly kind: "not-synced"; readonly missing: readonly string[] }
  | { readonly kind: "deleting"; readonly claim: ClaimName }
  | { readonly kind: "unknown-seed"; readonly claim: ClaimName; readonly seeds: readonly string[] }
  | { readonly kind: "no-pool"; readonly claim: ClaimName; readonly wish: SizeWish }
  | {
      readonly kind: "no-space";
      readonly claim: ClaimName;
      readonly wish: SizeWish;
      readonly pools: readonly string[];
      /** The largest block that is free for this claim; null: nothing is. */
      readonly wouldFit: Cidr | null;
    };

interface ClaimName {
  readonly namespace: string;
  readonly name: string;
}

export interface SizeWish {
  readonly use: RangeKind;
  readonly family: 4 | 6;
  readonly length: number;
  readonly vpc: string;
}

/** How many pools or seeds a sentence names. */
const NAMED_MAX = 4;

/** Says whose range it is, e.g. `services 10.1.0.0/16 of SeedNetwork eu-1`. */
export const describePlace = ({ cidr, party }: Place): string => {
  switch (party.kind) {
    case "claim":
      return `${party.use} ${cidr} of NetworkClaim ${party.namespace}/${party.name}`;
    case "seed":
      return `${party.use} ${cidr} of SeedNetwork ${party.name}`;
    case "reserved":
      return `${cidr}, which is reserved (${party.purpose})`;
    case "range":
      return party.label === null ? cidr : `${cidr} (${party.label})`;
  }
};

/** One clause on what two ranges have in common, naming both; null: nothing. */
export const explainOverlap = (a: Place, b: Place): string | null => {
  if (intersect(a.cidr, b.cidr) === null) return null;
  const [left, right] = [describePlace(a), describeOther(a, b)];
  if (a.cidr === b.cidr) return `${left} is the same range as ${right}`;
  return containsCidr({ outer: b.cidr, inner: a.cidr })
    ? `${left} lies inside ${right}`
    : `${left} contains ${right}`;
};

/** Tells the later claim of a name from the earlier one. */
const describeOther = (a: Place, b: Place): string => {
  const isNamesake =
    a.party.kind === "claim" &&
    b.party.kind === "claim" &&
    a.party.namespace === b.party.namespace &&
    a.party.name === b.party.name &&
    a.party.uid !== b.party.uid;
  return isNamesake && b.party.kind === "claim"
    ? `${describePlace(b)} with UID ${b.party.uid}, an earlier object of that name`
    : describePlace(b);
};

/** One sentence: which two parties, which range, which rule, what would fit. */
export const refusalSentence = (refusal: Refusal): string => {
  switch (refusal.kind) {
    case "overlap": {
      const what = explainOverlap(refusal.asked, refusal.other) ?? describePlace(refusal.asked);
      return `${what}; ${ruleOf(refusal)}: ${fixOf(refusal)}`;
    }
    case "changed": {
      const { claim, has } = refusal;
      return `NetworkClaim ${claim.namespace}/${claim.name} has ${has.kind} ${has.cidr} in VPC ${has.vpc} and now asks for ${refusal.asks}; what a claim has never changes while it exists: change it back, or make a new claim`;
    }
  }
};

const SEED_RULE = "a shoot must be apart from every seed that it may run on";

const ruleOf = ({ asked, other, vpc }: Refusal & { kind: "overlap" }): string => {
  const { party } = other;
  switch (party.kind) {
    case "claim":
      if (asked.party.kind === "seed") return SEED_RULE;
      return asked.party.kind === "claim" && asked.party.uid === party.uid
        ? "nodes, pods and services of one cluster must be apart"
        : `clusters of one VPC (${vpc}) must be apart`;
    case "seed":
      return party.use === "nodes" || party.use === "pods" || party.use === "services"
        ? SEED_RULE
        : `what a seed has set aside (${party.use}) belongs to no shoot`;
    case "reserved":
      return "no cluster can use such addresses";
    case "range":
      return "the two must be apart";
  }
};

const fixOf = ({ asked, other, wouldFit }: Refusal & { kind: "overlap" }): string =>
  wouldFit === null
    ? `choose a range outside of ${other.cidr}`
    : `choose another range, e.g. ${wouldFit}, the first free /${cidrParts(asked.cidr).length}`;

/** One sentence: what is waited for, and what would fit or help. */
export const waitSentence = (wait: Wait): string => {
  switch (wait.kind) {
    case "not-synced":
      return `nothing is allocated before all ${wait.missing.join(" and ")} are known: wait`;
    case "deleting":
      return `${claimText(wait.claim)} is being deleted: it gets no more ranges`;
    case "unknown-seed":
      return `${claimText(wait.claim)} may run on ${listed(wait.seeds)}, whose ranges are unknown: create a SeedNetwork of that name, or take it out of spec.seeds`;
    case "no-pool":
      return `${claimText(wait.claim)} asks for ${wishText(wait.wish)}, but no NetworkPool serves IPv${wait.wish.family} ${wait.wish.use} in VPC ${wait.wish.vpc} from a block that large: create one, or ask for a fixed range`;
    case "no-space": {
      const fits =
        wait.wouldFit === null
          ? "nothing is free there"
          : `the largest free block is ${wait.wouldFit}, so a /${cidrParts(wait.wouldFit).length} or longer would fit`;
      return `${claimText(wait.claim)} asks for ${wishText(wait.wish)}, but NetworkPool ${listed(wait.pools)} has no such block free for it: ${fits}; ask for less, or add to the pool`;
    }
  }
};

const claimText = ({ namespace, name }: ClaimName): string => `NetworkClaim ${namespace}/${name}`;

const wishText = ({ use, length, family }: SizeWish): string => `${use} /${length} (IPv${family})`;

const listed = (names: readonly string[]): string =>
  names.length <= NAMED_MAX
    ? names.join(", ")
    : `${names.slice(0, NAMED_MAX).join(", ")} and ${names.length - NAMED_MAX} more`;
