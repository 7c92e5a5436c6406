/** X25519 keys as WireGuard uses them: 32 bytes; public ones are canonical base64 text (RFC 4648, 4). */

import type { Brand } from "./brand.ts";
import { parsed, problem, type Parsed } from "./parsed.ts";
import { quoted } from "./quoted.ts";

/** Canonical base64 of exactly 32 bytes: 44 characters. */
export type PublicKey = Brand<string, "PublicKey">;

const KEY_BYTES = 32;
/** 42 free characters, one whose last two bits are zero, one `=`. */
const CANONICAL = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;
/** The all-zero key: WireGuard's word for "no key". */
const NO_KEY = `${"A".repeat(43)}=`;

/** Reads a public key; only the canonical spelling, so that equal keys are equal texts. */
export const parsePublicKey = (text: unknown): Parsed<PublicKey> => {
  if (typeof text !== "string") return problem(`a public key must be text, found ${quoted(text)}`);
  if (!CANONICAL.test(text)) {
    return problem(
      `${quoted(text)} is not a public key: it must be 32 bytes in base64 (44 characters)`,
    );
  }
  if (text === NO_KEY) return problem("a public key of zeros means that there is no key");
  return parsed(text as PublicKey);
};

/** Prints 32 bytes as a public key. */
export const publicKeyFromBytes = (bytes: Uint8Array): Parsed<PublicKey> =>
  bytes.length === KEY_BYTES
    ? parsePublicKey(bytes.toBase64())
    : problem(`a public key has ${KEY_BYTES} bytes, found ${bytes.length}`);

/** The 32 bytes of a public key. */
export const publicKeyBytes = (key: PublicKey): Uint8Array => Uint8Array.fromBase64(key);

/** A clamped X25519 private key that no log, JSON or inspection shows. */
export class PrivateKey {
  readonly #bytes: Uint8Array;

  /** Use `parsePrivateKey`; `bytes` must be clamped and is kept. */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** A copy of the 32 bytes. */
  bytes(): Uint8Array {
    return this.#bytes.slice();
  }

  toString(): string {
    return "[private key]";
  }

  toJSON(): string {
    return "[private key]";
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return "[private key]";
  }
}

/** Takes 32 bytes, clamps a copy of them (RFC 7748, 5) and hides it. */
export const parsePrivateKey = (bytes: Uint8Array): Parsed<PrivateKey> => {
  if (bytes.length !== KEY_BYTES) {
    return problem(`a private key has ${KEY_BYTES} bytes, found ${bytes.length}`);
  }
  if (bytes.every((byte) => byte === 0)) return problem("a private key of zeros is no key");
  const clamped = bytes.slice();
  clamped[0] = (clamped[0] ?? 0) & 248;
  clamped[31] = ((clamped[31] ?? 0) & 127) | 64;
  return parsed(new PrivateKey(clamped));
};
