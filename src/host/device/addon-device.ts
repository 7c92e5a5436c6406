/** The DeviceFactory over the native data plane: its plain values in our types, its codes with a sentence what to do. */

import type {
  NativeDevice,
  NativeEvent,
  NativePeerMeasurement,
  NativeStats,
  openDevice,
} from "#dataplane";
import type { AgentId } from "#src/model/agent-id.ts";
import { parseAgentId } from "#src/model/agent-id.ts";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import type {
  DeviceDesired,
  DeviceEvent,
  DeviceStats,
  PeerMeasurement,
} from "#src/model/device.ts";
import { formatEndpoint, parseEndpoint, type Endpoint } from "#src/model/endpoint.ts";
import { parsePublicKey, type PublicKey } from "#src/model/key.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { parseSlot, type Slot } from "#src/model/slot.ts";
import type { Device, DeviceFactory, DeviceOptions, DeviceSetReport } from "#src/ports/device.ts";
import { HostError } from "#src/ports/host-error.ts";
import { deviceError } from "./device-error.ts";

/** The part of the addon that is used here. */
export interface NativeDataplane {
  readonly openDevice: typeof openDevice;
}

/** Loads the addon when the first device opens, so that a program that needs none also runs without it. */
const loadAddon = async (): Promise<NativeDataplane> => import("#dataplane");

export class AddonDeviceFactory implements DeviceFactory {
  readonly #load: () => Promise<NativeDataplane>;

  /** `load` gives the addon; tests give another. */
  constructor(load: () => Promise<NativeDataplane> = loadAddon) {
    this.#load = load;
  }

  async open(options: DeviceOptions, onEvent: (event: DeviceEvent) => void): Promise<Device> {
    const addon = await this.#addon();
    const { identity, privateKey, listenPort, paths, offload, mtu } = options;
    const key = privateKey.bytes();
    try {
      const native = await addon.openDevice(
        {
          kind: identity.kind,
          agentId: identity.kind === "agent" ? identity.agentId : 0,
          slot: identity.kind === "gateway" ? identity.slot : 0,
          privateKey: key,
          interface: options.interface,
          mtu,
          listenPort,
          paths,
          offload,
        },
        (event) => onEvent(readEvent(event)),
      );
      return new AddonDevice(native, options);
    } catch (cause) {
      throw await deviceError(cause, options);
    }
  }

  async #addon(): Promise<NativeDataplane> {
    try {
      return await this.#load();
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new HostError("io", `The data plane can't be loaded: ${why}`, { cause });
    }
  }
}

class AddonDevice implements Device {
  readonly #native: NativeDevice;
  readonly #options: DeviceOptions;

  constructor(native: NativeDevice, options: DeviceOptions) {
    this.#native = native;
    this.#options = options;
  }

  async set(desired: DeviceDesired): Promise<DeviceSetReport> {
    try {
      return await this.#native.set({
        peers: desired.peers.map((peer) => ({
          publicKey: peer.publicKey,
          agentId: peer.agentId,
          slot: peer.slot,
          endpoint: peer.endpoint === null ? null : formatEndpoint(peer.endpoint),
          allowedIps: [...peer.allowedIps],
        })),
        steering: desired.steering.map((target) => ({
          agentId: target.agentId,
          publicKey: target.publicKey,
          endpoint: formatEndpoint(target.endpoint),
        })),
      });
    } catch (cause) {
      throw await deviceError(cause, this.#options);
    }
  }

  stats(): DeviceStats {
    return this.#ask(() => readStats(this.#native.stats()));
  }

  measured(): readonly PeerMeasurement[] {
    return this.#ask(() => this.#native.measured().map(readMeasurement));
  }

  #ask<T>(question: () => T): T {
    try {
      return question();
    } catch (cause) {
      if (cause instanceof TypeError) throw cause;
      throw new HostError("closed", `Device ${this.#options.interface} is closed.`, { cause });
    }
  }

  async close(): Promise<void> {
    try {
      await this.#native.close();
    } catch (cause) {
      throw await deviceError(cause, this.#options);
    }
  }
}

/** The addon's events in our types. */
function readEvent(event: NativeEvent): DeviceEvent {
  const publicKey = (): PublicKey => trusted(parsePublicKey(event.publicKey));
  switch (event.kind) {
    case "handshake":
      return { kind: "handshake", publicKey: publicKey(), index: event.index ?? 0 };
    case "endpoint": {
      const endpoint = trusted(parseEndpoint(event.endpoint));
      return { kind: "endpoint", publicKey: publicKey(), endpoint };
    }
    case "unanswered":
      return { kind: "unanswered", publicKey: publicKey(), forMs: event.forMs ?? 0 };
    case "answered":
      return { kind: "answered", publicKey: publicKey() };
    case "path":
      return { kind: "path", path: event.path ?? 0, localPort: event.localPort ?? 0 };
    case "failed": {
      const { code = "io", message = "the data plane gave no reason" } = event;
      return { kind: "failed", code, message };
    }
  }
}

function readMeasurement(peer: NativePeerMeasurement): PeerMeasurement {
  return { ...peer, publicKey: trusted<PublicKey>(parsePublicKey(peer.publicKey)) };
}

function readStats(stats: NativeStats): DeviceStats {
  return {
    ...stats,
    peers: stats.peers.map((peer) => ({
      ...peer,
      publicKey: trusted<PublicKey>(parsePublicKey(peer.publicKey)),
      agentId: trusted<AgentId>(parseAgentId(peer.agentId)),
      slot: trusted<Slot>(parseSlot(peer.slot)),
      endpoint: peer.endpoint === null ? null : trusted<Endpoint>(parseEndpoint(peer.endpoint)),
      allowedIps: peer.allowedIps.map((cidr) => trusted<Cidr>(parseCidr(cidr))),
    })),
  };
}

/** The addon says only what it was told or what it parsed itself: anything else is a broken invariant. */
function trusted<T>(value: Parsed<T>): T {
  if (value.ok) return value.value;
  throw new TypeError(`The data plane said what can't be: ${value.problem}`);
}

/** The native data plane of this program. */
export const addonDevices: DeviceFactory = new AddonDeviceFactory();
