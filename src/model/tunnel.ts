/** What a tunnel is made of, as plain data: the object in the seed and what both clusters say about it. */

import type { AddressMap } from "./address-map.ts";
import type { AgentId } from "./agent-id.ts";
import type { Cidr } from "./cidr.ts";
import type { Endpoint } from "./endpoint.ts";
import type { IpAddress } from "./ip.ts";
import type { PublicKey } from "./key.ts";
import type { Slot } from "./slot.ts";

/** The shoot ranges that the seed allows a tunnel to carry. */
export interface ApprovedRanges {
  readonly nodes: readonly Cidr[];
  readonly pods: readonly Cidr[];
  readonly services: readonly Cidr[];
}

export type TunnelMode = "tun";

/** An address of the seed that a tunnel's pods need, e.g. etcd's: no packet to it may go into the tunnel. */
export interface SeedAddress {
  /** What it is, for people. */
  readonly name: string;
  readonly address: IpAddress;
}

/** Which approved ranges get an address map: those that overlap the seed's own, or all. */
export type MappedRanges = "overlapping" | "all";

/** A `Tunnel`'s spec after parsing and defaulting. */
export interface Tunnel {
  readonly namespace: string;
  readonly name: string;
  readonly generation: number;
  readonly ranges: ApprovedRanges;
  /** Where the shoot's agents are reached; null: the agents' Service says. */
  readonly endpoint: Endpoint | null;
  readonly mode: TunnelMode;
  /** Inner addresses of gateways: at most one range per family. */
  readonly transit: readonly Cidr[];
  /** How many gateway identities exist, 1 to 256. */
  readonly slots: number;
  /** Inner MTU in bytes. */
  readonly mtu: number;
  readonly mapped: MappedRanges;
  readonly seedAddresses: readonly SeedAddress[];
}

/** One numbered gateway identity, as agents know it. */
export interface GatewaySlot {
  readonly slot: Slot;
  readonly publicKey: PublicKey;
  /** The slot's transit addresses, one per family of the transit range. */
  readonly addresses: readonly IpAddress[];
}

/** `TunnelGateways` after parsing: what the shoot is told of its seed. */
export interface TunnelGateways {
  readonly slots: readonly GatewaySlot[];
  readonly transit: readonly Cidr[];
  readonly ranges: ApprovedRanges;
  readonly mtu: number;
  /** What the seed dials instead of which addresses; of ranges and of transit ranges. */
  readonly maps: readonly AddressMap[];
}

/** `TunnelAgent` after parsing: the claim of one node. */
export interface AgentClaim {
  /** Name of the object, which is the node's name. */
  readonly node: string;
  readonly uid: string;
  /** Milliseconds since 1970; the older claim of an agent id wins. */
  readonly createdMs: number;
  readonly publicKey: PublicKey;
  readonly agentId: AgentId;
  readonly port: number;
}

/** The parts of a `Node` that planning needs. */
export interface NodeFacts {
  readonly name: string;
  readonly uid: string;
  readonly createdMs: number;
  /** InternalIP addresses, in the order of the object. */
  readonly addresses: readonly IpAddress[];
  readonly podCidrs: readonly Cidr[];
  readonly isReady: boolean;
}
