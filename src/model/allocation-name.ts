/** The name of a `NetworkBlock`: a canonical CIDR and its VPC as an RFC 1123 subdomain, one name for one pair. */

import { cidrFromParts, cidrParts, parseCidr, type Cidr } from "./cidr.ts";
import { parsed, problem, type Parsed } from "./parsed.ts";
import { quoted } from "./quoted.ts";

/** A DNS label (RFC 1123). It has no dot, so the last dot of a block's name is where the VPC begins. */
const VPC = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const GROUPS = 8;
/** `10.0.0.0-16` */
const NAME_V4 = /^((?:[0-9]{1,3}\.){3}[0-9]{1,3})-([0-9]{1,2})$/;
/** `fd00-10-0-0-0-0-0-0-64` */
const NAME_V6 = /^((?:[0-9a-f]{1,4}-){7}[0-9a-f]{1,4})-([0-9]{1,3})$/;

/** The name of a network domain. */
export const parseVpc = (value: unknown): Parsed<string> =>
  typeof value === "string" && VPC.test(value)
    ? parsed(value)
    : problem(
        `a VPC is a DNS label of at most 63 lower-case letters, digits and hyphens, found ${quoted(value)}`,
      );

/**
 * `10.0.0.0-16.vpc-a`, `fd00-10-0-0-0-0-0-0-64.vpc-a`: `/` becomes a hyphen, and IPv6 is written with all eight groups,
 * because `::` can't be part of a name. At most 107 characters.
 */
export const blockName = (block: { readonly cidr: Cidr; readonly vpc: string }): string => {
  const { family, base, length } = cidrParts(block.cidr);
  if (family === 4) return `${block.cidr.replace("/", "-")}.${block.vpc}`;
  const groups = Array.from({ length: GROUPS }, (_, at) =>
    ((base >> BigInt(16 * (GROUPS - 1 - at))) & 0xffffn).toString(16),
  );
  return `${groups.join("-")}-${length}.${block.vpc}`;
};

/** Reads what `blockName` printed. */
export const parseBlockName = (
  value: unknown,
): Parsed<{ readonly cidr: Cidr; readonly vpc: string }> => {
  const refused = problem(
    `${quoted(value)} is not the name of a block: it must be like 10.0.0.0-16.vpc-a or fd00-10-0-0-0-0-0-0-64.vpc-a`,
  );
  if (typeof value !== "string") return refused;
  const dot = value.lastIndexOf(".");
  const [range, vpc] = [value.slice(0, dot), parseVpc(value.slice(dot + 1))];
  const cidr = readRange(range);
  if (!vpc.ok || cidr === null) return refused;
  const block = { cidr, vpc: vpc.value };
  return blockName(block) === value ? parsed(block) : refused;
};

const readRange = (text: string): Cidr | null => {
  const v4 = NAME_V4.exec(text);
  if (v4 !== null) {
    const read = parseCidr(`${v4[1]}/${v4[2]}`);
    return read.ok ? read.value : null;
  }
  const [, groups = "", length = ""] = NAME_V6.exec(text) ?? [];
  if (groups === "" || Number(length) > 128) return null;
  const base = groups.split("-").reduce((sum, group) => (sum << 16n) | BigInt(`0x${group}`), 0n);
  const read = parseCidr(cidrFromParts({ family: 6, base, length: Number(length) }));
  return read.ok ? read.value : null;
};
