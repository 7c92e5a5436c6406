/** The native data plane as JavaScript sees it; shapes follow src/model/device.ts without its brands. */

export interface NativeOptions {
  readonly kind: "gateway" | "agent";
  /** On an agent: its id, 0 to 65535. */
  readonly agentId: number;
  /** On a gateway: its slot, 0 to 255. */
  readonly slot: number;
  /** 32 bytes. */
  readonly privateKey: Uint8Array;
  /** Name of the TUN interface to make; null: none, TCP/IP in this process with `addresses`. */
  readonly interface: string | null;
  /** Without an interface: the device's own 1 to 4 inner addresses. */
  readonly addresses?: readonly string[];
  readonly mtu: number;
  /** 0: any free port. */
  readonly listenPort: number;
  readonly paths: number;
  readonly offload: boolean;
}

export interface NativeEvent {
  readonly kind: "handshake" | "endpoint" | "unanswered" | "answered" | "path" | "failed";
  readonly publicKey?: string;
  readonly endpoint?: string;
  readonly index?: number;
  readonly forMs?: number;
  readonly path?: number;
  readonly localPort?: number;
  readonly code?: string;
  readonly message?: string;
}

export interface NativePeer {
  /** Base64, 44 characters. */
  readonly publicKey: string;
  readonly agentId: number;
  readonly slot: number;
  /** `1.2.3.4:51820` or `[2001:db8::1]:51820`; null: wait to be spoken to. */
  readonly endpoint: string | null;
  /** Canonical CIDRs. */
  readonly allowedIps: readonly string[];
}

export interface NativeSteering {
  readonly agentId: number;
  readonly publicKey: string;
  readonly endpoint: string;
}

export interface NativeDesired {
  readonly peers: readonly NativePeer[];
  readonly steering: readonly NativeSteering[];
}

export interface NativeReport {
  readonly peersAdded: number;
  readonly peersUpdated: number;
  readonly peersRemoved: number;
  readonly steeringChanged: number;
  readonly conflicts: readonly {
    readonly allowedIp: string;
    readonly kept: string;
    readonly refused: string;
  }[];
}

export interface NativePeerStats extends NativePeer {
  readonly rxBytes: number;
  readonly txBytes: number;
  readonly rxPackets: number;
  readonly txPackets: number;
  readonly handshakeAgeMs: number | null;
  readonly receivedAgeMs: number | null;
  readonly unansweredMs: number | null;
  readonly rttUs: number | null;
  readonly path: number;
}

export interface NativePeerMeasurement {
  readonly publicKey: string;
  readonly receivedAgeMs: number | null;
  readonly unansweredMs: number | null;
  readonly rttUs: number | null;
}

export interface NativeStats {
  readonly listenPort: number;
  readonly interface: string;
  readonly offloads: {
    readonly tun: boolean;
    readonly udpSend: boolean;
    readonly udpReceive: boolean;
  };
  readonly peers: readonly NativePeerStats[];
  readonly paths: readonly {
    readonly path: number;
    readonly localPort: number;
    readonly replaced: number;
  }[];
  readonly relayFlows: number;
  readonly counters: Readonly<Record<string, number>>;
}

export interface NativeForwardOptions {
  /** A loopback `ADDRESS:PORT` (port 0: any) or the absolute path of a Unix socket to make. */
  readonly listen: string;
  /** `ADDRESS:PORT` inside the tunnel. */
  readonly target: string;
  /** How long a connection may take to come about; 10,000 when left out. */
  readonly connectTimeoutMs?: number;
  /** How long the far end may leave data or keepalives unanswered (RFC 5482); 120,000 when left out. */
  readonly userTimeoutMs?: number;
}

/** A local listener: each accepted connection is one TCP connection through the tunnel. */
export interface NativeForward {
  /** The TCP port that is listened on; null for a Unix socket. */
  readonly port: number | null;
  /** Stops listening and breaks the connections off. Idempotent. */
  close(): Promise<void>;
}

export interface NativeDevice {
  /** Total and idempotent; rejects with `bad-config` or `closed`, and then nothing was changed. */
  set(desired: NativeDesired): Promise<NativeReport>;
  /** Throws `closed` after `close`. */
  stats(): NativeStats;
  /** Only peers of which one number is not null. Throws `closed` after `close`. */
  measured(): readonly NativePeerMeasurement[];
  /**
   * Begins to listen, only on a device without interface. At most 1,024 connections at a time, more wait to be
   * accepted. A refused or unreachable target resets the local connection at once. Rejects with `bad-config`,
   * `port-in-use`, `no-permission` or `closed`.
   */
  forward(options: NativeForwardOptions): Promise<NativeForward>;
  /** Stops the threads, closes the sockets, removes the interface. Idempotent. */
  close(): Promise<void>;
}

/** Gives back to the kernel what the process has freed (malloc_trim(3)); nothing before the first device was opened. */
export function giveBackMemory(): void;

/** Opens a device; rejects with an Error whose `code` is one of DeviceErrorCode. `onEvent` does not keep the process alive. */
export function openDevice(
  options: NativeOptions,
  onEvent: (event: NativeEvent) => void,
): Promise<NativeDevice>;
