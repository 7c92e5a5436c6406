/** `NetworkBlock` of xylem.dev/v1alpha1: one allocated block, whose name is the lock (docs/objects.md). */

import type { BlockGrant, NetworkBlock } from "#src/model/allocation.ts";
import { blockName } from "#src/model/allocation-name.ts";
import type { Parsed } from "#src/model/parsed.ts";
import {
  blockLabels,
  grantSpec,
  GROUP_VERSION,
  refuseOtherName,
  takeGrant,
} from "./allocation-fields.ts";
import { fieldAt, fieldOf, parseName, parseUid, reading, take } from "./fields.ts";

/** Reads a NetworkBlock; the problem names the object, the field, its value and the fix. */
export const parseNetworkBlock = (object: unknown): Parsed<NetworkBlock> =>
  reading({ kind: "NetworkBlock", object }, (root) => {
    const grant = takeGrant(fieldOf(root, "spec"));
    const name = take(fieldAt(root, "metadata", "name"), parseName);
    refuseOtherName(name, grant);
    return { ...grant, name, uid: take(fieldAt(root, "metadata", "uid"), parseUid) };
  });

/** The object to create; no owner reference, because garbage collection would free the block while others wait for a proof. */
export const networkBlockObject = (grant: BlockGrant) => ({
  apiVersion: GROUP_VERSION,
  kind: "NetworkBlock",
  metadata: { name: blockName(grant), labels: blockLabels(grant.vpc) },
  spec: grantSpec(grant),
});
