/** `AddressMaps` of xylem.dev/v1alpha1: the one list of a seed's address maps (docs/decisions/address-maps.md). */

import type { AddressMapLedger, StoredMap } from "#src/model/address-map.ts";
import { CidrIndex } from "#src/model/cidr-index.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { takeMap } from "./address-map-fields.ts";
import { GROUP_VERSION } from "./allocation-fields.ts";
import {
  fieldAt,
  fieldOf,
  FieldProblem,
  isAbsent,
  itemsOf,
  parseName,
  parseUid,
  reading,
  take,
  type Field,
} from "./fields.ts";

/** As the schema has it; what is added stops before (address-map-plan.ts). */
const ENTRIES_MAX = 4096;

/** Reads AddressMaps; a mapped block has one owner, or nothing of the list is believed. */
export const parseAddressMaps = (object: unknown): Parsed<AddressMapLedger> =>
  reading({ kind: "AddressMaps", object }, (root) => {
    const version = fieldAt(root, "metadata", "resourceVersion");
    const entries = itemsOf(fieldAt(root, "spec", "entries"), { max: ENTRIES_MAX }).map(takeEntry);
    refuseTwoOwners(entries);
    return {
      name: take(fieldAt(root, "metadata", "name"), parseName),
      resourceVersion: isAbsent(version) ? null : String(version.value),
      entries,
    };
  });

const takeEntry = (item: Field): StoredMap => {
  const tunnel = fieldOf(item, "tunnel");
  return {
    ...takeMap(item),
    tunnel: {
      namespace: take(fieldOf(tunnel, "namespace"), parseName),
      name: take(fieldOf(tunnel, "name"), parseName),
      uid: take(fieldOf(tunnel, "uid"), parseUid),
    },
  };
};

const refuseTwoOwners = (entries: readonly StoredMap[]): void => {
  const taken = new CidrIndex<StoredMap>();
  for (const [at, entry] of entries.entries()) {
    const other = taken.firstOverlap(entry.mapped);
    if (other !== null) {
      throw new FieldProblem(
        `spec.entries[${at}].mapped ${entry.mapped} overlaps ${other.cidr}, which stands for ${other.holder.real} of Tunnel ${other.holder.tunnel.namespace}/${other.holder.tunnel.name}: remove the later one`,
      );
    }
    taken.add(entry.mapped, entry);
  }
};

/** Prints the object; `resourceVersion` null makes it anew. */
export const addressMapsObject = ({ name, resourceVersion, entries }: AddressMapLedger) => ({
  apiVersion: GROUP_VERSION,
  kind: "AddressMaps",
  metadata: {
    name,
    labels: { "app.kubernetes.io/managed-by": "xylem" },
    ...(resourceVersion === null ? {} : { resourceVersion }),
  },
  spec: { entries: entries.map(entryFields) },
});

const entryFields = ({ real, mapped, tunnel: { namespace, name, uid } }: StoredMap) => ({
  mapped,
  real,
  tunnel: { namespace, name, uid },
});
