/** Writes X.509 certificates for the lab's keys (RFC 5280, DER of X.690), so that no openssl process is needed. */

import { createHash, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { isIPv4, isIPv6 } from "node:net";

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

const daysValid = 30;
const oid = {
  commonName: "0603550403",
  organization: "060355040a",
  ecdsaWithSha256: "06082a8648ce3d040302",
  subjectKeyId: "0603551d0e",
  keyUsage: "0603551d0f",
  altName: "0603551d11",
  basicConstraints: "0603551d13",
  authorityKeyId: "0603551d23",
  extendedKeyUsage: "0603551d25",
  serverAuth: "06082b06010505070301",
  clientAuth: "06082b06010505070302",
} as const;

/** A P-256 authority of one cluster; its certificates are good for 30 days, as client and as server. */
export class Authority {
  readonly certificate: string;
  readonly #key: KeyObject;
  readonly #name: Buffer;
  readonly #keyId: Buffer;

  constructor(commonName: string) {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    this.#key = pair.privateKey;
    this.#name = distinguishedName({ commonName });
    const spki = pair.publicKey.export({ type: "spki", format: "der" });
    this.#keyId = keyIdentifier(spki);
    const extensions = [
      extension(oid.basicConstraints, sequence(Buffer.from("0101ff", "hex")), true),
      extension(oid.keyUsage, Buffer.from("03020106", "hex"), true),
      extension(oid.subjectKeyId, tlv(0x04, this.#keyId)),
    ];
    this.certificate = this.#sign(this.#name, spki, extensions);
  }

  /** Makes a key and its certificate. */
  issue(subject: Subject): Identity {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const spki = pair.publicKey.export({ type: "spki", format: "der" });
    const extensions = [
      extension(oid.keyUsage, Buffer.from("03020780", "hex"), true),
      extension(oid.extendedKeyUsage, sequence(raw(oid.clientAuth), raw(oid.serverAuth))),
      extension(oid.authorityKeyId, sequence(tlv(0x80, this.#keyId))),
    ];
    if (subject.hosts !== undefined && subject.hosts.length > 0) {
      extensions.push(extension(oid.altName, sequence(...subject.hosts.map(altName))));
    }
    return {
      certificate: this.#sign(distinguishedName(subject), spki, extensions),
      key: pair.privateKey.export({ type: "sec1", format: "pem" }).toString(),
    };
  }

  #sign(subject: Buffer, spki: Buffer, extensions: readonly Buffer[]): string {
    const algorithm = sequence(raw(oid.ecdsaWithSha256));
    const now = Date.now();
    const serial = randomBytes(15);
    const body = sequence(
      tlv(0xa0, Buffer.from("020102", "hex")),
      tlv(0x02, Buffer.concat([Buffer.from([0x4d]), serial])),
      algorithm,
      this.#name,
      sequence(utcTime(now - 3600_000), utcTime(now + daysValid * 86_400_000)),
      subject,
      spki,
      tlv(0xa3, sequence(...extensions)),
    );
    const signature = sign("sha256", body, this.#key);
    const bits = tlv(0x03, Buffer.concat([Buffer.from([0]), signature]));
    return pem(sequence(body, algorithm, bits));
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

function pem(der: Buffer): string {
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

function keyIdentifier(spki: Buffer): Buffer {
  return createHash("sha1").update(spki).digest();
}

function distinguishedName(subject: Subject): Buffer {
  const attribute = (type: string, value: string): Buffer =>
    tlv(0x31, sequence(raw(type), tlv(0x0c, Buffer.from(value))));
  const groups = (subject.organizations ?? []).map((o) => attribute(oid.organization, o));
  return sequence(...groups, attribute(oid.commonName, subject.commonName));
}

function altName(host: string): Buffer {
  if (isIPv4(host)) return tlv(0x87, Buffer.from(host.split(".").map(Number)));
  if (isIPv6(host)) return tlv(0x87, ipv6Bytes(host));
  return tlv(0x82, Buffer.from(host));
}

function ipv6Bytes(address: string): Buffer {
  const [head = "", tail] = address.split("::");
  const words = (text: string | undefined): string[] =>
    text === undefined || text === "" ? [] : text.split(":");
  const left = words(head);
  const right = words(tail);
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => "0");
  const all = [...left, ...zeros, ...right].map((word) => word.padStart(4, "0"));
  return Buffer.from(all.join(""), "hex");
}

function extension(type: string, value: Buffer, isCritical = false): Buffer {
  const critical = isCritical ? [Buffer.from("0101ff", "hex")] : [];
  return sequence(raw(type), ...critical, tlv(0x04, value));
}

function utcTime(unixMs: number): Buffer {
  const text = new Date(unixMs).toISOString().replace(/[-:T]/g, "").slice(2, 14);
  return tlv(0x17, Buffer.from(`${text}Z`));
}

function raw(hex: string): Buffer {
  return Buffer.from(hex, "hex");
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return tlv(0x30, Buffer.concat(parts));
}

function tlv(tag: number, value: Buffer): Buffer {
  const length = value.length;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), value]);
  const bytes = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...bytes]), value]);
}
