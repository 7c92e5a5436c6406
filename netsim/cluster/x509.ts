/** The lab's certificate authorities: one a cluster, certificates good for 30 days as client and as server. */

import { generateKeyPairSync } from "node:crypto";
import {
  Authority as CertificateAuthority,
  type Identity,
  type Subject,
  type Validity,
} from "#src/host/x509/authority.ts";

export type { Identity, Subject } from "#src/host/x509/authority.ts";

const daysValid = 30;

/** From an hour ago, because machines' clocks differ. */
function labValidity(): Validity {
  const now = Date.now();
  return { notBeforeMs: now - 3600_000, notAfterMs: now + daysValid * 86_400_000 };
}

/** A P-256 authority of one cluster. */
export class Authority {
  readonly certificate: string;
  readonly #authority: CertificateAuthority;

  constructor(commonName: string) {
    this.#authority = new CertificateAuthority(commonName, labValidity());
    this.certificate = this.#authority.certificate;
  }

  /** Makes a key and its certificate. */
  issue(subject: Subject): Identity {
    return this.#authority.issue(subject, ["client", "server"], labValidity());
  }
}

/** Makes the key pair that signs and checks service account tokens. */
export function serviceAccountKeys(): { readonly publicKey: string; readonly key: string } {
  const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return {
    publicKey: pair.publicKey.export({ type: "spki", format: "pem" }).toString(),
    key: pair.privateKey.export({ type: "sec1", format: "pem" }).toString(),
  };
}
