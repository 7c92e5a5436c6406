/** The parts of a core/v1 `Node` that planning needs; the shoot wrote it, so everything is checked and bounded. */

import { parseCidr } from "#src/model/cidr.ts";
import { parseIp } from "#src/model/ip.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { parseTimestamp } from "#src/model/timestamp.ts";
import type { NodeFacts } from "#src/model/tunnel.ts";
import {
  fieldAtIfPresent,
  fieldOf,
  itemsOf,
  parseName,
  parseUid,
  reading,
  take,
  takeAll,
  type Field,
} from "./fields.ts";

/** Some clouds list every address of every network card. */
const ADDRESSES_MAX = 128;
const POD_CIDRS_MAX = 16;
const CONDITIONS_MAX = 256;

/** Reads a Node; a node without addresses or pod CIDRs yet is good. */
export const parseNode = (object: unknown): Parsed<NodeFacts> =>
  reading({ kind: "Node", object }, (root) => {
    const metadata = fieldOf(root, "metadata");
    return {
      name: take(fieldOf(metadata, "name"), parseName),
      uid: take(fieldOf(metadata, "uid"), parseUid),
      createdMs: take(fieldOf(metadata, "creationTimestamp"), parseTimestamp),
      addresses: itemsOf(fieldAtIfPresent(root, "status", "addresses"), { max: ADDRESSES_MAX })
        .filter((item) => fieldOf(item, "type").value === "InternalIP")
        .map((item) => take(fieldOf(item, "address"), parseIp)),
      podCidrs: takePodCidrs(root),
      isReady: itemsOf(fieldAtIfPresent(root, "status", "conditions"), {
        max: CONDITIONS_MAX,
      }).some(
        (item) =>
          fieldOf(item, "type").value === "Ready" && fieldOf(item, "status").value === "True",
      ),
    };
  });

/** `podCIDR` is the first of `podCIDRs`; very old writers set it alone. */
const takePodCidrs = (root: Field): NodeFacts["podCidrs"] => {
  const many = takeAll(fieldAtIfPresent(root, "spec", "podCIDRs"), {
    max: POD_CIDRS_MAX,
    parse: parseCidr,
  });
  if (many.length > 0) return many;
  const one = fieldAtIfPresent(root, "spec", "podCIDR");
  return one.value === undefined || one.value === null || one.value === ""
    ? []
    : [take(one, parseCidr)];
};
