/** What the native addon offers, as plain values; the addon's own declarations must fit this. */

import type { DeviceSetReport } from "#src/ports/device.ts";

export interface NativeOptions {
  readonly kind: "gateway" | "agent";
  readonly agentId: number;
  readonly slot: number;
  readonly privateKey: Uint8Array;
  readonly interface: string;
  readonly mtu: number;
  readonly listenPort: number;
  readonly paths: number;
  readonly offload: boolean;
}

export interface NativeEvent {
  readonly kind: string;
  readonly publicKey?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly index?: number | undefined;
  readonly forMs?: number | undefined;
  readonly path?: number | undefined;
  readonly localPort?: number | undefined;
  readonly code?: string | undefined;
  readonly message?: string | undefined;
}

export interface NativePeer {
  publicKey: string;
  agentId: number;
  slot: number;
  endpoint: string | null;
  allowedIps: string[];
}

export interface NativeDesired {
  peers: NativePeer[];
  steering: { agentId: number; publicKey: string; endpoint: string }[];
}

export interface NativePeerStats extends NativePeer {
  rxBytes: number;
  txBytes: number;
  rxPackets: number;
  txPackets: number;
  handshakeAgeMs: number | null;
  receivedAgeMs: number | null;
  unansweredMs: number | null;
  rttUs: number | null;
  path: number;
}

export interface NativeStats {
  listenPort: number;
  interface: string;
  offloads: { tun: boolean; udpSend: boolean; udpReceive: boolean };
  peers: NativePeerStats[];
  paths: { path: number; localPort: number; replaced: number }[];
  relayFlows: number;
  counters: Record<string, number>;
}

export interface NativeDevice {
  set(desired: NativeDesired): Promise<DeviceSetReport>;
  stats(): NativeStats;
  close(): Promise<void>;
}

export interface NativeDataplane {
  /** Rejects with an Error whose `code` is one of DeviceErrorCode. */
  openDevice(options: NativeOptions, onEvent: (event: NativeEvent) => void): Promise<NativeDevice>;
}
