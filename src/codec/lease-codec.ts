/** The coordination.k8s.io/v1 `Lease` that is a gateway's claim of a slot (docs/objects.md). */

import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import { parseSlot, type Slot } from "#src/model/slot.ts";
import { formatMicroTimestamp, formatTimestamp, parseTimestamp } from "#src/model/timestamp.ts";
import {
  fieldAtIfPresent,
  fieldOf,
  isAbsent,
  parseName,
  parseWhole,
  reading,
  take,
  takeOr,
} from "./fields.ts";

/** A claim is good for this long after each renewal. */
export const SLOT_LEASE_SECONDS = 40 * 60;

const TUNNEL_LABEL = "xylem.dev/tunnel";
const GATEWAY_NAME = "xylem.dev/gateway-name";
const LAST_HANDSHAKE = "xylem.dev/last-handshake";
const IDENTITY_CHARS_MAX = 253;

export interface SlotLease {
  readonly tunnel: string;
  readonly slot: Slot;
  /** Null: released. */
  readonly holder: string | null;
  /** The holder's name for people; its identity where it gave none. */
  readonly gatewayName: string | null;
  /** Milliseconds since 1970 at which the claim ends. */
  readonly expiresMs: number;
  /** Milliseconds since 1970 of the holder's last handshake when it wrote the Lease; null: it said none. */
  readonly lastHandshakeMs: number | null;
}

/** `<tunnel>-xylem-slot-<n>`. */
export const slotLeaseName = (tunnel: string, slot: Slot): string => `${tunnel}-xylem-slot-${slot}`;

/** Reads a slot's Lease; other Leases of the namespace are a problem. */
export const parseSlotLease = (object: unknown): Parsed<SlotLease> =>
  reading({ kind: "Lease", object }, (root) => {
    const { tunnel, slot } = take(fieldAtIfPresent(root, "metadata", "name"), parseLeaseName);
    const spec = fieldOf(root, "spec");
    const field = fieldOf(spec, "holderIdentity");
    const holder = isAbsent(field) || field.value === "" ? null : take(field, parseIdentity);
    const renewMs = takeOr({
      field: fieldOf(spec, "renewTime"),
      parse: parseTimestamp,
      standard: 0,
    });
    const seconds = takeOr({
      field: fieldOf(spec, "leaseDurationSeconds"),
      parse: parseWhole({ min: 0, max: 2 ** 31 - 1 }),
      standard: 0,
    });
    const gatewayName = takeOr<string | null>({
      field: fieldAtIfPresent(root, "metadata", "annotations", GATEWAY_NAME),
      parse: parseIdentity,
      standard: holder,
    });
    const expiresMs = renewMs + seconds * 1000;
    // Only for people to see: what can't be read must not hide who holds the slot.
    const handshake = parseTimestamp(
      fieldAtIfPresent(root, "metadata", "annotations", LAST_HANDSHAKE).value,
    );
    const lastHandshakeMs = handshake.ok ? handshake.value : null;
    return { tunnel, slot, holder, gatewayName, expiresMs, lastHandshakeMs };
  });

/** Prints the Lease of a claim that begins or is renewed at `nowMs` (since 1970). */
export const slotLeaseObject = (claim: {
  readonly namespace: string;
  readonly tunnel: string;
  readonly slot: Slot;
  readonly holder: string;
  readonly gatewayName: string;
  readonly acquiredMs: number;
  readonly nowMs: number;
  /** Null: none since the gateway started. */
  readonly lastHandshakeMs: number | null;
}) => ({
  apiVersion: "coordination.k8s.io/v1",
  kind: "Lease",
  metadata: {
    namespace: claim.namespace,
    name: slotLeaseName(claim.tunnel, claim.slot),
    labels: { [TUNNEL_LABEL]: claim.tunnel, "app.kubernetes.io/managed-by": "xylem" },
    annotations: {
      [GATEWAY_NAME]: claim.gatewayName,
      ...(claim.lastHandshakeMs === null
        ? {}
        : { [LAST_HANDSHAKE]: formatTimestamp(claim.lastHandshakeMs) }),
    },
  },
  spec: {
    holderIdentity: claim.holder,
    leaseDurationSeconds: SLOT_LEASE_SECONDS,
    acquireTime: formatMicroTimestamp(claim.acquiredMs),
    renewTime: formatMicroTimestamp(claim.nowMs),
  },
});

const parseLeaseName = (value: unknown): Parsed<{ tunnel: string; slot: Slot }> => {
  const refuse = () => problem(`${quoted(value)} is not the name of a slot's Lease`);
  const match =
    typeof value === "string" ? /^(.{1,253})-xylem-slot-([0-9]{1,3})$/.exec(value) : null;
  if (match === null) return refuse();
  const tunnel = parseName(match[1]);
  const slot = parseSlot(Number(match[2]));
  if (!tunnel.ok || !slot.ok || String(slot.value) !== match[2]) return refuse();
  return parsed({ tunnel: tunnel.value, slot: slot.value });
};

const parseIdentity = (value: unknown): Parsed<string> =>
  typeof value === "string" && value.length <= IDENTITY_CHARS_MAX && /^[!-~]+$/.test(value)
    ? parsed(value)
    : problem(`must be a name without blanks, found ${quoted(value)}`);
