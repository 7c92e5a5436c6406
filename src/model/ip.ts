/** IP addresses as canonical text: dotted decimal, or RFC 5952 (RFC 4291 is what may be read). */

import type { Brand } from "./brand.ts";
import { parsed, problem, type Parsed } from "./parsed.ts";
import { quoted } from "./quoted.ts";

/** Canonical text of one address; never with a zone, never IPv4-mapped when it came from `parseIp`. */
export type IpAddress = Brand<string, "IpAddress">;

export type Family = 4 | 6;

/** The longest text of an address, `ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255`. */
const TEXT_CHARS_MAX = 45;
const GROUPS = 8;
/** ::ffff:0:0/96 without its last 32 bits (RFC 4291, 2.5.5.2). */
const MAPPED_HIGH = 0xffffn;

/** Bits of an address of this family. */
export const bitsOf = (family: Family): 32 | 128 => (family === 4 ? 32 : 128);

export const familyOf = (ip: IpAddress): Family => (ip.includes(":") ? 6 : 4);

/** Prints a number as an address; `value` must fit the family. */
export const bigintToIp = (value: bigint, family: Family): IpAddress =>
  (family === 4 ? printIpv4(value) : printIpv6(value)) as IpAddress;

/** Reads an address that is already canonical; a broken one is a broken invariant. */
export const ipToBigint = (ip: IpAddress): bigint => {
  const read = ip.includes(":") ? readIpv6(ip) : readIpv4(ip);
  if (typeof read === "string") throw new Error(`not a canonical IP address: ${quoted(ip)}`);
  return read;
};

/**
 * Reads one address and makes it canonical (case, zeros of IPv6). Refuses leading zeros and short forms of IPv4,
 * zones, brackets, white space, and IPv4-mapped IPv6.
 */
export const parseIp = (text: unknown): Parsed<IpAddress> => {
  if (typeof text !== "string") return problem(`an IP address must be text, found ${quoted(text)}`);
  const read = readIp(text);
  if (typeof read === "string") return problem(`${quoted(text)} is not an IP address: ${read}`);
  if (isMapped(read)) {
    const plain = bigintToIp(read.value & 0xffffffffn, 4);
    return problem(`${quoted(text)} is an IPv4-mapped IPv6 address: write plain IPv4`, plain);
  }
  return parsed(bigintToIp(read.value, read.family));
};

export interface IpValue {
  readonly family: Family;
  readonly value: bigint;
}

/** True for ::ffff:0:0/96. */
export const isMapped = ({ family, value }: IpValue): boolean =>
  family === 6 && value >> 32n === MAPPED_HIGH;

/** Reads any valid spelling, mapped ones too; a string is the reason why not. */
export const readIp = (text: string): IpValue | string => {
  if (text === "") return "it is empty";
  if (text.length > TEXT_CHARS_MAX) return "it is too long";
  if (text.includes("%")) return "zones are not allowed";
  if (/[[\]]/.test(text)) return "brackets are not allowed";
  if (/\s/.test(text)) return "white space is not allowed";
  const family: Family = text.includes(":") ? 6 : 4;
  const value = family === 6 ? readIpv6(text) : readIpv4(text);
  return typeof value === "string" ? value : { family, value };
};

const readIpv4 = (text: string): bigint | string => {
  if (!/^[0-9.]+$/.test(text)) return "only digits and dots, or an IPv6 address, are allowed";
  const octets = text.split(".");
  if (octets.length !== 4) return "IPv4 has four numbers";
  let value = 0;
  for (const octet of octets) {
    if (octet === "") return "a number is missing";
    if (octet.length > 1 && octet.startsWith("0")) {
      return "leading zeros are not allowed (some programs read them as octal)";
    }
    if (octet.length > 3 || Number(octet) > 255) return `${octet} is above 255`;
    value = value * 256 + Number(octet);
  }
  return BigInt(value);
};

const readIpv6 = (text: string): bigint | string => {
  const halves = text.split("::");
  if (halves.length > 2) return "'::' may appear only once";
  const head = readGroups(halves[0] ?? "", halves.length === 1);
  if (typeof head === "string") return head;
  if (halves.length === 1) {
    return head.length === GROUPS ? joinGroups(head) : "IPv6 has eight groups, or '::'";
  }
  const tail = readGroups(halves[1] ?? "", true);
  if (typeof tail === "string") return tail;
  const missing = GROUPS - head.length - tail.length;
  if (missing < 1) return "it has too many groups";
  return joinGroups([...head, ...Array.from({ length: missing }, () => 0), ...tail]);
};

/** Reads colon-separated groups; dotted decimal may stand for the last two where `mayEndDotted`. */
const readGroups = (text: string, mayEndDotted: boolean): number[] | string => {
  if (text === "") return [];
  const groups: number[] = [];
  const words = text.split(":");
  for (const [at, word] of words.entries()) {
    if (word.includes(".") && mayEndDotted && at === words.length - 1) {
      const v4 = readIpv4(word);
      if (typeof v4 === "string") return v4;
      groups.push(Number(v4 >> 16n), Number(v4 & 0xffffn));
    } else if (/^[0-9a-fA-F]{1,4}$/.test(word)) {
      groups.push(Number.parseInt(word, 16));
    } else {
      return word === "" ? "a group is missing" : "a group has one to four hexadecimal digits";
    }
  }
  return groups;
};

const joinGroups = (groups: readonly number[]): bigint =>
  groups.reduce((value, group) => (value << 16n) | BigInt(group), 0n);

const printIpv4 = (value: bigint): string => {
  const n = Number(value);
  return `${n >>> 24}.${(n >>> 16) & 255}.${(n >>> 8) & 255}.${n & 255}`;
};

const printIpv6 = (value: bigint): string => {
  if (isMapped({ family: 6, value })) return `::ffff:${printIpv4(value & 0xffffffffn)}`;
  const groups = Array.from({ length: GROUPS }, (_, at) =>
    Number((value >> BigInt(16 * (GROUPS - 1 - at))) & 0xffffn),
  );
  const { start, length } = longestZeros(groups);
  const print = (part: readonly number[]) => part.map((group) => group.toString(16)).join(":");
  if (length < 2) return print(groups);
  return `${print(groups.slice(0, start))}::${print(groups.slice(start + length))}`;
};

/** The longest run of zero groups, the first of equals (RFC 5952, 4.2.3). */
const longestZeros = (groups: readonly number[]): { start: number; length: number } => {
  let best = { start: 0, length: 0 };
  let start = 0;
  for (const [at, group] of groups.entries()) {
    if (group !== 0) start = at + 1;
    else if (at + 1 - start > best.length) best = { start, length: at + 1 - start };
  }
  return best;
};
