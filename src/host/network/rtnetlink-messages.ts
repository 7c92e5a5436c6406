/** Encodes and decodes the few rtnetlink messages we use, as rtnetlink(7) and linux/rtnetlink.h define them. */

import { endianness } from "node:os";
import { PACKET_MARK } from "#src/codec/nft.ts";
import { cidrParts, parseCidr, type Cidr } from "#src/model/cidr.ts";
import { bigintToIp, familyOf, ipToBigint, type Family, type IpAddress } from "#src/model/ip.ts";

/** Message types, linux/rtnetlink.h. */
export const RTM = {
  newLink: 16,
  getLink: 18,
  newAddress: 20,
  deleteAddress: 21,
  getAddress: 22,
  newRoute: 24,
  deleteRoute: 25,
  getRoute: 26,
  newRule: 32,
  deleteRule: 33,
  getRule: 34,
} as const;

/** Header flags, linux/netlink.h. */
export const NLM = {
  multi: 0x2,
  dumpInterrupted: 0x10,
  replace: 0x100,
  dump: 0x300,
  exclusive: 0x200,
  create: 0x400,
} as const;

/** Error message type, linux/netlink.h. */
export const NLMSG_ERROR = 2;

/** Our mark on routes (`rtm_protocol`); docs/objects.md lists all marks. */
export const ROUTE_PROTOCOL = 158;

/** Our own routing table, and where packets look into it: after the local table (0), before the main one (32766). */
const OWN_TABLE = 158;
const RULE_PRIORITY = 15_800;

const AF_INET = 2;
const AF_INET6 = 10;
const IFF_UP = 1;
const RT_TABLE_MAIN = 254;
const RT_SCOPE_UNIVERSE = 0;
const RT_SCOPE_LINK = 253;
const RTN_UNICAST = 1;
const RTN_THROW = 9;
/** linux/fib_rules.h. */
const FR_ACT_TO_TABLE = 1;
const FIB_RULE_INVERT = 2;
const FRA = { priority: 6, mark: 10, table: 15, mask: 16, protocol: 21 } as const;
/** Skips duplicate address detection: the address is usable at once and nobody else is on this link. */
const IFA_F_NODAD = 0x02;
const IFLA = { name: 3, mtu: 4, perFamily: 26 } as const;
/** linux/if_link.h: settings of one family of a link, by number. */
const IFLA_INET_CONF = 1;
/** linux/ip.h. */
const IPV4_DEVCONF_RP_FILTER = 8;
const NLA_F_NESTED = 0x8000;
const IFA = { address: 1, local: 2 } as const;
const RTA = { destination: 1, interface: 4, source: 7, table: 15 } as const;
/** The two top bits of an attribute's type are flags (nested, byte order). */
const ATTRIBUTE_TYPE_MASK = 0x3fff;

const isLittleEndian = endianness() === "LE";

export interface LinkMessage {
  readonly index: number;
  readonly name: string;
  readonly mtu: number;
  readonly isUp: boolean;
}

export interface AddressMessage {
  readonly index: number;
  /** The address itself as a host prefix, whatever its prefix length on the link. */
  readonly address: Cidr;
  readonly prefixLength: number;
}

export interface RouteMessage {
  readonly index: number | null;
  readonly destination: Cidr;
  readonly source: IpAddress | null;
  readonly protocol: number;
  readonly table: number;
  /** Packets go on to the rules after ours. */
  readonly isThrow: boolean;
}

/** Body of a request that dumps all links, addresses or routes of every family. */
export const dumpRequest = (): Buffer => Buffer.alloc(16);

/** Asks for one link by name. */
export const linkByName = (name: string): Buffer =>
  Buffer.concat([Buffer.alloc(16), attribute(IFLA.name, Buffer.from(`${name}\0`))]);

/** Sets the MTU of a link and takes it up or down. */
export function linkChange(options: { index: number; mtu: number; up: boolean }): Buffer {
  const head = Buffer.alloc(16);
  writeU32(head, options.index, 4);
  writeU32(head, options.up ? IFF_UP : 0, 8);
  writeU32(head, IFF_UP, 12);
  return Buffer.concat([head, attribute(IFLA.mtu, u32(options.mtu))]);
}

/** Sets rp_filter of a link, which needs no /proc/sys. */
export function rpFilterChange(index: number, value: number): Buffer {
  const head = Buffer.alloc(16);
  writeU32(head, index, 4);
  const settings = nested(IFLA_INET_CONF, attribute(IPV4_DEVCONF_RP_FILTER, u32(value)));
  return Buffer.concat([head, nested(IFLA.perFamily, nested(AF_INET, settings))]);
}

/** An address of a link, to add or to delete; a prefix length of null is the host's, /32 or /128. */
export function addressBody(options: {
  index: number;
  address: Cidr;
  prefixLength: number | null;
}): Buffer {
  const { family, base, length } = cidrParts(options.address);
  const head = Buffer.alloc(8);
  head[0] = kernelFamily(family);
  head[1] = options.prefixLength ?? length;
  head[2] = family === 6 ? IFA_F_NODAD : 0;
  writeU32(head, options.index, 4);
  const bytes = addressBytes(base, family);
  return Buffer.concat([head, attribute(IFA.local, bytes), attribute(IFA.address, bytes)]);
}

/** A route of ours, to add, replace or delete; an index of null is a route that keeps packets out. */
export function routeBody(options: {
  index: number | null;
  destination: Cidr;
  source: IpAddress | null;
  table?: "own";
}): Buffer {
  const { index } = options;
  const { family, base, length } = cidrParts(options.destination);
  const head = Buffer.alloc(12);
  head[0] = kernelFamily(family);
  head[1] = length;
  head[4] = options.table === "own" ? OWN_TABLE : RT_TABLE_MAIN;
  head[5] = ROUTE_PROTOCOL;
  head[6] = family === 4 && index !== null ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
  head[7] = index === null ? RTN_THROW : RTN_UNICAST;
  const attributes = [attribute(RTA.destination, addressBytes(base, family))];
  if (index !== null) attributes.push(attribute(RTA.interface, u32(index)));
  if (options.source !== null) {
    const bytes = addressBytes(ipToBigint(options.source), familyOf(options.source));
    attributes.push(attribute(RTA.source, bytes));
  }
  return Buffer.concat([head, ...attributes]);
}

/** Reads a link message; null when it lacks a name. */
export function readLink(data: Buffer): LinkMessage | null {
  if (data.length < 16) return null;
  const attributes = readAttributes(data, 16);
  const name = attributes.get(IFLA.name);
  const mtu = attributes.get(IFLA.mtu);
  if (name === undefined || mtu === undefined || mtu.length < 4) return null;
  return {
    index: readU32(data, 4),
    name: name.toString("utf8").replace(/\0.*$/s, ""),
    mtu: readU32(mtu, 0),
    isUp: (readU32(data, 8) & IFF_UP) !== 0,
  };
}

/** Reads an address message; null for families other than IPv4 and IPv6. */
export function readAddress(data: Buffer): AddressMessage | null {
  if (data.length < 8) return null;
  const attributes = readAttributes(data, 8);
  const bytes = attributes.get(IFA.local) ?? attributes.get(IFA.address);
  if (bytes === undefined) return null;
  const address = cidrOf(data[0], bytes, bytes.length * 8);
  if (address === null) return null;
  return { index: readU32(data, 4), address, prefixLength: data[1] ?? 0 };
}

/** Reads a route message; null for families and kinds that can't be ours. */
export function readRoute(data: Buffer): RouteMessage | null {
  if (data.length < 12) return null;
  const attributes = readAttributes(data, 12);
  const width = data[0] === AF_INET ? 4 : 16;
  const bytes = attributes.get(RTA.destination) ?? Buffer.alloc(width);
  const destination = cidrOf(data[0], bytes, data[1] ?? 0);
  if (destination === null) return null;
  const table = attributes.get(RTA.table);
  const index = attributes.get(RTA.interface);
  const source = attributes.get(RTA.source);
  return {
    index: index === undefined || index.length < 4 ? null : readU32(index, 0),
    destination,
    source: source === undefined ? null : ipOf(data[0], source),
    protocol: data[5] ?? 0,
    isThrow: data[7] === RTN_THROW,
    table: table === undefined || table.length < 4 ? (data[4] ?? 0) : readU32(table, 0),
  };
}

/** The table's name in the model; null: we never write to it. */
export const tableOf = (table: number): "main" | "own" | null => {
  if (table === RT_TABLE_MAIN) return "main";
  return table === OWN_TABLE ? "own" : null;
};

/** Our rule, to add or to delete: what does not carry our mark looks into our own table. */
export function ruleBody(family: Family): Buffer {
  const head = Buffer.alloc(12);
  head[0] = kernelFamily(family);
  head[4] = OWN_TABLE;
  head[7] = FR_ACT_TO_TABLE;
  writeU32(head, FIB_RULE_INVERT, 8);
  return Buffer.concat([
    head,
    attribute(FRA.priority, u32(RULE_PRIORITY)),
    attribute(FRA.mark, u32(PACKET_MARK)),
    attribute(FRA.mask, u32(0xffffffff)),
    attribute(FRA.table, u32(OWN_TABLE)),
    attribute(FRA.protocol, Buffer.from([ROUTE_PROTOCOL])),
  ]);
}

/** The family of a rule of ours; null: somebody else's. */
export function readRule(data: Buffer): Family | null {
  if (data.length < 12) return null;
  const family = data[0] === AF_INET ? 4 : data[0] === AF_INET6 ? 6 : null;
  const attributes = readAttributes(data, 12);
  const value = (type: number): number | null => {
    const bytes = attributes.get(type);
    return bytes === undefined || bytes.length < 4 ? null : readU32(bytes, 0);
  };
  const isOurs =
    attributes.get(FRA.protocol)?.[0] === ROUTE_PROTOCOL &&
    (readU32(data, 8) & FIB_RULE_INVERT) !== 0 &&
    value(FRA.priority) === RULE_PRIORITY &&
    value(FRA.mark) === PACKET_MARK &&
    value(FRA.table) === OWN_TABLE;
  return isOurs ? family : null;
}

/** The positive errno of an error message; 0 is an acknowledgement. */
export const readErrno = (data: Buffer): number => (data.length < 4 ? 0 : -readS32(data, 0));

function readAttributes(data: Buffer, from: number): Map<number, Buffer> {
  const attributes = new Map<number, Buffer>();
  let at = from;
  while (at + 4 <= data.length) {
    const length = readU16(data, at);
    if (length < 4 || at + length > data.length) break;
    attributes.set(readU16(data, at + 2) & ATTRIBUTE_TYPE_MASK, data.subarray(at + 4, at + length));
    at += (length + 3) & ~3;
  }
  return attributes;
}

function attribute(type: number, value: Buffer): Buffer {
  const out = Buffer.alloc((4 + value.length + 3) & ~3);
  writeU16(out, 4 + value.length, 0);
  writeU16(out, type, 2);
  value.copy(out, 4);
  return out;
}

const nested = (type: number, inner: Buffer): Buffer => attribute(type | NLA_F_NESTED, inner);

function addressBytes(value: bigint, family: 4 | 6): Buffer {
  const width = family === 4 ? 4 : 16;
  return Buffer.from(value.toString(16).padStart(width * 2, "0"), "hex");
}

function ipOf(family: number | undefined, bytes: Buffer): IpAddress | null {
  const width = family === AF_INET ? 4 : family === AF_INET6 ? 16 : 0;
  if (width === 0 || bytes.length !== width) return null;
  return bigintToIp(BigInt(`0x${bytes.toString("hex")}`), width === 4 ? 4 : 6);
}

function cidrOf(family: number | undefined, bytes: Buffer, length: number): Cidr | null {
  const ip = ipOf(family, bytes);
  if (ip === null) return null;
  const cidr = parseCidr(`${ip}/${length}`);
  return cidr.ok ? cidr.value : null;
}

const kernelFamily = (family: 4 | 6): number => (family === 4 ? AF_INET : AF_INET6);

const u32 = (value: number): Buffer => {
  const out = Buffer.alloc(4);
  writeU32(out, value, 0);
  return out;
};

const readU16 = (b: Buffer, at: number): number =>
  isLittleEndian ? b.readUInt16LE(at) : b.readUInt16BE(at);
const readU32 = (b: Buffer, at: number): number =>
  isLittleEndian ? b.readUInt32LE(at) : b.readUInt32BE(at);
const readS32 = (b: Buffer, at: number): number =>
  isLittleEndian ? b.readInt32LE(at) : b.readInt32BE(at);
const writeU16 = (b: Buffer, value: number, at: number): number =>
  isLittleEndian ? b.writeUInt16LE(value, at) : b.writeUInt16BE(value, at);
const writeU32 = (b: Buffer, value: number, at: number): number =>
  isLittleEndian ? b.writeUInt32LE(value, at) : b.writeUInt32BE(value, at);
