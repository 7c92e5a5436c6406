/** Rules about address ranges that a tunnel's objects share (design.md, section 6). */

import { cidrParts, containsIp, parseCidr, overlaps, sizeOf, type Cidr } from "#src/model/cidr.ts";
import { reservedOverlap } from "#src/model/cidr-reserved.ts";
import type { ApprovedRanges } from "#src/model/tunnel.ts";
import { fieldOf, FieldProblem, isAbsent, itemsOf, take, type Field } from "./fields.ts";
import type { IpAddress } from "#src/model/ip.ts";

const RANGES_MAX = 32;
/** One a family. */
const TRANSIT_MAX = 2;

interface PlacedCidr {
  readonly path: string;
  readonly cidr: Cidr;
}

/** Reads approved ranges and the transit ranges beside them: canonical, not reserved, all disjoint. */
export const takeRanges = (fields: {
  readonly ranges: Field;
  readonly transit: Field;
  /** For an absent transit field; null: it must be there. */
  readonly transitStandard: readonly Cidr[] | null;
}): { readonly ranges: ApprovedRanges; readonly transit: readonly Cidr[] } => {
  const nodes = takeBlocks(fieldOf(fields.ranges, "nodes"));
  const pods = takeBlocks(fieldOf(fields.ranges, "pods"));
  const services = takeBlocks(fieldOf(fields.ranges, "services"));
  const { transitStandard } = fields;
  const transit =
    transitStandard !== null && isAbsent(fields.transit)
      ? standardTransit(fields.transit.path, transitStandard)
      : takeTransit(fields.transit);
  refuseOverlaps([...nodes, ...pods, ...services, ...transit]);
  const plain = (list: readonly PlacedCidr[]) => list.map(({ cidr }) => cidr);
  return {
    ranges: { nodes: plain(nodes), pods: plain(pods), services: plain(services) },
    transit: plain(transit),
  };
};

const standardTransit = (path: string, standard: readonly Cidr[]): PlacedCidr[] =>
  standard.map((cidr) => ({ path: `${path} (the default)`, cidr }));

const takeBlocks = (field: Field, max = RANGES_MAX): PlacedCidr[] => {
  const items = itemsOf(field, { max });
  if (items.length === 0) {
    throw new FieldProblem(`${field.path} is empty: name at least one range`);
  }
  return items.map((item) => {
    const cidr = take(item, parseCidr);
    const reserved = reservedOverlap(cidr);
    if (reserved !== null) {
      throw new FieldProblem(
        `${item.path} ${cidr} overlaps ${reserved.cidr}, which is reserved (${reserved.purpose}): choose another range`,
      );
    }
    return { path: item.path, cidr };
  });
};

const takeTransit = (field: Field): PlacedCidr[] => {
  const blocks = takeBlocks(field, TRANSIT_MAX);
  const families = blocks.map(({ cidr }) => cidrParts(cidr).family);
  const twice = families.find((family, at) => families.indexOf(family) !== at);
  if (twice !== undefined) {
    throw new FieldProblem(
      `${field.path} has more than one IPv${twice} range: at most one per family is allowed`,
    );
  }
  return blocks;
};

const refuseOverlaps = (blocks: readonly PlacedCidr[]): void => {
  for (const [at, later] of blocks.entries()) {
    const earlier = blocks.slice(0, at).find(({ cidr }) => overlaps(cidr, later.cidr));
    if (earlier === undefined) continue;
    const fix = later.path.includes("transit")
      ? `set ${later.path.replace(/ \(.*|\[.*/, "")} to a range that nothing else uses`
      : "a tunnel's ranges must be disjoint";
    throw new FieldProblem(
      `${later.path} ${later.cidr} overlaps ${earlier.path} ${earlier.cidr}: ${fix}`,
    );
  }
};

/** Every transit range needs an address for each slot after its first address. */
export const refuseSmallTransit = (options: {
  readonly path: string;
  readonly transit: readonly Cidr[];
  readonly slots: number;
}): void => {
  for (const cidr of options.transit) {
    if (sizeOf(cidr) >= BigInt(options.slots + 1)) continue;
    throw new FieldProblem(
      `${options.path} ${cidr} has ${sizeOf(cidr)} addresses, but ${options.slots} slots need ${options.slots + 1}: take a larger range or fewer slots`,
    );
  }
};

/** A gateway's address must be in a transit range. */
export const refuseOutsideTransit = (options: {
  readonly path: string;
  readonly address: IpAddress;
  readonly transit: readonly Cidr[];
}): void => {
  const { path, address, transit } = options;
  if (transit.some((cidr) => containsIp(cidr, address))) return;
  throw new FieldProblem(
    `${path} ${address} is outside of the transit ranges ${transit.join(", ")}`,
  );
};
