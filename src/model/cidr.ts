/** CIDR blocks as canonical text, their strict parser, and what two blocks are to each other (RFC 4632, RFC 4291). */

import type { Brand } from "./brand.ts";
import {
  bigintToIp,
  bitsOf,
  familyOf,
  ipToBigint,
  isMapped,
  readIp,
  type Family,
  type IpAddress,
} from "./ip.ts";
import { parsed, problem, type Parsed } from "./parsed.ts";
import { quoted } from "./quoted.ts";

/** Canonical text `address/length` without host bits. */
export type Cidr = Brand<string, "Cidr">;

export interface CidrParts {
  readonly family: Family;
  /** The first address. */
  readonly base: bigint;
  /** Prefix length in bits. */
  readonly length: number;
}

/** The longest text of a block, with room for the length. */
const TEXT_CHARS_MAX = 50;

/** A block and its parts, for work on many blocks: each text is taken apart once. */
export interface KnownCidr {
  readonly cidr: Cidr;
  readonly parts: CidrParts;
}

export const knownCidr = (cidr: Cidr): KnownCidr => ({ cidr, parts: cidrParts(cidr) });

/** Prints parts as a block; host bits of `base` are cleared. */
export const cidrFromParts = ({ family, base, length }: CidrParts): Cidr =>
  `${bigintToIp(clearHostBits({ family, base, length }), family)}/${length}` as Cidr;

/** Takes a canonical block apart. */
export const cidrParts = (cidr: Cidr): CidrParts => {
  const slash = cidr.indexOf("/");
  const ip = cidr.slice(0, slash) as IpAddress;
  return { family: familyOf(ip), base: ipToBigint(ip), length: Number(cidr.slice(slash + 1)) };
};

/** The block that holds `ip` alone: /32 or /128. */
export const hostCidr = (ip: IpAddress): Cidr => `${ip}/${bitsOf(familyOf(ip))}` as Cidr;

/** How many addresses a block has. */
export const sizeOf = (cidr: Cidr): bigint => sizeOfParts(cidrParts(cidr));

/** The address at `index` from the block's first one; null: outside of the block. */
export const addressAt = (cidr: Cidr, index: bigint | number): IpAddress | null => {
  const parts = cidrParts(cidr);
  const offset = BigInt(index);
  if (offset < 0n || offset >= sizeOfParts(parts)) return null;
  return bigintToIp(parts.base + offset, parts.family);
};

export const containsCidr = (blocks: { readonly outer: Cidr; readonly inner: Cidr }): boolean =>
  partsContain({ outer: cidrParts(blocks.outer), inner: cidrParts(blocks.inner) });

export const containsIp = (cidr: Cidr, ip: IpAddress): boolean =>
  containsCidr({ outer: cidr, inner: hostCidr(ip) });

/** True when an address is in both. */
export const overlaps = (a: Cidr, b: Cidr): boolean => intersect(a, b) !== null;

/** The addresses in both: always the smaller block or nothing. */
export const intersect = (a: Cidr, b: Cidr): Cidr | null =>
  intersectKnown(knownCidr(a), knownCidr(b))?.cidr ?? null;

export const intersectKnown = (a: KnownCidr, b: KnownCidr): KnownCidr | null => {
  if (partsContain({ outer: a.parts, inner: b.parts })) return b;
  return partsContain({ outer: b.parts, inner: a.parts }) ? a : null;
};

/** True when `inner` is a part of, or equal to, `outer`. */
export const partsContain = (blocks: {
  readonly outer: CidrParts;
  readonly inner: CidrParts;
}): boolean => {
  const { outer, inner } = blocks;
  if (outer.family !== inner.family || outer.length > inner.length) return false;
  const hostBits = BigInt(bitsOf(outer.family) - outer.length);
  return outer.base >> hostBits === inner.base >> hostBits;
};

/** Orders blocks by family, first address, then the larger block first. */
export const compareCidrs = (a: Cidr, b: Cidr): number => compareParts(cidrParts(a), cidrParts(b));

export const compareParts = (a: CidrParts, b: CidrParts): number => {
  if (a.family !== b.family) return a.family - b.family;
  if (a.base !== b.base) return a.base < b.base ? -1 : 1;
  return a.length - b.length;
};

/** How many addresses a block has. */
export const sizeOfParts = ({ family, length }: CidrParts): bigint =>
  1n << BigInt(bitsOf(family) - length);

/**
 * Reads a block strictly: no leading zeros, host bits, short forms, white space, brackets, zones or IPv4-mapped IPv6,
 * and only the canonical spelling. The suggestion is the canonical spelling where it is clear what was meant.
 */
export const parseCidr = (text: unknown): Parsed<Cidr> => {
  if (typeof text !== "string") return problem(`a CIDR must be text, found ${quoted(text)}`);
  const refuse = (why: string, suggestion?: string): Parsed<never> =>
    problem(`${quoted(text)} is not a canonical CIDR: ${why}`, suggestion);
  if (text.length > TEXT_CHARS_MAX) return refuse("it is too long");
  const slash = text.indexOf("/");
  if (slash === -1) {
    return refuse("the prefix length is missing (a single address is /32 or /128)");
  }
  const [ipText, lengthText] = [text.slice(0, slash), text.slice(slash + 1)];
  const ip = readIp(ipText);
  if (typeof ip === "string") return refuse(ip, guess(text));
  const length = readLength(lengthText, ip.family);
  if (typeof length === "string") return refuse(length, guess(text));
  if (isMapped(ip)) return refuse("IPv4-mapped IPv6 is not allowed", guess(text));
  const canonical = cidrFromParts({ family: ip.family, base: ip.value, length });
  if (clearHostBits({ family: ip.family, base: ip.value, length }) !== ip.value) {
    return refuse("bits are set after the prefix", canonical);
  }
  if (canonical !== text) return refuse("it is not in the shortest spelling", canonical);
  return parsed(canonical);
};

const clearHostBits = ({ family, base, length }: CidrParts): bigint => {
  const hostBits = BigInt(bitsOf(family) - length);
  return (base >> hostBits) << hostBits;
};

/** A number, or the reason why not. */
const readLength = (text: string, family: Family): number | string => {
  if (text === "") return "the prefix length is missing";
  if (!/^[0-9]{1,4}$/.test(text)) return "the prefix length must be a decimal number";
  if (text.length > 1 && text.startsWith("0")) return "the prefix length has a leading zero";
  const length = Number(text);
  return length > bitsOf(family)
    ? `the prefix length of IPv${family} is at most ${bitsOf(family)}`
    : length;
};

/**
 * What was probably meant by a refused spelling; undefined where there is more than one reading. A leading zero in an
 * IPv4 number is such a case: octal to some programs, decimal to others.
 */
const guess = (text: string): string | undefined => {
  const match = /^([^/%]*)(?:%[^/]*)?\/0*([0-9]{1,3})$/.exec(text.trim().replace(/[[\]]/g, ""));
  if (match === null) return undefined;
  const [, ipText = "", lengthText = ""] = match;
  const ip = readIp(lengthenIpv4(ipText.trim()));
  if (typeof ip === "string" || Number(lengthText) > bitsOf(ip.family)) return undefined;
  const length = Number(lengthText);
  if (!isMapped(ip)) return cidrFromParts({ family: ip.family, base: ip.value, length });
  if (length < 96) return undefined;
  return cidrFromParts({ family: 4, base: ip.value & 0xffffffffn, length: length - 96 });
};

/** `10` and `10.1` are written for `10.0.0.0` and `10.1.0.0` where a length follows. */
const lengthenIpv4 = (text: string): string => {
  if (!/^[0-9]+(\.[0-9]+){0,2}$/.test(text)) return text;
  return [...text.split("."), "0", "0", "0"].slice(0, 4).join(".");
};
