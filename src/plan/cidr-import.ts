/** Turns ranges of existing clusters into a SeedNetwork and NetworkClaims of adopted clusters. */

import { familyKey, RANGE_KINDS, type RangeKind } from "#src/model/allocation.ts";
import { cidrParts, type Cidr } from "#src/model/cidr.ts";

export interface FoundRange {
  readonly use: RangeKind | "reserved";
  readonly cidr: Cidr;
}

/** An object to be created; its kind's codec reads it. */
export interface NewObject {
  readonly apiVersion: string;
  readonly kind: "NetworkClaim" | "SeedNetwork";
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: Readonly<Record<string, unknown>>;
}

const API_VERSION = "xylem.dev/v1alpha1";

export const seedNetworkOf = (seed: {
  readonly name: string;
  readonly ranges: readonly FoundRange[];
}): NewObject => {
  const of = (use: FoundRange["use"]) =>
    seed.ranges.filter((range) => range.use === use).map(({ cidr }) => cidr);
  const reserved = of("reserved");
  return {
    apiVersion: API_VERSION,
    kind: "SeedNetwork",
    metadata: { name: seed.name },
    spec: {
      nodes: of("nodes"),
      pods: of("pods"),
      services: of("services"),
      ...(reserved.length === 0 ? {} : { reserved }),
    },
  };
};

/** One claim, and one more for each further range of a use and family: a claim has room for one. */
export const claimsOf = (shoot: {
  readonly namespace: string;
  readonly name: string;
  readonly vpc: string;
  readonly seeds: readonly string[];
  readonly ranges: readonly FoundRange[];
}): readonly NewObject[] => {
  const { namespace, name, vpc, seeds } = shoot;
  const specs: Partial<Record<RangeKind, Record<string, { cidr: Cidr }>>>[] = [];
  for (const use of RANGE_KINDS) {
    for (const family of [4, 6] as const) {
      const cidrs = shoot.ranges
        .filter((range) => range.use === use && cidrParts(range.cidr).family === family)
        .map(({ cidr }) => cidr);
      for (const [at, cidr] of cidrs.entries()) {
        const spec = (specs[at] ??= {});
        (spec[use] ??= {})[familyKey(family)] = { cidr };
      }
    }
  }
  return specs.map((spec, at) => ({
    apiVersion: API_VERSION,
    kind: "NetworkClaim",
    metadata: { namespace, name: at === 0 ? name : `${name}-${at + 1}` },
    spec: { vpc, seeds, adopt: true, ...spec },
  }));
};

/** A network's name in its cloud as the name of a VPC (a DNS label); null: nothing of it can be used. */
export const vpcOfNetwork = (network: string): string | null => {
  const label = network
    .toLowerCase()
    .replace(/[^-a-z0-9]+/g, "-")
    .slice(0, 63)
    .replace(/^-+|-+$/g, "");
  return label === "" ? null : label;
};
