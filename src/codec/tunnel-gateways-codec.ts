/** `TunnelGateways` of xylem.dev/v1alpha1: what the shoot is told of its seed's gateways (docs/objects.md). */

import type { AddressMap } from "#src/model/address-map.ts";
import { addressAt, type Cidr } from "#src/model/cidr.ts";
import { parseIp } from "#src/model/ip.ts";
import { parsePublicKey, type PublicKey } from "#src/model/key.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { parseSlot } from "#src/model/slot.ts";
import type { GatewaySlot, Tunnel, TunnelGateways } from "#src/model/tunnel.ts";
import { takeMaps } from "./address-map-fields.ts";
import { fieldOf, FieldProblem, itemsOf, reading, take, type Field } from "./fields.ts";
import { refuseOutsideTransit, takeRanges } from "./range-fields.ts";
import { parseMtu } from "./tunnel-codec.ts";

const SLOTS_MAX = 256;
/** One address a family. */
const SLOT_ADDRESSES_MAX = 2;

/**
 * The annotation that the controller sets to "true" just before it takes the object away. One that goes without it was
 * deleted by somebody else, and perhaps can only come back through the tunnel (catalogue S3).
 */
export const WITHDRAWN = "xylem.dev/withdrawn";

/** Reads TunnelGateways; slots, keys and addresses must each be unique. */
export const parseTunnelGateways = (object: unknown): Parsed<TunnelGateways> =>
  reading({ kind: "TunnelGateways", object }, (root) => {
    const spec = fieldOf(root, "spec");
    const { ranges, transit } = takeRanges({
      ranges: fieldOf(spec, "ranges"),
      transit: fieldOf(spec, "transit"),
      transitStandard: null,
    });
    const items = itemsOf(fieldOf(spec, "slots"), { max: SLOTS_MAX });
    if (items.length === 0)
      throw new FieldProblem("spec.slots is empty: it needs at least one slot");
    const slots = items.map((item) => takeSlot(item, transit));
    refuseTwice(slots.map(({ slot }) => `slot ${slot}`));
    refuseTwice(slots.map(({ publicKey }) => `public key ${publicKey}`));
    refuseTwice(slots.flatMap(({ addresses }) => addresses.map((ip) => `transit address ${ip}`)));
    const mtu = take(fieldOf(spec, "mtu"), parseMtu);
    return { slots, transit, ranges, mtu, maps: takeMaps(fieldOf(spec, "maps")) };
  });

const takeSlot = (item: Field, transit: readonly Cidr[]): GatewaySlot => {
  const addresses = itemsOf(fieldOf(item, "addresses"), { max: SLOT_ADDRESSES_MAX }).map(
    (field) => {
      const address = take(field, parseIp);
      refuseOutsideTransit({ path: field.path, address, transit });
      return address;
    },
  );
  if (addresses.length === 0) throw new FieldProblem(`${item.path}.addresses is empty`);
  return {
    slot: take(fieldOf(item, "slot"), parseSlot),
    publicKey: take(fieldOf(item, "publicKey"), parsePublicKey),
    addresses,
  };
};

const refuseTwice = (things: readonly string[]): void => {
  const twice = things.find((thing, at) => things.indexOf(thing) !== at);
  if (twice !== undefined) throw new FieldProblem(`spec.slots has ${twice} twice`);
};

/** Prints the one object `kube-system/xylem`; `keys[i]` is the public key of slot `i`, one for each slot of the tunnel. */
export const tunnelGatewaysObject = (options: {
  readonly tunnel: Tunnel;
  readonly keys: readonly PublicKey[];
  readonly maps: readonly AddressMap[];
}) => {
  const { tunnel, keys, maps } = options;
  return {
    apiVersion: "xylem.dev/v1alpha1",
    kind: "TunnelGateways",
    metadata: {
      namespace: "kube-system",
      name: "xylem",
      labels: { "app.kubernetes.io/managed-by": "xylem" },
    },
    spec: {
      slots: keys.map((publicKey, slot) => ({
        slot,
        publicKey,
        addresses: tunnel.transit
          .map((cidr) => addressAt(cidr, slot + 1))
          .filter((address) => address !== null),
      })),
      transit: tunnel.transit,
      ranges: tunnel.ranges,
      mtu: tunnel.mtu,
      // Left out where there is none, so that a shoot whose definition is older takes the rest as it was.
      ...(maps.length === 0 ? {} : { maps: maps.map(({ real, mapped }) => ({ real, mapped })) }),
    },
  };
};
