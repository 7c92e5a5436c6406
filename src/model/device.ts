/** What a WireGuard device must be (desired) and what it is (observed), as plain data. */

import type { AgentId } from "./agent-id.ts";
import type { Cidr } from "./cidr.ts";
import type { Endpoint } from "./endpoint.ts";
import type { PublicKey } from "./key.ts";
import type { Slot } from "./slot.ts";

/** A peer as it must be. On a gateway a peer is an agent; on an agent a peer is a gateway's slot. */
export interface DevicePeer {
  readonly publicKey: PublicKey;
  /** High 16 bits of every index of this pair: the agent's id, whichever end this is. */
  readonly agentId: AgentId;
  /** The next 8 bits: the gateway's slot, whichever end this is. */
  readonly slot: Slot;
  /** Where to start; null: wait to be spoken to. A learned endpoint is never overwritten by an unchanged one. */
  readonly endpoint: Endpoint | null;
  /** Longest prefix wins among peers; of two peers with the same prefix the first owner keeps it. */
  readonly allowedIps: readonly Cidr[];
}

/** An agent that datagrams may be passed on to by their index. */
export interface SteeringTarget {
  readonly agentId: AgentId;
  readonly publicKey: PublicKey;
  readonly endpoint: Endpoint;
}

/** The whole of what a device must hold; anything else in it is removed. */
export interface DeviceDesired {
  readonly peers: readonly DevicePeer[];
  /** Other agents, on an agent; empty on a gateway. */
  readonly steering: readonly SteeringTarget[];
}

export interface PeerStats {
  readonly publicKey: PublicKey;
  readonly agentId: AgentId;
  readonly slot: Slot;
  /** The endpoint in use, learned or configured. */
  readonly endpoint: Endpoint | null;
  readonly allowedIps: readonly Cidr[];
  readonly rxBytes: number;
  readonly txBytes: number;
  readonly rxPackets: number;
  readonly txPackets: number;
  /** Milliseconds ago, null: never. */
  readonly handshakeAgeMs: number | null;
  /** Since the last authenticated packet of any kind; null: never. */
  readonly receivedAgeMs: number | null;
  /** Since the oldest data packet that nothing has answered; null: nothing waits. */
  readonly unansweredMs: number | null;
  /** Round trip of the last path probe, in microseconds; null: never probed. */
  readonly rttUs: number | null;
  /** The path (UDP socket) in use; 0 on an agent. */
  readonly path: number;
}

/** What was measured of a peer; what a relay is chosen by. */
export type PeerMeasurement = Pick<
  PeerStats,
  "publicKey" | "receivedAgeMs" | "unansweredMs" | "rttUs"
>;

export interface PathStats {
  readonly path: number;
  readonly localPort: number;
  readonly replaced: number;
}

/** Counters since the device was opened, by name, e.g. `drop_no_peer`, `relay_datagrams`, `mss_clamped`. */
export type DeviceCounters = Readonly<Record<string, number>>;

export interface DeviceStats {
  readonly listenPort: number;
  readonly interface: string;
  /** Which offloads passed the self-test at start. */
  readonly offloads: {
    readonly tun: boolean;
    readonly udpSend: boolean;
    readonly udpReceive: boolean;
  };
  readonly peers: readonly PeerStats[];
  readonly paths: readonly PathStats[];
  /** Live flows relayed for other agents. */
  readonly relayFlows: number;
  readonly counters: DeviceCounters;
}

/** What the data plane tells as it happens. */
export type DeviceEvent =
  | { readonly kind: "handshake"; readonly publicKey: PublicKey; readonly index: number }
  | { readonly kind: "endpoint"; readonly publicKey: PublicKey; readonly endpoint: Endpoint }
  /** Data or probes to this peer stay unanswered although its path was replaced or answers for others. */
  | { readonly kind: "unanswered"; readonly publicKey: PublicKey; readonly forMs: number }
  | { readonly kind: "answered"; readonly publicKey: PublicKey }
  | { readonly kind: "path"; readonly path: number; readonly localPort: number }
  /** The device can't go on, e.g. its TUN was deleted. */
  | { readonly kind: "failed"; readonly code: string; readonly message: string };
