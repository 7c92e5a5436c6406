/** Values in nft's JSON, as libnftables-json(5) defines them: address sets, ranges, prefixes and payload fields. */

import { mergeCidrs } from "#src/model/cidr-set.ts";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { bigintToIp, familyOf, ipToBigint, parseIp } from "#src/model/ip.ts";

export type Json = Readonly<Record<string, unknown>>;

/** Which address of a packet is meant. */
export function readPlace(
  left: Json | null,
): { readonly field: string; readonly family: 4 | 6 } | null {
  const payload = object(left?.["payload"]);
  const family = payload?.["protocol"] === "ip" ? 4 : payload?.["protocol"] === "ip6" ? 6 : null;
  const field = payload?.["field"];
  return family === null || typeof field !== "string" ? null : { field, family };
}

/** All addresses of a set, or of a single value; null: something else is in it. */
export function readCidrs(right: unknown): readonly Cidr[] | null {
  const elements = object(right)?.["set"] === undefined ? [right] : list(object(right)?.["set"]);
  const cidrs: Cidr[] = [];
  for (const element of elements) {
    const read = readElement(element);
    if (read === null) return null;
    cidrs.push(...read);
  }
  return mergeCidrs(cidrs);
}

/** An address, a prefix or a range; nft prints what it merged as ranges. */
function readElement(element: unknown): readonly Cidr[] | null {
  if (typeof element === "string") return rangeCidrs(element, element);
  const prefix = object(object(element)?.["prefix"]);
  if (prefix !== null) return prefixCidrs(prefix["addr"], prefix["len"]);
  const [from, to] = list(object(element)?.["range"]);
  return typeof from === "string" && typeof to === "string" ? rangeCidrs(from, to) : null;
}

/** nft spells like inet_ntop(3), e.g. `::8.0.0.0`, so the address is read before its CIDR is made. */
function prefixCidrs(address: unknown, length: unknown): readonly Cidr[] | null {
  const ip = parseIp(address);
  if (!ip.ok || typeof length !== "number") return null;
  const cidr = parseCidr(`${ip.value}/${length}`);
  return cidr.ok ? [cidr.value] : null;
}

function rangeCidrs(from: string, to: string): readonly Cidr[] | null {
  const [first, last] = [parseIp(from), parseIp(to)];
  if (!first.ok || !last.ok || familyOf(first.value) !== familyOf(last.value)) return null;
  const family = familyOf(first.value);
  const width = family === 4 ? 32 : 128;
  const end = ipToBigint(last.value);
  const cidrs: Cidr[] = [];
  for (let at = ipToBigint(first.value); at <= end;) {
    let bits = 0;
    while (bits < width && isBlock({ at, bits: bits + 1, end })) bits++;
    const cidr = parseCidr(`${bigintToIp(at, family)}/${width - bits}`);
    if (!cidr.ok) return null;
    cidrs.push(cidr.value);
    at += 1n << BigInt(bits);
  }
  return cidrs;
}

const isBlock = (block: { at: bigint; bits: number; end: bigint }): boolean => {
  const size = 1n << BigInt(block.bits);
  return block.at % size === 0n && block.at + size - 1n <= block.end;
};

/** Null: not an object. */
export const object = (value: unknown): Json | null =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : null;

/** Empty: not a list. */
export const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
