/** `NetworkPool` of xylem.dev/v1alpha1: where wishes for a size are served from (docs/decisions/cidr-pools.md). */

import { RANGE_KINDS, type NetworkPool } from "#src/model/allocation.ts";
import { parseVpc } from "#src/model/allocation-name.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { parseRangeKind, refuseOverlapping, takeUsableCidrs } from "./allocation-fields.ts";
import {
  fieldAt,
  fieldOf,
  FieldProblem,
  isAbsent,
  parseName,
  reading,
  take,
  takeAll,
} from "./fields.ts";

const VPCS_MAX = 1024;

/** Reads a NetworkPool; the problem names the object, the field, its value and the fix. */
export const parseNetworkPool = (object: unknown): Parsed<NetworkPool> =>
  reading({ kind: "NetworkPool", object }, (root) => {
    const spec = fieldOf(root, "spec");
    const placed = takeUsableCidrs(fieldOf(spec, "cidrs"));
    if (placed.length === 0) {
      throw new FieldProblem("spec.cidrs is empty: name at least one range");
    }
    refuseOverlapping(placed, "a pool's ranges must be apart");
    const kinds = takeAll(fieldOf(spec, "for"), { max: RANGE_KINDS.length, parse: parseRangeKind });
    const vpcs = fieldOf(spec, "vpcs");
    return {
      name: take(fieldAt(root, "metadata", "name"), parseName),
      cidrs: placed.map(({ cidr }) => cidr),
      kinds: kinds.length === 0 ? RANGE_KINDS : [...new Set(kinds)],
      vpcs: isAbsent(vpcs) ? null : takeAll(vpcs, { max: VPCS_MAX, parse: parseVpc }),
    };
  });
