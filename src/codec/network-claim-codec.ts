/** `NetworkClaim` of xylem.dev/v1alpha1: what a shoot asks, and the status that answers it (docs/objects.md). */

import {
  RANGE_KINDS,
  type BlockGrant,
  type FamilyWishes,
  type NetworkClaim,
  type RangeKind,
  type RangeWish,
} from "#src/model/allocation.ts";
import { blockName, parseVpc } from "#src/model/allocation-name.ts";
import { cidrParts, compareCidrs, parseCidr, type Cidr } from "#src/model/cidr.ts";
import { bitsOf, type Family } from "#src/model/ip.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import { parseTimestamp } from "#src/model/timestamp.ts";
import {
  fieldOf,
  FieldProblem,
  isAbsent,
  parseName,
  parseUid,
  parseWhole,
  reading,
  take,
  takeAll,
  takeOr,
  type Field,
} from "./fields.ts";
import { refuseOverlapping, refuseReserved, type PlacedCidr } from "./allocation-fields.ts";

/** How many seeds a shoot may move to. */
export const SEEDS_MAX = 64;

/** Reads a NetworkClaim; the problem names the object, the field, its value and the fix. */
export const parseNetworkClaim = (object: unknown): Parsed<NetworkClaim> =>
  reading({ kind: "NetworkClaim", object }, (root) => {
    const metadata = fieldOf(root, "metadata");
    return {
      namespace: take(fieldOf(metadata, "namespace"), parseName),
      name: take(fieldOf(metadata, "name"), parseName),
      uid: take(fieldOf(metadata, "uid"), parseUid),
      generation: takeOr({
        field: fieldOf(metadata, "generation"),
        parse: parseWhole({ min: 0, max: Number.MAX_SAFE_INTEGER }),
        standard: 1,
      }),
      createdMs: take(fieldOf(metadata, "creationTimestamp"), parseTimestamp),
      isDeleting: !isAbsent(fieldOf(metadata, "deletionTimestamp")),
      ...takeClaimSpec(fieldOf(root, "spec")),
    };
  });

/** What a claim asks, without whose it is. */
export type ClaimSpec = Pick<NetworkClaim, "vpc" | "seeds" | "ranges" | "isAdopted">;

/** Reads the spec of a claim that is no object yet: a REST body, a file for the command line. */
export const parseClaimSpec = (spec: unknown): Parsed<ClaimSpec> =>
  reading({ kind: "NetworkClaim", object: { spec } }, (root) =>
    takeClaimSpec(fieldOf(root, "spec")),
  );

const takeClaimSpec = (spec: Field): ClaimSpec => {
  const seeds = takeAll(fieldOf(spec, "seeds"), { max: SEEDS_MAX, parse: parseName });
  if (seeds.length === 0) {
    throw new FieldProblem("spec.seeds is empty: name every seed that the shoot may run on");
  }
  const isAdopted = takeOr({
    field: fieldOf(spec, "adopt"),
    parse: parseBoolean,
    standard: false,
  });
  const wishes = {
    nodes: takeWishes(fieldOf(spec, "nodes")),
    pods: takeWishes(fieldOf(spec, "pods")),
    services: takeWishes(fieldOf(spec, "services")),
  };
  const all = RANGE_KINDS.flatMap((use) => wishes[use].placed);
  if (all.length === 0) {
    throw new FieldProblem(
      "spec asks for nothing: give nodes, pods or services a cidr or a prefixLength",
    );
  }
  const fixed = all.filter((one): one is PlacedCidr & { sized: false } => !one.sized);
  refuseOverlapping(fixed, "nodes, pods and services of one cluster must be apart");
  if (isAdopted && fixed.length < all.length) {
    throw new FieldProblem(
      "spec.adopt is for a cluster that exists: give the cidr of each of its ranges, no prefixLength",
    );
  }
  return {
    vpc: take(fieldOf(spec, "vpc"), parseVpc),
    seeds: [...new Set(seeds)],
    ranges: {
      nodes: wishes.nodes.wishes,
      pods: wishes.pods.wishes,
      services: wishes.services.wishes,
    },
    isAdopted,
  };
};

type PlacedWish =
  | (PlacedCidr & { readonly sized: false })
  | { readonly path: string; readonly sized: true };

const takeWishes = (
  field: Field,
): { readonly wishes: FamilyWishes; readonly placed: readonly PlacedWish[] } => {
  if (isAbsent(field)) return { wishes: { ipv4: null, ipv6: null }, placed: [] };
  const ipv4 = takeWish(fieldOf(field, "ipv4"), 4);
  const ipv6 = takeWish(fieldOf(field, "ipv6"), 6);
  const placed = [
    { wish: ipv4, path: `${field.path}.ipv4` },
    { wish: ipv6, path: `${field.path}.ipv6` },
  ].flatMap(({ wish, path }): PlacedWish[] => {
    if (wish === null) return [];
    return wish.kind === "fixed"
      ? [{ path: `${path}.cidr`, cidr: wish.cidr, sized: false }]
      : [{ path, sized: true }];
  });
  return { wishes: { ipv4, ipv6 }, placed };
};

const takeWish = (field: Field, family: Family): RangeWish | null => {
  if (isAbsent(field)) return null;
  const [fixed, size] = [fieldOf(field, "cidr"), fieldOf(field, "prefixLength")];
  if (isAbsent(fixed) === isAbsent(size)) {
    throw new FieldProblem(`${field.path} must have either a cidr or a prefixLength`);
  }
  if (isAbsent(fixed)) {
    return { kind: "size", length: take(size, parseWhole({ min: 1, max: bitsOf(family) })) };
  }
  const cidr = take(fixed, parseCidr);
  if (cidrParts(cidr).family !== family) {
    throw new FieldProblem(
      `${fixed.path} ${cidr} is IPv${family === 4 ? 6 : 4}: write it below ipv${family === 4 ? 6 : 4}`,
    );
  }
  refuseReserved(fixed.path, cidr);
  return { kind: "fixed", cidr };
};

const parseBoolean = (value: unknown): Parsed<boolean> =>
  typeof value === "boolean"
    ? parsed(value)
    : problem(`must be true or false, found ${quoted(value)}`);

/** What a claim has, as its status shows it: always all three lists, in order. */
export const claimStatusRanges = (
  held: readonly BlockGrant[],
): Record<RangeKind, Cidr[]> & { readonly blocks: string[] } => {
  const of = (use: RangeKind): Cidr[] =>
    held
      .filter(({ kind }) => kind === use)
      .map(({ cidr }) => cidr)
      .toSorted(compareCidrs);
  return {
    nodes: of("nodes"),
    pods: of("pods"),
    services: of("services"),
    blocks: held.map(blockName).toSorted(),
  };
};
