/** Reads our table back from `nft --json`, as libnftables-json(5) defines it, so that any drift is seen. */

import { cidrParts, parseCidr, type Cidr } from "#src/model/cidr.ts";
import { bigintToIp, bitsOf, familyOf, ipToBigint, parseIp } from "#src/model/ip.ts";
import type { FirewallHook, FirewallRule, FirewallTable } from "#src/model/network.ts";
import { NEW_STATES, NFT_HOOKS, NFT_TABLE, PACKET_MARK, REPLY_STATES } from "./nft.ts";
import { list, object, readCidrs, readPlace, type Json } from "./nft-values.ts";

const HOOKS: readonly FirewallHook[] = [
  "input",
  "forward",
  "output",
  "postrouting",
  "arrival",
  "departure",
  "answer",
];

/** What a listing says of our table; the same shape as the port's FirewallObserved. */
export interface NftListing {
  readonly table: FirewallTable;
  /** Rules, chains and sets in our table that we never write. */
  readonly foreignRules: number;
  /** Packets by rule kind. */
  readonly counters: Readonly<Record<string, number>>;
}

interface AddressTest {
  readonly field: string;
  readonly isInside: boolean;
  readonly family: 4 | 6;
  readonly cidrs: readonly Cidr[];
}

interface AddressRewrite {
  readonly field: string;
  readonly family: 4 | 6;
  /** Bits that stay. */
  readonly rest: bigint;
  readonly prefix: bigint;
}

/** One nft rule in our words; what a rule does not test is left out. */
interface RuleShape {
  iif?: string;
  oif?: string;
  oifNot?: string;
  states?: string;
  nfproto?: string;
  address?: AddressTest;
  /** A second test of an address: only rules that rewrite one have it. */
  secondAddress?: AddressTest;
  isAnswer?: boolean;
  /** What becomes of an address, or of the mark. */
  rewrite?: AddressRewrite | "mark";
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
      chain["hook"] === NFT_HOOKS[hook].hook &&
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
  if (shape.rewrite !== undefined) return readRewriting({ ...shape, packets });
  if (shape.secondAddress !== undefined || shape.isAnswer !== undefined) return null;
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

/** A rule that changes a packet; null: not one of ours. */
function readRewriting(shape: RuleShape & { packets: number }): ReadRule | null {
  const { iif, oif, oifNot, states, nfproto, address, secondAddress, rewrite, packets } = shape;
  if (oifNot !== undefined || states !== undefined || nfproto !== undefined) return null;
  const whole = (rule: FirewallRule, interfaceName: string): ReadRule => ({
    rule,
    half: null,
    interface: interfaceName,
    packets,
  });
  if (rewrite === "mark") {
    const isOurs = iif === undefined && address === undefined && shape.isAnswer === true;
    return isOurs && oif !== undefined ? whole({ kind: "mark-answers", to: "tunnel" }, oif) : null;
  }
  if (rewrite === undefined || shape.isAnswer !== undefined) return null;
  if (iif !== undefined && oif === undefined && secondAddress === undefined) {
    const map = readMap(address, rewrite, "daddr");
    if (map === null) return null;
    const rule = {
      kind: "map-destination",
      from: "tunnel",
      real: map.to,
      mapped: map.from,
    } as const;
    return whole(rule, iif);
  }
  const isTowards = address?.field === "daddr" && address.isInside;
  if (oif === undefined || iif !== undefined || !isTowards) return null;
  const map = readMap(secondAddress, rewrite, "saddr");
  if (map === null) return null;
  const destinations = address.cidrs;
  const ends = { real: map.from, mapped: map.to };
  return whole({ kind: "map-source", to: "tunnel", destinations, ...ends }, oif);
}

/** The block that is tested and the one that takes its place: the same size, and every other bit kept. */
function readMap(
  test: AddressTest | undefined,
  rewrite: AddressRewrite,
  field: string,
): { readonly from: Cidr; readonly to: Cidr } | null {
  const [from, ...more] = test?.cidrs ?? [];
  if (test === undefined || from === undefined || more.length > 0 || !test.isInside) return null;
  const isSamePlace = test.field === field && rewrite.field === field;
  if (!isSamePlace || rewrite.family !== test.family) return null;
  const { length } = cidrParts(from);
  const to = parseCidr(`${bigintToIp(rewrite.prefix, rewrite.family)}/${length}`);
  const kept = (1n << BigInt(bitsOf(rewrite.family) - length)) - 1n;
  // nft prints the mask with the prefix's own bits in it.
  if (!to.ok || (rewrite.rest & ~rewrite.prefix) !== kept) return null;
  return { from, to: to.value };
}

/** `ADDRESS set VALUE`, `ADDRESS set ADDRESS & MASK | VALUE`, or our mark; null: anything else. */
function readMangle(mangle: Json | null): AddressRewrite | "mark" | null {
  const key = object(mangle?.["key"]);
  const value = mangle?.["value"];
  if (object(key?.["meta"])?.["key"] === "mark") return value === PACKET_MARK ? "mark" : null;
  const place = readPlace(key);
  if (place === null) return null;
  const number = (text: unknown): bigint | null => {
    const read = parseIp(text);
    return read.ok && familyOf(read.value) === place.family ? ipToBigint(read.value) : null;
  };
  const { source, restText, prefixText } = readBits(value);
  // nft leaves out a mask that keeps everything, and a value that sets nothing.
  const all = (1n << BigInt(bitsOf(place.family))) - 1n;
  const rest = source === null ? 0n : restText === null ? all : number(restText);
  const prefix = prefixText === null ? 0n : number(prefixText);
  if (rest === null || prefix === null) return null;
  const from = readPlace(object(source));
  const isItself = from?.field === place.field && from.family === place.family;
  return source !== null && !isItself ? null : { ...place, rest, prefix };
}

/** The parts of `SOURCE & REST | PREFIX`; null: the part is not there. */
function readBits(value: unknown): { source: unknown; restText: unknown; prefixText: unknown } {
  if (typeof value === "string") return { source: null, restText: null, prefixText: value };
  const joined = object(value)?.["|"];
  const [left, prefixText] = joined === undefined ? [value, null] : list(joined);
  const masked = object(left)?.["&"];
  const [source, restText] = masked === undefined ? [left, null] : list(masked);
  return { source: source ?? "nothing", restText, prefixText };
}

/** Reads a rule's expressions; null when there is one that we never write. */
function readShape(expressions: unknown): RuleShape | null {
  const shape: RuleShape = {};
  for (const expression of list(expressions).map(object)) {
    const isOver = shape.verdict !== undefined || shape.rewrite !== undefined;
    if (expression === null || isOver) return null;
    const match = object(expression["match"]);
    const counter = object(expression["counter"]);
    if (match !== null) {
      if (!readMatch(match, shape)) return null;
    } else if (counter !== null && typeof counter["packets"] === "number") {
      shape.packets = counter["packets"];
    } else if (expression["mangle"] !== undefined) {
      const rewrite = readMangle(object(expression["mangle"]));
      if (rewrite === null || shape.rewrite !== undefined) return null;
      shape.rewrite = rewrite;
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
  if (object(left?.["ct"])?.["key"] === "direction") {
    shape.isAnswer = op === "==" && right === "reply";
    return shape.isAnswer;
  }
  const place = readPlace(left);
  const cidrs = readCidrs(right);
  if (place === null || cidrs === null || (op !== "==" && op !== "!=")) return false;
  const test = { ...place, isInside: op === "==", cidrs };
  if (shape.secondAddress !== undefined) return false;
  if (shape.address === undefined) shape.address = test;
  else shape.secondAddress = test;
  return cidrs.every((cidr) => cidrParts(cidr).family === place.family);
}

const hookOf = (name: unknown): FirewallHook | null => HOOKS.find((hook) => hook === name) ?? null;
