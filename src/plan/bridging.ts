/** Whether seed and shoot can be told apart where their ranges overlap: the condition `Bridged` of a Tunnel. */

import type { AddressMap } from "#src/model/address-map.ts";
import { containsIp, type Cidr } from "#src/model/cidr.ts";
import type { IpAddress } from "#src/model/ip.ts";
import type { NodeFacts, SeedAddress, Tunnel } from "#src/model/tunnel.ts";

export interface BridgingFacts {
  readonly tunnel: Tunnel;
  readonly maps: readonly AddressMap[];
  /** Why a range has no map. */
  readonly problems: readonly string[];
  readonly nodes: readonly NodeFacts[];
  /** Services of the shoot by address; null: not looked yet, and no needed address lies in a service range. */
  readonly services: ReadonlyMap<IpAddress, string> | null;
}

export interface Bridging {
  readonly status: "True" | "False";
  readonly reason: "Mapped" | "KeptOut" | "NoMap" | "AddressIsBoth" | "AddressMayBeBoth";
  readonly message: string;
}

/** A condition's message has room for these; the rest is counted. */
const NAMED_MAX = 8;

/** Null: nothing of the two sides meets, as far as anybody said. */
export const planBridging = (facts: BridgingFacts): Bridging | null => {
  const { tunnel, maps, problems } = facts;
  const { nodes, pods, services } = tunnel.ranges;
  const ranges = [...nodes, ...pods, ...services];
  const inside = tunnel.seedAddresses.filter(({ address }) => holds(ranges, address));
  const both = inside.flatMap((needed) => sentenceOf(needed, holderOf(needed.address, facts)));
  if (both.length > 0) {
    const message = `${listed(both)}: both can't be reached without proxy mode; the pods of this tunnel reach the seed's`;
    return { status: "False", reason: "AddressIsBoth", message };
  }
  if (problems.length > 0) return { status: "False", reason: "NoMap", message: listed(problems) };
  const maybe = inside.flatMap((needed) => sentenceOf(needed, podsOf(needed.address, facts)));
  if (maybe.length > 0) {
    const message = `${listed(maybe)}: a pod that gets it can't be reached without proxy mode; the pods of this tunnel reach the seed's`;
    return { status: "True", reason: "AddressMayBeBoth", message };
  }
  if (maps.length > 0) {
    const message = `address maps: ${maps.length}; addresses of the seed that are kept out of the tunnel: ${inside.length}`;
    return { status: "True", reason: "Mapped", message };
  }
  if (inside.length === 0) return null;
  const message = `addresses of the seed that are kept out of the tunnel: ${inside.length}`;
  return { status: "True", reason: "KeptOut", message };
};

const holds = (ranges: readonly Cidr[], address: IpAddress): boolean =>
  ranges.some((range) => containsIp(range, address));

/** Who in the shoot has this address for certain; null: nobody. */
const holderOf = (address: IpAddress, { nodes, services }: BridgingFacts): string | null => {
  const node = nodes.find(({ addresses }) => addresses.includes(address));
  if (node !== undefined) return `the shoot's Node ${node.name}`;
  const service = services?.get(address);
  return service === undefined ? null : `the shoot's ${service}`;
};

/** Whose pods may have it; pods come and go, so no pod is asked for. */
const podsOf = (address: IpAddress, { nodes }: BridgingFacts): string | null => {
  const node = nodes.find(({ podCidrs }) => holds(podCidrs, address));
  return node === undefined ? null : `a pod address of the shoot's Node ${node.name}`;
};

const sentenceOf = ({ name, address }: SeedAddress, holder: string | null): readonly string[] =>
  holder === null ? [] : [`${address} is needed in the seed (${name}) and is ${holder}`];

const listed = (sentences: readonly string[]): string => {
  const more = sentences.length - NAMED_MAX;
  const shown = sentences.slice(0, NAMED_MAX).join("; ");
  return more > 0 ? `${shown}; and ${more} more` : shown;
};
