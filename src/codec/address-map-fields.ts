/** Lists of address maps as a Tunnel's status and TunnelGateways carry them (docs/objects.md). */

import { isMappable, type AddressMap } from "#src/model/address-map.ts";
import { parseCidr } from "#src/model/cidr.ts";
import type { Parsed } from "#src/model/parsed.ts";
import {
  fieldAtIfPresent,
  FieldProblem,
  itemsOf,
  fieldOf,
  reading,
  take,
  type Field,
} from "./fields.ts";

/** Approved and transit ranges of a tunnel, and room for what it had before. */
export const MAPS_MAX = 256;

/** Reads a list of maps; an absent one is empty. */
export const takeMaps = (field: Field): readonly AddressMap[] =>
  itemsOf(field, { max: MAPS_MAX }).map(takeMap);

/** Reads one map: two blocks of one size. */
export const takeMap = (item: Field): AddressMap => {
  const map = {
    real: take(fieldOf(item, "real"), parseCidr),
    mapped: take(fieldOf(item, "mapped"), parseCidr),
  };
  if (isMappable(map)) return map;
  throw new FieldProblem(
    `${item.path} maps ${map.real} to ${map.mapped}: both must be of one family and have the same prefix length`,
  );
};

/** Reads what the controller published in `status.addressMaps` of a Tunnel. */
export const parseTunnelMaps = (object: unknown): Parsed<readonly AddressMap[]> =>
  reading({ kind: "Tunnel", object }, (root) =>
    takeMaps(fieldAtIfPresent(root, "status", "addressMaps")),
  );
