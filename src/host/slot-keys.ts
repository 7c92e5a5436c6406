/** Keys of gateway slots from a tunnel's master secret (HKDF, RFC 5869; X25519, RFC 7748; docs/objects.md). */

import { createPrivateKey, createPublicKey, hkdfSync } from "node:crypto";
import {
  type PrivateKey,
  type PublicKey,
  parsePrivateKey,
  publicKeyFromBytes,
} from "#src/model/key.ts";
import { type Parsed, problem } from "#src/model/parsed.ts";
import type { Slot } from "#src/model/slot.ts";

/** Length of a tunnel's master secret. */
export const MASTER_BYTES = 32;

/** PKCS #8 of an X25519 private key up to its 32 bytes (RFC 8410, 7). */
const PKCS8_PREFIX = Uint8Array.fromHex("302e020100300506032b656e04220420");

/** Derives a slot's private key; a problem when `master` is not 32 bytes. */
export const slotPrivateKey = (master: Uint8Array, slot: Slot): Parsed<PrivateKey> => {
  if (master.length !== MASTER_BYTES) {
    return problem(
      `a tunnel's master secret has ${MASTER_BYTES} bytes, found ${master.length}: delete the Secret, and the controller makes it anew`,
    );
  }
  const key = hkdfSync("sha256", master, "", `xylem slot key v1 ${slot}`, 32);
  return parsePrivateKey(new Uint8Array(key));
};

/** The public half of a key. */
export const publicKeyOf = (privateKey: PrivateKey): PublicKey => {
  const der = Buffer.concat([PKCS8_PREFIX, privateKey.bytes()]);
  const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  der.fill(0);
  const spki = createPublicKey(key).export({ format: "der", type: "spki" });
  const publicKey = publicKeyFromBytes(new Uint8Array(spki.subarray(-32)));
  // X25519 of a clamped key never gives a key of zeros.
  if (!publicKey.ok) throw new Error(publicKey.problem);
  return publicKey.value;
};

/** Reads `data.master` of a tunnel's Secret. */
export const parseMasterSecret = (object: unknown): Parsed<Uint8Array> => {
  const data = member(object, "data");
  const text = member(data, "master");
  const bytes = typeof text === "string" ? Buffer.from(text, "base64") : null;
  return bytes?.length === MASTER_BYTES
    ? { ok: true, value: new Uint8Array(bytes) }
    : problem(
        `data.master of the tunnel's Secret is not ${MASTER_BYTES} bytes in base64: delete the Secret, and the controller makes it anew`,
      );
};

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;
