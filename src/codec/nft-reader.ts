/** Reads our table back from `nft --json`, as libnftables-json(5) defines it, so that any drift is seen. */

import { mergeCidrs } from "#src/model/cidr-set.ts";
import { cidrParts, parseCidr, type Cidr } from "#src/model/cidr.ts";
import { bigintToIp, familyOf, ipToBigint, parseIp } from "#src/model/ip.ts";
import type { FirewallHook, FirewallRule, FirewallTable } from "#src/model/network.ts";
import { NEW_STATES, NFT_HOOKS, NFT_TABLE, REPLY_STATES } from "./nft.ts";

type Json = Readonly<Record<string, unknown>>;

/** What a listing says of our table; the same shape as the port's FirewallObserved. */
export interface NftListing {
  readonly table: FirewallTable;
  /** Rules, chains and sets in our table that we never write. */
  readonly foreignRules: number;
  /** Packets by rule kind. */
  readonly counters: Readonly<Record<string, number>>;
}

/** One nft rule in our words; what a rule does not test is left out. */
interface RuleShape {
  iif?: string;
  oif?: string;
  oifNot?: string;
  states?: string;
  nfproto?: string;
  address?: { field: string; isInside: boolean; family: 4 | 6; cidrs: readonly Cidr[] };
  packets?: number;
  verdict?: string;
}

/** A rule of ours as read; `half` says that it is one family's part of a pair. */
interface ReadRule {
  readonly rule: FirewallRule;
  readonly half: 4 | 6 | null;
  readonly interface: string;
  readonly packets: number;
}

/** Reads `nft --json list table inet xylem`; null when the table is not in it. Never throws. */
export function parseNft(listing: unknown): NftListing | null {
  const items = list(object(listing)?.["nftables"])
    .map(object)
    .filter((item) => item !== null);
  const tables = items.map((item) => object(item["table"])).filter((table) => table !== null);
  const ours = tables.find((table) => table["family"] === "inet" && table["name"] === NFT_TABLE);
  if (ours === undefined) return null;

  const state = new TableReader();
  // A dormant table is in the kernel and does nothing.
  if (list(ours["flags"]).length > 0 || typeof ours["flags"] === "string") state.foreignRules++;
  for (const item of items) {
    if (item["metainfo"] !== undefined || item["table"] !== undefined) continue;
    const chain = object(item["chain"]);
    const rule = object(item["rule"]);
    if (chain !== null) state.addChain(chain);
    else if (rule !== null) state.addRule(rule);
    else state.foreignRules++;
  }
  return state.observed();
}

/** Gathers chains and rules in the order of the listing. */
class TableReader {
  foreignRules = 0;
  readonly #chains = new Map<FirewallHook, ReadRule[]>();
  readonly #counters: Record<string, number> = {};
  #interface: string | null = null;

  addChain(chain: Json): void {
    const hook = hookOf(chain["name"]);
    const isOurs =
      hook !== null &&
      chain["hook"] === hook &&
      chain["type"] === NFT_HOOKS[hook].type &&
      chain["prio"] === NFT_HOOKS[hook].priority &&
      chain["policy"] === "accept";
    if (isOurs) this.#chains.set(hook, []);
    else this.foreignRules++;
  }

  addRule(json: Json): void {
    const hook = hookOf(json["chain"]);
    const rules = hook === null ? undefined : this.#chains.get(hook);
    const shape = readShape(json["expr"]);
    const read = shape === null ? null : readRule(shape);
    const isOfInterface = this.#interface === null || this.#interface === read?.interface;
    if (rules === undefined || read === null || !isOfInterface) {
      this.foreignRules++;
      return;
    }
    this.#interface = read.interface;
    const { kind } = read.rule;
    this.#counters[kind] = (this.#counters[kind] ?? 0) + read.packets;
    const last = rules.at(-1);
    const joined = last === undefined ? null : joinHalves(last, read);
    if (joined === null) rules.push(read);
    else rules[rules.length - 1] = joined;
  }

  observed(): NftListing {
    const chains = [...this.#chains].map(([hook, rules]) => ({
      hook,
      rules: rules.filter((read) => this.#isWhole(read)).map((read) => read.rule),
    }));
    return {
      table: { interface: this.#interface ?? "", chains },
      foreignRules: this.foreignRules,
      counters: this.#counters,
    };
  }

  /** `only-destinations` with one family missing lets the other family through: drift. */
  #isWhole(read: ReadRule): boolean {
    const isWhole = read.rule.kind !== "only-destinations" || read.half === null;
    if (!isWhole) this.foreignRules++;
    return isWhole;
  }
}

/** Joins an IPv4 rule and the IPv6 rule of the same meaning that follows it. */
function joinHalves(first: ReadRule, second: ReadRule): ReadRule | null {
  if (first.half !== 4 || second.half !== 6) return null;
  const base = { half: null, interface: first.interface, packets: first.packets + second.packets };
  const [a, b] = [first.rule, second.rule];
  if (a.kind === "masquerade" && b.kind === "masquerade") {
    return { ...base, rule: { ...a, sources: [...a.sources, ...b.sources] } };
  }
  if (a.kind === "only-destinations" && b.kind === "only-destinations") {
    return { ...base, rule: { ...a, destinations: [...a.destinations, ...b.destinations] } };
  }
  return null;
}

function readRule(shape: RuleShape): ReadRule | null {
  const { iif, oif, oifNot, states, nfproto, address, packets, verdict } = shape;
  if (packets === undefined) return null;
  const tests = [iif, oif, oifNot, states, nfproto, address].filter((t) => t !== undefined).length;
  const whole = (rule: FirewallRule, interfaceName: string): ReadRule => ({
    rule,
    half: null,
    interface: interfaceName,
    packets,
  });
  if (tests === 2 && states !== undefined) {
    const isReply = states === REPLY_STATES.join();
    const isNew = states === NEW_STATES.join();
    if (iif !== undefined && isReply && verdict === "accept") {
      return whole({ kind: "accept-replies", from: "tunnel" }, iif);
    }
    if (iif !== undefined && isNew && verdict === "drop") {
      return whole({ kind: "drop-new", from: "tunnel" }, iif);
    }
    if (oif !== undefined && isNew && verdict === "drop") {
      return whole({ kind: "drop-new-into", to: "tunnel" }, oif);
    }
    return null;
  }
  if (iif === undefined) return null;
  return readHalf({ ...shape, iif, packets }, tests);
}

function readHalf(
  shape: RuleShape & { iif: string; packets: number },
  tests: number,
): ReadRule | null {
  const { iif, oifNot, nfproto, address, packets, verdict } = shape;
  if (tests === 2 && verdict === "drop") {
    const destinations = nfproto === undefined ? (address?.cidrs ?? []) : [];
    const half = nfproto === undefined ? address?.family : nfproto === "ipv4" ? 4 : 6;
    const isDestination = address?.field === "daddr" && !address.isInside;
    if (half === undefined || (nfproto === undefined && !isDestination)) return null;
    const rule = { kind: "only-destinations", from: "tunnel", destinations } as const;
    return { rule, half, interface: iif, packets };
  }
  const isSource = address?.field === "saddr" && address.isInside;
  if (tests !== 3 || verdict !== "masquerade" || oifNot !== iif || !isSource) return null;
  const rule = { kind: "masquerade", from: "tunnel", sources: address.cidrs } as const;
  return { rule, half: address.family, interface: iif, packets };
}

/** Reads a rule's expressions; null when there is one that we never write. */
function readShape(expressions: unknown): RuleShape | null {
  const shape: RuleShape = {};
  for (const expression of list(expressions).map(object)) {
    if (expression === null || shape.verdict !== undefined) return null;
    const match = object(expression["match"]);
    const counter = object(expression["counter"]);
    if (match !== null) {
      if (!readMatch(match, shape)) return null;
    } else if (counter !== null && typeof counter["packets"] === "number") {
      shape.packets = counter["packets"];
    } else {
      const [name, ...more] = Object.entries(expression);
      const isBare = name !== undefined && more.length === 0 && name[1] === null;
      if (!isBare) return null;
      shape.verdict = name[0];
    }
  }
  return shape;
}

function readMatch(match: Json, shape: RuleShape): boolean {
  const left = object(match["left"]);
  const { op, right } = match;
  const key = object(left?.["meta"])?.["key"];
  if (typeof key === "string" && typeof right === "string") {
    if (key === "iifname" && op === "==" && shape.iif === undefined) shape.iif = right;
    else if (key === "oifname" && op === "==" && shape.oif === undefined) shape.oif = right;
    else if (key === "oifname" && op === "!=" && shape.oifNot === undefined) shape.oifNot = right;
    else if (key === "nfproto" && op === "==" && /^ipv[46]$/.test(right)) shape.nfproto = right;
    else return false;
    return true;
  }
  if (object(left?.["ct"])?.["key"] === "state" && (op === "in" || op === "==")) {
    const states = list(right).filter((state) => typeof state === "string");
    shape.states = states.toSorted().join();
    return states.length > 0 && states.length === list(right).length;
  }
  const payload = object(left?.["payload"]);
  const family = payload?.["protocol"] === "ip" ? 4 : payload?.["protocol"] === "ip6" ? 6 : null;
  const field = payload?.["field"];
  const cidrs = readCidrs(right);
  if (family === null || typeof field !== "string" || cidrs === null) return false;
  if ((op !== "==" && op !== "!=") || shape.address !== undefined) return false;
  shape.address = { field, isInside: op === "==", family, cidrs };
  return cidrs.every((cidr) => cidrParts(cidr).family === family);
}

function readCidrs(right: unknown): readonly Cidr[] | null {
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

const HOOKS = ["input", "forward", "output", "postrouting"] as const;

const hookOf = (name: unknown): FirewallHook | null => HOOKS.find((hook) => hook === name) ?? null;

const object = (value: unknown): Json | null =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : null;

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
