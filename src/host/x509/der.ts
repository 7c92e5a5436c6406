/** Writes DER (X.690) as far as certificates need it. */

import { isIPv4, isIPv6 } from "node:net";

/** One element: tag, length, value. */
export const tlv = (tag: number, value: Uint8Array): Buffer => {
  const length = value.length;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), value]);
  const bytes = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...bytes]), value]);
};

export const sequence = (...parts: readonly Uint8Array[]): Buffer =>
  tlv(0x30, Buffer.concat(parts));

/** Ready-made DER, e.g. an object identifier. */
export const raw = (hex: string): Buffer => Buffer.from(hex, "hex");

/** A certificate's moment: UTCTime until 2049, GeneralizedTime from then on (RFC 5280, 4.1.2.5). */
export const time = (unixMs: number): Buffer => {
  const text = new Date(unixMs).toISOString().replaceAll(/[-:T]/gu, "").slice(0, 14);
  return text < "2050"
    ? tlv(0x17, Buffer.from(`${text.slice(2)}Z`))
    : tlv(0x18, Buffer.from(`${text}Z`));
};

/** A name or address of a subjectAltName (RFC 5280, 4.2.1.6). */
export const alternativeName = (host: string): Buffer => {
  if (isIPv4(host)) return tlv(0x87, Buffer.from(host.split(".").map(Number)));
  if (isIPv6(host)) return tlv(0x87, ipv6Bytes(host));
  return tlv(0x82, Buffer.from(host));
};

const ipv6Bytes = (address: string): Buffer => {
  const [head = "", tail] = address.split("::");
  const words = (text: string | undefined): string[] =>
    text === undefined || text === "" ? [] : text.split(":");
  const left = words(head);
  const right = words(tail);
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => "0");
  const all = [...left, ...zeros, ...right].map((word) => word.padStart(4, "0"));
  return Buffer.from(all.join(""), "hex");
};

/** An X.509 extension (RFC 5280, 4.2). */
export const extension = (
  type: string,
  value: Uint8Array,
  options: { readonly isCritical?: boolean } = {},
): Buffer => {
  const critical = options.isCritical === true ? [raw("0101ff")] : [];
  return sequence(raw(type), ...critical, tlv(0x04, value));
};

/** The text form of a certificate (RFC 7468). */
export const certificatePem = (der: Uint8Array): string => {
  const lines =
    Buffer.from(der)
      .toString("base64")
      .match(/.{1,64}/gu) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
};
