/** WireGuard devices in memory, for tests: hold what they are told, say what changed, never move a packet. */

import type {
  DeviceDesired,
  DeviceEvent,
  DevicePeer,
  DeviceStats,
  PeerMeasurement,
  PeerStats,
} from "#src/model/device.ts";
import type { Cidr } from "#src/model/cidr.ts";
import type { Endpoint } from "#src/model/endpoint.ts";
import type { PublicKey } from "#src/model/key.ts";
import type { Device, DeviceFactory, DeviceOptions, DeviceSetReport } from "#src/ports/device.ts";
import { HostError } from "#src/ports/host-error.ts";
import { Faults } from "../faults.ts";

/** Where a device's interface appears; FakeNetwork is one. */
export interface FakeLinks {
  addLink(name: string, options: { mtu?: number }): void;
  removeLink(name: string): void;
}

/** Names the first port that a device gets when it asks for any. */
const FIRST_FREE_PORT = 40_000;

export class FakeDeviceFactory implements DeviceFactory {
  /** Faults by call: `open`, and `set` of any device. */
  readonly faults = new Faults();
  /** Every device ever opened, in order. */
  readonly opened: FakeDevice[] = [];
  readonly #links: FakeLinks | null;

  constructor(links: FakeLinks | null = null) {
    this.#links = links;
  }

  /** The device that is open now; null: none. */
  get current(): FakeDevice | null {
    return this.opened.find((device) => !device.isClosed) ?? null;
  }

  async open(options: DeviceOptions, onEvent: (event: DeviceEvent) => void): Promise<FakeDevice> {
    this.faults.hit("open");
    const isTaken = this.opened.some(
      (d) => !d.isClosed && d.options.interface === options.interface,
    );
    if (isTaken) {
      throw new HostError(
        "interface-in-use",
        `Interface ${options.interface} is in use by another device.`,
      );
    }
    this.#links?.addLink(options.interface, { mtu: options.mtu });
    const port =
      options.listenPort === 0 ? FIRST_FREE_PORT + this.opened.length : options.listenPort;
    const device = new FakeDevice({
      options,
      port,
      onEvent,
      faults: this.faults,
      links: this.#links,
    });
    this.opened.push(device);
    return device;
  }
}

interface FakeDeviceParts {
  readonly options: DeviceOptions;
  readonly port: number;
  readonly onEvent: (event: DeviceEvent) => void;
  readonly faults: Faults;
  readonly links: FakeLinks | null;
}

export class FakeDevice implements Device {
  readonly options: DeviceOptions;
  isClosed = false;
  /** Calls of `set` that changed something. */
  writes = 0;
  readonly #parts: FakeDeviceParts;
  #peers = new Map<PublicKey, DevicePeer>();
  #steering = new Map<PublicKey, string>();
  readonly #learned = new Map<PublicKey, Endpoint>();
  readonly #stats = new Map<PublicKey, Partial<PeerStats>>();

  constructor(parts: FakeDeviceParts) {
    this.#parts = parts;
    this.options = parts.options;
  }

  async set(desired: DeviceDesired): Promise<DeviceSetReport> {
    if (this.isClosed) throw new HostError("closed", "The device is closed.");
    this.#parts.faults.hit("set");
    const { peers, conflicts } = ownPrefixes(desired.peers, this.#peers);
    let [peersAdded, peersUpdated] = [0, 0];
    for (const [key, peer] of peers) {
      const held = this.#peers.get(key);
      if (held === undefined) peersAdded++;
      else if (JSON.stringify(held) !== JSON.stringify(peer)) peersUpdated++;
      // A changed configured endpoint is news; an unchanged one never overwrites what was learned.
      const isMoved = JSON.stringify(held?.endpoint) !== JSON.stringify(peer.endpoint);
      if (isMoved && peer.endpoint !== null) this.#learned.delete(key);
    }
    const gone = [...this.#peers.keys()].filter((key) => !peers.has(key));
    for (const key of gone) this.#learned.delete(key);
    const steering = new Map(desired.steering.map((s) => [s.publicKey, JSON.stringify(s)]));
    const keys = new Set([...steering.keys(), ...this.#steering.keys()]);
    const moved = [...keys].filter((key) => steering.get(key) !== this.#steering.get(key));
    this.#peers = peers;
    this.#steering = steering;
    const changes = {
      peersAdded,
      peersUpdated,
      peersRemoved: gone.length,
      steeringChanged: moved.length,
    };
    if (Object.values(changes).some((count) => count > 0)) this.writes++;
    return { ...changes, conflicts };
  }

  stats(): DeviceStats {
    return {
      listenPort: this.#parts.port,
      interface: this.options.interface,
      offloads: { tun: false, udpSend: false, udpReceive: false },
      peers: [...this.#peers.values()].map((peer) => ({
        ...silentPeer(peer),
        endpoint: this.#learned.get(peer.publicKey) ?? peer.endpoint,
        ...this.#stats.get(peer.publicKey),
      })),
      paths: Array.from({ length: this.options.paths }, (_, path) => ({
        path,
        localPort: this.#parts.port + path,
        replaced: 0,
      })),
      relayFlows: 0,
      counters: {},
    };
  }

  measured(): readonly PeerMeasurement[] {
    return this.stats()
      .peers.map(({ publicKey, receivedAgeMs, unansweredMs, rttUs }) => ({
        publicKey,
        receivedAgeMs,
        unansweredMs,
        rttUs,
      }))
      .filter((peer) =>
        [peer.receivedAgeMs, peer.unansweredMs, peer.rttUs].some((number) => number !== null),
      );
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.#parts.links?.removeLink(this.options.interface);
  }

  /** Tells the owner an event, as the data plane would; an `endpoint` event is also learned. */
  emit(event: DeviceEvent): void {
    if (event.kind === "endpoint") this.#learned.set(event.publicKey, event.endpoint);
    this.#parts.onEvent(event);
  }

  /** Sets what `stats` says of one peer. */
  setPeerStats(publicKey: PublicKey, stats: Partial<PeerStats>): void {
    this.#stats.set(publicKey, { ...this.#stats.get(publicKey), ...stats });
  }

  /** What the device holds, as text, for golden tests. */
  print(): string {
    const { options } = this;
    const { identity } = options;
    const who =
      identity.kind === "gateway" ? `gateway slot ${identity.slot}` : `agent ${identity.agentId}`;
    const peers = this.stats().peers.map((peer) => {
      const at =
        peer.endpoint === null ? "waits" : `${peer.endpoint.address} port ${peer.endpoint.port}`;
      const id = `agent ${peer.agentId} slot ${peer.slot}`;
      return `  peer ${peer.publicKey} ${id} ${at} allows ${peer.allowedIps.join(", ")}`;
    });
    const steering = [...this.#steering.values()].map((target) => `  steering ${target}`);
    const head = `device ${options.interface} ${who} mtu ${options.mtu} port ${this.#parts.port}`;
    return [head, ...peers.toSorted(), ...steering.toSorted()].join("\n");
  }
}

/** A prefix wanted by two peers stays with its holder, else goes to the first in the list. */
function ownPrefixes(
  wanted: readonly DevicePeer[],
  held: ReadonlyMap<PublicKey, DevicePeer>,
): { peers: Map<PublicKey, DevicePeer>; conflicts: DeviceSetReport["conflicts"] } {
  const owners = new Map<Cidr, PublicKey>();
  for (const peer of wanted) {
    const kept = held.get(peer.publicKey)?.allowedIps ?? [];
    for (const cidr of peer.allowedIps) {
      if (kept.includes(cidr)) owners.set(cidr, peer.publicKey);
    }
  }
  const conflicts: { allowedIp: string; kept: string; refused: string }[] = [];
  const peers = new Map<PublicKey, DevicePeer>();
  for (const peer of wanted) {
    const allowedIps = peer.allowedIps.filter((cidr) => {
      const owner = owners.get(cidr) ?? peer.publicKey;
      owners.set(cidr, owner);
      if (owner !== peer.publicKey) {
        conflicts.push({ allowedIp: cidr, kept: owner, refused: peer.publicKey });
      }
      return owner === peer.publicKey;
    });
    peers.set(peer.publicKey, { ...peer, allowedIps });
  }
  return { peers, conflicts };
}

const silentPeer = (peer: DevicePeer): PeerStats => ({
  ...peer,
  rxBytes: 0,
  txBytes: 0,
  rxPackets: 0,
  txPackets: 0,
  handshakeAgeMs: null,
  receivedAgeMs: null,
  unansweredMs: null,
  rttUs: null,
  path: 0,
});
