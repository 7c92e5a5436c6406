/** `SeedNetwork` of xylem.dev/v1alpha1: a seed's own ranges, and what it has set aside (docs/objects.md). */

import type { SeedNetwork } from "#src/model/allocation.ts";
import { parseCidr } from "#src/model/cidr.ts";
import { valueOf, type Parsed } from "#src/model/parsed.ts";
import {
  refuseOverlapping,
  takeCidrs,
  takeUsableCidrs,
  type PlacedCidr,
} from "./allocation-fields.ts";
import { fieldAt, fieldOf, FieldProblem, isAbsent, parseName, reading, take } from "./fields.ts";

/** The standard transit range of a `Tunnel`. */
const TRANSIT_STANDARD = valueOf(parseCidr("198.18.0.0/23"));

/** Reads a SeedNetwork; the problem names the object, the field, its value and the fix. */
export const parseSeedNetwork = (object: unknown): Parsed<SeedNetwork> =>
  reading({ kind: "SeedNetwork", object }, (root) => {
    const spec = fieldOf(root, "spec");
    const nodes = takeUsableCidrs(fieldOf(spec, "nodes"));
    const pods = takeUsableCidrs(fieldOf(spec, "pods"));
    const services = takeUsableCidrs(fieldOf(spec, "services"));
    const own = [...nodes, ...pods, ...services];
    if (own.length === 0) {
      throw new FieldProblem("spec has no nodes, pods or services: name the seed's own ranges");
    }
    const mapped = takeUsableCidrs(fieldOf(spec, "mapped"));
    const transitField = fieldOf(spec, "transit");
    const transit = isAbsent(transitField)
      ? [{ path: "spec.transit (the default)", cidr: TRANSIT_STANDARD }]
      : takeUsableCidrs(transitField);
    refuseOverlapping([...own, ...mapped, ...transit], "a seed's ranges must be apart");
    return {
      name: take(fieldAt(root, "metadata", "name"), parseName),
      nodes: plain(nodes),
      pods: plain(pods),
      services: plain(services),
      transit: plain(transit),
      mapped: plain(mapped),
      // These may hold anything, each other and the seed's own ranges included.
      reserved: plain(takeCidrs(fieldOf(spec, "reserved"))),
    };
  });

const plain = (placed: readonly PlacedCidr[]) => placed.map(({ cidr }) => cidr);
