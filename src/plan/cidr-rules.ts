/** Which rule of design.md, section 6, is about two ranges that overlap, and what it says. */

import { overlaps, type Cidr } from "#src/model/cidr.ts";
import { CidrIndex } from "#src/model/cidr-index.ts";
import { reservedOverlap } from "#src/model/cidr-reserved.ts";
import {
  describePlace,
  explainOverlap,
  refusalSentence,
  type Place,
} from "./allocation/sentence.ts";
import type { RuledPlace } from "./cidr-facts.ts";

/**
 * `bridged`: an adopted cluster may have it, with an address map or in proxy mode. `depends`: one of the two belongs to
 * nobody that is known, and the rule says for whom it would be forbidden.
 */
export type RuleVerdict = "allowed" | "bridged" | "depends" | "forbidden";

export interface RuleAnswer {
  readonly verdict: RuleVerdict;
  /** One sentence with both parties, both ranges and the rule. */
  readonly sentence: string;
}

/** Judges two ranges; null: they have no address in common. */
export const ruleBetween = (a: RuledPlace, b: RuledPlace): RuleAnswer | null => {
  if (!overlaps(a.place.cidr, b.place.cidr)) return null;
  const { verdict, say } = judge(a, b);
  return { verdict, sentence: say() };
};

/** A verdict whose sentence is only made when somebody wants it: most overlaps of many are allowed. */
interface Judgement {
  readonly verdict: RuleVerdict;
  readonly say: () => string;
}

/** Judges two ranges that overlap. */
const judge = (a: RuledPlace, b: RuledPlace): Judgement => {
  if (a.isPool === true || b.isPool === true) {
    return allowed(a, b, "a pool may hold it: what is taken is passed over when blocks are cut");
  }
  // A claim's range is what can move, so it is the one that is judged.
  const [asked, other] = rank(a.place) >= rank(b.place) ? [a, b] : [b, a];
  switch (asked.place.party.kind) {
    case "claim":
      return ruleOfClaim(asked, other);
    case "seed":
      return ruleOfSeed(asked, other);
    case "reserved":
    case "range":
      return ruleOfRange(asked, other);
  }
};

const rank = ({ party }: Place): number => {
  switch (party.kind) {
    case "claim":
      return 3;
    case "seed":
      return 2;
    case "range":
      return 1;
    case "reserved":
      return 0;
  }
};

const ruleOfClaim = (asked: RuledPlace, other: RuledPlace): Judgement => {
  const { party } = other.place;
  switch (party.kind) {
    case "claim":
      return asked.vpc === other.vpc
        ? forbidden(asked, other)
        : allowed(
            asked,
            other,
            `clusters of different VPCs (${asked.vpc ?? ""}, ${other.vpc ?? ""}) may overlap`,
          );
    case "seed": {
      if (!asked.seeds.includes(party.name)) {
        return allowed(
          asked,
          other,
          `the claim does not name this seed, so its shoot never runs there`,
        );
      }
      const isClusterRange =
        party.use === "nodes" || party.use === "pods" || party.use === "services";
      if (!asked.isAdopted || !isClusterRange) return forbidden(asked, other);
      return {
        verdict: "bridged",
        say: () =>
          `${overlapText(asked, other)}; the claim is of an adopted cluster, so it may, with an address map or in proxy mode`,
      };
    }
    case "reserved":
      return forbidden(asked, other);
    case "range":
      return depends(
        asked,
        other,
        `a cluster of VPC ${asked.vpc ?? ""} can't have it; one of another VPC may`,
      );
  }
};

const ruleOfSeed = (asked: RuledPlace, other: RuledPlace): Judgement => {
  const { party } = other.place;
  switch (party.kind) {
    case "claim":
      return ruleOfClaim(other, asked);
    case "seed": {
      const isSame = asked.place.party.kind === "seed" && asked.place.party.name === party.name;
      return allowed(
        asked,
        other,
        isSame
          ? "what a seed has set aside as reserved may hold its own ranges"
          : "seeds may overlap each other; a shoot that may run on both must be apart from both",
      );
    }
    case "reserved":
      return forbidden(asked, other);
    case "range":
      return depends(asked, other, "no shoot that may run on this seed can have it");
  }
};

const ruleOfRange = (asked: RuledPlace, other: RuledPlace): Judgement =>
  other.place.party.kind === "reserved"
    ? forbidden(asked, other)
    : depends(
        asked,
        other,
        "both can't be in one cluster, in clusters of one VPC, or in a shoot and a seed that it may run on; clusters of different VPCs may have both",
      );

const overlapText = (a: RuledPlace, b: RuledPlace): string =>
  explainOverlap(a.place, b.place) ?? `${describePlace(a.place)}, ${describePlace(b.place)}`;

const allowed = (a: RuledPlace, b: RuledPlace, rule: string): Judgement => ({
  verdict: "allowed",
  say: () => `${overlapText(a, b)}; ${rule}`,
});

const depends = (a: RuledPlace, b: RuledPlace, rule: string): Judgement => ({
  verdict: "depends",
  say: () => `${overlapText(a, b)}; ${rule}`,
});

const forbidden = (asked: RuledPlace, other: RuledPlace): Judgement => ({
  verdict: "forbidden",
  say: () =>
    refusalSentence({
      kind: "overlap",
      asked: asked.place,
      other: other.place,
      vpc: asked.vpc ?? other.vpc ?? "",
      wouldFit: null,
    }),
});

/** The reserved range that a place overlaps, as a place of its own; null: none. */
export const reservedPlace = ({ place }: RuledPlace): RuledPlace | null => {
  // A seed may set anything aside, and a transit range is for nobody's machines.
  if (place.party.kind === "seed" && place.party.use === "reserved") return null;
  const reserved = reservedOverlap(place.cidr);
  if (reserved === null) return null;
  const { cidr, purpose } = reserved;
  return {
    place: { cidr, party: { kind: "reserved", purpose } },
    vpc: null,
    seeds: [],
    isAdopted: false,
  };
};

export interface Collision {
  readonly a: RuledPlace;
  readonly b: RuledPlace;
  readonly verdict: RuleVerdict;
  readonly sentence: string;
}

/** More than a person reads; a list of ranges that are all the same has millions. */
const COLLISIONS_MAX = 1000;

/**
 * Everything that is forbidden or needs a bridge (or, with `withDepends`, that may be forbidden) among many ranges:
 * seeds with what is reserved, then claims, then ranges that nobody has; at most 1,000.
 */
export const findCollisions = (
  places: readonly RuledPlace[],
  options: { readonly withDepends: boolean },
): { readonly found: readonly Collision[]; readonly isCut: boolean } => {
  const found: Collision[] = [];
  const rivals = new Rivals();
  let looked = 0;
  for (const place of places.toSorted((a, b) => turn(a) - turn(b))) {
    for (const other of rivals.of(place)) {
      looked += 1;
      const { verdict, say } = judge(place, other);
      if (isCollision(verdict, options)) {
        found.push({ a: place, b: other, verdict, sentence: say() });
      }
      if (found.length === COLLISIONS_MAX || looked > LOOKS_MAX) return { found, isCut: true };
    }
    rivals.add(place);
  }
  return { found, isCut: false };
};

/** Ranges and pools come last, because they are compared with all that somebody has. */
const turn = ({ place: { party } }: RuledPlace): number => {
  switch (party.kind) {
    case "reserved":
    case "seed":
      return 0;
    case "claim":
      return 1;
    case "range":
      return 2;
  }
};

/** Most overlaps that are looked at are collisions; this stands against the rest. */
const LOOKS_MAX = 1_000_000;

/** Who may be in a place's way: two claims of different VPCs, and two seeds, never are. */
class Rivals {
  readonly #seeds = new CidrIndex<RuledPlace>();
  readonly #vpcs = new Map<string | null, CidrIndex<RuledPlace>>();
  readonly #ranges = new CidrIndex<RuledPlace>();

  add(place: RuledPlace): void {
    this.#home(place).add(place.place.cidr, place);
  }

  /** Walks what overlaps it, the reserved range first. */
  *of(place: RuledPlace): Generator<RuledPlace> {
    const reserved = reservedPlace(place);
    if (reserved !== null) yield reserved;
    for (const index of this.#indexes(place)) {
      for (const { holder } of index.overlapping(place.place.cidr)) yield holder;
    }
  }

  #home(place: RuledPlace): CidrIndex<RuledPlace> {
    switch (place.place.party.kind) {
      case "reserved":
      case "seed":
        return this.#seeds;
      case "claim": {
        const index = this.#vpcs.get(place.vpc) ?? new CidrIndex<RuledPlace>();
        this.#vpcs.set(place.vpc, index);
        return index;
      }
      case "range":
        return this.#ranges;
    }
  }

  #indexes(place: RuledPlace): readonly CidrIndex<RuledPlace>[] {
    switch (place.place.party.kind) {
      case "reserved":
      case "seed":
        return [];
      case "claim":
        return [this.#seeds, this.#home(place)];
      case "range":
        return [this.#seeds, ...this.#vpcs.values(), this.#ranges];
    }
  }
}

const isCollision = (
  verdict: RuleVerdict,
  { withDepends }: { readonly withDepends: boolean },
): boolean => {
  switch (verdict) {
    case "allowed":
      return false;
    case "depends":
      return withDepends;
    case "bridged":
    case "forbidden":
      return true;
  }
};

const HOLDERS_MAX = 10;

/** Who has a part of a range, in words, at most ten. */
export const findOverlapping = (cidr: Cidr, places: readonly RuledPlace[]): readonly string[] => {
  const found = places.filter(({ place }) => overlaps(place.cidr, cidr));
  const more = found.length - HOLDERS_MAX;
  return [
    ...found.slice(0, HOLDERS_MAX).map(({ place }) => describePlace(place)),
    ...(more > 0 ? [`${more} more`] : []),
  ];
};
