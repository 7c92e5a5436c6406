/** The WireGuard data plane: owns packets, sessions and sockets; is told what to hold. */

import type { AgentId } from "#src/model/agent-id.ts";
import type {
  DeviceDesired,
  DeviceEvent,
  DeviceStats,
  PeerMeasurement,
} from "#src/model/device.ts";
import type { PrivateKey } from "#src/model/key.ts";
import type { Slot } from "#src/model/slot.ts";

/** Who this device is; fixed for its life. */
export type DeviceIdentity =
  | { readonly kind: "gateway"; readonly slot: Slot }
  | { readonly kind: "agent"; readonly agentId: AgentId };

export interface DeviceOptions {
  readonly identity: DeviceIdentity;
  readonly privateKey: PrivateKey;
  /** Name of the TUN interface to make, at most 15 bytes. */
  readonly interface: string;
  /** Inner MTU in bytes. */
  readonly mtu: number;
  /** UDP port; 0: any free one. */
  readonly listenPort: number;
  /** UDP sockets towards the balancer, 1 to 8; 1 on an agent. */
  readonly paths: number;
  /** False: use no offload even where the kernel has them. */
  readonly offload: boolean;
}

/** Codes: `no-tun`, `no-permission`, `port-in-use`, `interface-in-use`, `bad-config`, `closed`, `io`. */
export type DeviceErrorCode =
  | "no-tun"
  | "no-permission"
  | "port-in-use"
  | "interface-in-use"
  | "bad-config"
  | "closed"
  | "io";

/** What `set` really did; all zero when the device already held what was desired. */
export interface DeviceSetReport {
  readonly peersAdded: number;
  readonly peersUpdated: number;
  readonly peersRemoved: number;
  readonly steeringChanged: number;
  /** A prefix wanted by two peers: the first owner kept it. */
  readonly conflicts: readonly {
    readonly allowedIp: string;
    readonly kept: string;
    readonly refused: string;
  }[];
}

export interface Device {
  /** Total and idempotent. Never touches a learned endpoint or live session of an unchanged peer. */
  set(desired: DeviceDesired): Promise<DeviceSetReport>;
  stats(): DeviceStats;
  /** Peers of which anything was measured, and nothing else: far less than `stats` where most peers are idle. */
  measured(): readonly PeerMeasurement[];
  /** Stops threads, closes sockets, removes the interface. Idempotent. */
  close(): Promise<void>;
}

export interface DeviceFactory {
  /** Throws HostError<DeviceErrorCode> with one sentence that says what to do. */
  open(options: DeviceOptions, onEvent: (event: DeviceEvent) => void): Promise<Device>;
}
