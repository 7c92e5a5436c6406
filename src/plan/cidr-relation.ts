/** What two sets of ranges are to each other, where they meet, and which rule is about it. */

import { cidrParts, type Cidr } from "#src/model/cidr.ts";
import { intersectAll, subtractAll } from "#src/model/cidr-blocks.ts";
import type { RuledPlace } from "./cidr-facts.ts";
import { reservedPlace, ruleBetween, type RuleVerdict } from "./cidr-rules.ts";

/** Of the first set to the second one. */
export type Relation = "contains" | "disjoint" | "equal" | "inside" | "overlaps";

export interface Meeting {
  readonly a: Cidr;
  readonly b: Cidr;
  readonly verdict: RuleVerdict;
  readonly sentence: string;
}

export interface RelationAnswer {
  readonly relation: Relation;
  /** The addresses that are in both, as the fewest blocks. */
  readonly common: readonly Cidr[];
  /** The strictest of all meetings and of reserved ranges; `allowed` where nothing meets. */
  readonly verdict: RuleVerdict;
  readonly meetings: readonly Meeting[];
  readonly isCut: boolean;
  /** Ranges of either set that nobody can have. */
  readonly reserved: readonly string[];
}

const MEETINGS_MAX = 100;
const STRICTNESS: readonly RuleVerdict[] = ["allowed", "bridged", "depends", "forbidden"];

/** Compares all ranges of one set with all of the other. */
export const relate = (a: readonly RuledPlace[], b: readonly RuledPlace[]): RelationAnswer => {
  const [left, right] = [cidrsOf(a), cidrsOf(b)];
  const common = intersectAll(left, right);
  const meetings: Meeting[] = [];
  let isCut = false;
  for (const one of a) {
    for (const other of b) {
      const answer = ruleBetween(one, other);
      if (answer === null) continue;
      if (meetings.length === MEETINGS_MAX) isCut = true;
      else meetings.push({ a: one.place.cidr, b: other.place.cidr, ...answer });
    }
  }
  const reserved = [...new Set([...a, ...b].flatMap(reservedSentence))];
  return {
    relation: relationOf({ left, right, common }),
    common,
    verdict: strictest([
      ...meetings.map(({ verdict }) => verdict),
      ...reserved.map((): RuleVerdict => "forbidden"),
    ]),
    meetings,
    isCut,
    reserved,
  };
};

const cidrsOf = (places: readonly RuledPlace[]): readonly Cidr[] =>
  places.map(({ place }) => place.cidr);

const relationOf = (sets: {
  readonly left: readonly Cidr[];
  readonly right: readonly Cidr[];
  readonly common: readonly Cidr[];
}): Relation => {
  const { left, right, common } = sets;
  if (common.length === 0) return "disjoint";
  const isInside = subtractAll(left, common).length === 0;
  const holds = subtractAll(right, common).length === 0;
  if (isInside && holds) return "equal";
  if (isInside) return "inside";
  return holds ? "contains" : "overlaps";
};

const reservedSentence = (place: RuledPlace): string[] => {
  const reserved = reservedPlace(place);
  const answer = reserved === null ? null : ruleBetween(place, reserved);
  return answer === null ? [] : [answer.sentence];
};

const strictest = (verdicts: readonly RuleVerdict[]): RuleVerdict =>
  verdicts.reduce<RuleVerdict>(
    (worst, verdict) => (STRICTNESS.indexOf(verdict) > STRICTNESS.indexOf(worst) ? verdict : worst),
    "allowed",
  );

/** True where one has IPv4 only and the other IPv6 only. */
export const areOfTwoFamilies = (a: readonly RuledPlace[], b: readonly RuledPlace[]): boolean => {
  const families = (places: readonly RuledPlace[]) =>
    new Set(places.map(({ place }) => cidrParts(place.cidr).family));
  return families(a).isDisjointFrom(families(b));
};
