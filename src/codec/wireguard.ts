/** The first bytes of WireGuard's four messages (whitepaper, section 5.4): enough to see whom one is for. */

export type WireguardMessage = "initiation" | "response" | "cookie" | "data";

/** Shortest lengths in bytes; all but data are exact. */
const LENGTHS: Readonly<Record<WireguardMessage, number>> = {
  initiation: 148,
  response: 92,
  cookie: 64,
  data: 32,
};
const TYPES: readonly WireguardMessage[] = ["initiation", "response", "cookie", "data"];

/** Null: not a WireGuard message. */
export const wireguardMessage = (datagram: Uint8Array): WireguardMessage | null => {
  const kind = TYPES[(datagram[0] ?? 0) - 1];
  if (kind === undefined || datagram[1] !== 0 || datagram[2] !== 0 || datagram[3] !== 0)
    return null;
  const isRightSize =
    kind === "data" ? datagram.length >= LENGTHS.data : datagram.length === LENGTHS[kind];
  return isRightSize ? kind : null;
};

/**
 * The index that steering looks at in a datagram from a gateway. Bytes 4..7 are the sender's index in an initiation and
 * the receiver's in data and cookies; a response has the receiver's at 8..11. Null: not a WireGuard message.
 */
export const steeringIndex = (datagram: Uint8Array): number | null => {
  const kind = wireguardMessage(datagram);
  return kind === null ? null : indexAt(datagram, kind === "response" ? 8 : 4);
};

/** The sender's own index; null: the message has none. */
export const senderIndex = (datagram: Uint8Array): number | null => {
  const kind = wireguardMessage(datagram);
  return kind === "initiation" || kind === "response" ? indexAt(datagram, 4) : null;
};

/** Indices are little-endian. */
const indexAt = (datagram: Uint8Array, offset: number): number =>
  new DataView(datagram.buffer, datagram.byteOffset, datagram.byteLength).getUint32(offset, true);
