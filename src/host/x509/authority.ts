/** A P-256 certificate authority in memory: makes keys and their certificates (RFC 5280), without an openssl process. */

import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { alternativeName, certificatePem, extension, raw, sequence, time, tlv } from "./der.ts";

/** One certificate with its key, both as PEM. */
export interface Identity {
  readonly certificate: string;
  readonly key: string;
}

export interface Subject {
  readonly commonName: string;
  /** Kubernetes reads these as groups. */
  readonly organizations?: readonly string[];
  /** Names and addresses that the holder may serve as. */
  readonly hosts?: readonly string[];
}

/** Milliseconds since 1970; certificates know whole seconds. */
export interface Validity {
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

export type KeyUse = "client" | "server";

const OID = {
  commonName: "0603550403",
  organization: "060355040a",
  ecdsaWithSha256: "06082a8648ce3d040302",
  subjectKeyId: "0603551d0e",
  keyUsage: "0603551d0f",
  alternativeName: "0603551d11",
  basicConstraints: "0603551d13",
  authorityKeyId: "0603551d23",
  extendedKeyUsage: "0603551d25",
} as const;
const USE_OID: Readonly<Record<KeyUse, string>> = {
  server: "06082b06010505070301",
  client: "06082b06010505070302",
};
/** keyCertSign and cRLSign; digitalSignature. */
const SIGNS_CERTIFICATES = raw("03020106");
const SIGNS_HANDSHAKES = raw("03020780");

/** Its key lives in this object only and goes with it. */
export class Authority {
  /** PEM of its own certificate. */
  readonly certificate: string;
  readonly #key: KeyObject;
  readonly #name: Buffer;
  readonly #keyId: Buffer;

  constructor(commonName: string, validity: Validity) {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    this.#key = pair.privateKey;
    this.#name = distinguishedName({ commonName });
    const spki = pair.publicKey.export({ type: "spki", format: "der" });
    this.#keyId = createHash("sha1").update(spki).digest();
    const extensions = [
      extension(OID.basicConstraints, sequence(raw("0101ff")), { isCritical: true }),
      extension(OID.keyUsage, SIGNS_CERTIFICATES, { isCritical: true }),
      extension(OID.subjectKeyId, tlv(0x04, this.#keyId)),
    ];
    this.certificate = this.#sign({ subject: this.#name, spki, extensions, validity });
  }

  /** Makes a key and its certificate. */
  issue(subject: Subject, uses: readonly KeyUse[], validity: Validity): Identity {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const spki = pair.publicKey.export({ type: "spki", format: "der" });
    const extensions = [
      extension(OID.keyUsage, SIGNS_HANDSHAKES, { isCritical: true }),
      extension(OID.extendedKeyUsage, sequence(...uses.map((use) => raw(USE_OID[use])))),
      extension(OID.authorityKeyId, sequence(tlv(0x80, this.#keyId))),
    ];
    if (subject.hosts !== undefined && subject.hosts.length > 0) {
      const names = sequence(...subject.hosts.map(alternativeName));
      extensions.push(extension(OID.alternativeName, names));
    }
    return {
      certificate: this.#sign({ subject: distinguishedName(subject), spki, extensions, validity }),
      key: pair.privateKey.export({ type: "sec1", format: "pem" }).toString(),
    };
  }

  #sign(wanted: {
    readonly subject: Buffer;
    readonly spki: Buffer;
    readonly extensions: readonly Buffer[];
    readonly validity: Validity;
  }): string {
    const algorithm = sequence(raw(OID.ecdsaWithSha256));
    const { notBeforeMs, notAfterMs } = wanted.validity;
    // A positive number, whatever the random bytes (RFC 5280, 4.1.2.2).
    const serial = Buffer.concat([Buffer.from([0x4d]), randomBytes(15)]);
    const body = sequence(
      tlv(0xa0, raw("020102")),
      tlv(0x02, serial),
      algorithm,
      this.#name,
      sequence(time(notBeforeMs), time(notAfterMs)),
      wanted.subject,
      wanted.spki,
      tlv(0xa3, sequence(...wanted.extensions)),
    );
    const signature = sign("sha256", body, this.#key);
    const bits = tlv(0x03, Buffer.concat([Buffer.from([0]), signature]));
    return certificatePem(sequence(body, algorithm, bits));
  }
}

const distinguishedName = (subject: Subject): Buffer => {
  const attribute = (type: string, value: string): Buffer =>
    tlv(0x31, sequence(raw(type), tlv(0x0c, Buffer.from(value))));
  const groups = (subject.organizations ?? []).map((o) => attribute(OID.organization, o));
  return sequence(...groups, attribute(OID.commonName, subject.commonName));
};
