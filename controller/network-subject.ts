/** Finds the ranges of what a person names: a range, a claim, a seed, a pool. */

import type { CidrSubject } from "#src/codec/cidr-subject-codec.ts";
import type { Cidr } from "#src/model/cidr.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { claimPlaces, seedPlaces, type CidrFacts, type RuledPlace } from "#src/plan/cidr-facts.ts";

/** The problem says what is not there. */
export const placesOf = (subject: CidrSubject, facts: CidrFacts): Parsed<readonly RuledPlace[]> => {
  switch (subject.kind) {
    case "range":
      return parsed([rangePlace(subject.cidr, null)]);
    case "claim": {
      const { namespace, name } = subject;
      const places = claimPlaces(facts).filter(
        ({ place: { party } }) =>
          party.kind === "claim" && party.namespace === namespace && party.name === name,
      );
      return places.length > 0
        ? parsed(places)
        : problem(`NetworkClaim ${namespace}/${name} is not there, or has no range yet`);
    }
    case "seed": {
      const seed = facts.seeds.find(({ name }) => name === subject.name);
      return seed === undefined
        ? problem(`SeedNetwork ${subject.name} is not there`)
        : parsed(seedPlaces(seed));
    }
    case "pool": {
      const pool = facts.pools.find(({ name }) => name === subject.name);
      return pool === undefined
        ? problem(`NetworkPool ${subject.name} is not there`)
        : parsed(
            pool.cidrs.map((cidr) => ({
              ...rangePlace(cidr, `NetworkPool ${pool.name}`),
              isPool: true as const,
            })),
          );
    }
  }
};

const rangePlace = (cidr: Cidr, label: string | null): RuledPlace => ({
  place: { cidr, party: { kind: "range", label } },
  vpc: null,
  seeds: [],
  isAdopted: false,
});
