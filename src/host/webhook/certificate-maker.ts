/** Makes one generation of the webhook's certificates: an authority that signs one leaf and whose key is then forgotten. */

import { createPrivateKey, X509Certificate } from "node:crypto";
import type { CertificateGeneration } from "#src/model/webhook-certificates.ts";
import { Authority } from "#src/host/x509/authority.ts";

/** Clocks of API servers may be behind ours by this. */
const SKEW_MS = 3_600_000;
/** Of both subjects; API servers look at the alternative names only. */
const COMMON_NAME = "xylem-webhook";

/** Makes the keys anew each time; good from an hour before `nowMs` (since 1970) until `validMs` after it. */
export const makeGeneration = (wanted: {
  readonly names: readonly string[];
  readonly nowMs: number;
  readonly validMs: number;
}): CertificateGeneration => {
  const notBeforeMs = wanted.nowMs - SKEW_MS;
  const notAfterMs = wanted.nowMs + wanted.validMs;
  const validity = { notBeforeMs, notAfterMs };
  const authority = new Authority(`${COMMON_NAME}-authority`, validity);
  const names = wanted.names.toSorted();
  const leaf = authority.issue({ commonName: COMMON_NAME, hosts: names }, ["server"], validity);
  return { authority: authority.certificate, ...leaf, names, notBeforeMs, notAfterMs };
};

/** True when the leaf belongs to its key and its authority: what a Secret holds may have been edited by hand. */
export const isSound = ({ authority, certificate, key }: CertificateGeneration): boolean => {
  try {
    const leaf = new X509Certificate(certificate);
    return (
      leaf.checkPrivateKey(createPrivateKey(key)) &&
      leaf.verify(new X509Certificate(authority).publicKey)
    );
  } catch {
    return false;
  }
};
