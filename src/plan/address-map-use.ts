/** Which of the published maps an end of a tunnel may use: the same answer on both ends, whatever the order. */

import type { AddressMap } from "#src/model/address-map.ts";
import { isMappable, mappedBlocks } from "#src/model/address-map.ts";
import { cidrParts, compareCidrs, containsCidr, overlaps, type Cidr } from "#src/model/cidr.ts";
import type { Finding } from "#src/model/finding.ts";
import type { Family } from "#src/model/ip.ts";
import type { ApprovedRanges } from "#src/model/tunnel.ts";

export interface UsableMaps {
  /** Of approved ranges, cut to these. */
  readonly ranges: readonly AddressMap[];
  /** Of transit ranges: the sources of packets to mapped addresses. */
  readonly transit: readonly AddressMap[];
  readonly findings: readonly Finding[];
}

/**
 * Takes only maps that can't be mistaken: real parts that are approved, images that are nobody's, and a mapped transit
 * range of the same family, without which no answer would find its way. A map of a range that is not approved any more
 * is kept by the seed and left out here.
 */
export const usableMaps = (facts: {
  readonly maps: readonly AddressMap[];
  readonly ranges: ApprovedRanges;
  readonly transit: readonly Cidr[];
  /** What the findings are about. */
  readonly object: string;
}): UsableMaps => {
  const approved = [...facts.ranges.nodes, ...facts.ranges.pods, ...facts.ranges.services];
  const findings: Finding[] = [];
  const taken: AddressMap[] = [];
  for (const map of facts.maps.toSorted((a, b) => compareCidrs(a.real, b.real))) {
    const why = whyNot(map, { taken, others: [...approved, ...facts.transit] });
    if (why === null) taken.push(map);
    else {
      const message = `the address map of ${map.real} to ${map.mapped} is not used: ${why}`;
      findings.push({ code: "map-not-used", object: facts.object, message });
    }
  }
  const transit = facts.transit.flatMap((range) => cut(taken, range));
  const families = new Set<Family>(transit.map(({ real }) => cidrParts(real).family));
  const ranges = approved
    .flatMap((range) => cut(taken, range))
    .filter(({ real }) => families.has(cidrParts(real).family))
    .toSorted((a, b) => compareCidrs(a.real, b.real));
  return { ranges, transit, findings };
};

/** Null: nothing speaks against it. */
const whyNot = (
  map: AddressMap,
  held: { readonly taken: readonly AddressMap[]; readonly others: readonly Cidr[] },
): string | null => {
  if (!isMappable(map)) return "the two differ in size or family";
  const other = held.others.find((range) => overlaps(range, map.mapped));
  if (other !== undefined) return `${other} of this tunnel overlaps ${map.mapped}`;
  const twice = held.taken.find(
    ({ real, mapped }) => overlaps(real, map.real) || overlaps(mapped, map.mapped),
  );
  return twice === undefined ? null : `it overlaps that of ${twice.real} to ${twice.mapped}`;
};

/** The parts of maps that lie in a range. */
const cut = (maps: readonly AddressMap[], range: Cidr): readonly AddressMap[] =>
  maps.flatMap((map) => {
    if (containsCidr({ outer: range, inner: map.real })) return [map];
    if (!containsCidr({ outer: map.real, inner: range })) return [];
    return mappedBlocks([map], range).map((mapped) => ({ real: range, mapped }));
  });
