/** One end of a tunnel on this machine: the device's life, and everything around it kept as desired. */

import type {
  DeviceDesired,
  DeviceEvent,
  DeviceStats,
  PeerMeasurement,
} from "#src/model/device.ts";
import type { FirewallTable, NetworkDesired } from "#src/model/network.ts";
import type { Device, DeviceFactory, DeviceOptions } from "#src/ports/device.ts";
import type { Firewall } from "#src/ports/firewall.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Log } from "#src/ports/log.ts";
import type { Network } from "#src/ports/network.ts";
import { type HostReport, reconcileDevice, reconcileHost, removeHost } from "./host.ts";

export interface TunnelEndPorts {
  readonly network: Network;
  readonly firewall: Firewall;
  readonly devices: DeviceFactory;
  readonly log: Log;
}

/** What this machine must hold: who the device is, and all that hangs on it. */
export interface TunnelEndDesired {
  readonly options: DeviceOptions;
  readonly device: DeviceDesired;
  readonly network: NetworkDesired;
  readonly firewall: FirewallTable;
}

/** Devices can't change who they are: a difference here means a new device. */
const isSameDevice = (a: DeviceOptions, b: DeviceOptions): boolean =>
  a.interface === b.interface &&
  a.mtu === b.mtu &&
  a.listenPort === b.listenPort &&
  a.paths === b.paths &&
  a.offload === b.offload &&
  JSON.stringify(a.identity) === JSON.stringify(b.identity) &&
  Buffer.compare(a.privateKey.bytes(), b.privateKey.bytes()) === 0;

/**
 * Not safe for concurrent calls: the owner's work loop runs one at a time.
 * A device that failed is opened anew by the next `apply`.
 */
export class TunnelEnd {
  readonly #ports: TunnelEndPorts;
  readonly #onEvent: (event: DeviceEvent) => void;
  #open: { readonly device: Device; readonly options: DeviceOptions } | null = null;
  #hasFailed = false;
  /** Our interface was another program's at the last try: what hangs on it is then not ours to remove. */
  #isForeign = false;
  /** What the last full pass reached; null: it failed in part, or there was none. */
  #reached: TunnelEndDesired | null = null;
  /** Counts devices, so that a late event of a closed one is not taken for the open one's. */
  #generation = 0;

  constructor(ports: TunnelEndPorts, onEvent: (event: DeviceEvent) => void) {
    this.#ports = ports;
    this.#onEvent = onEvent;
  }

  /** Null while there is no device. */
  stats(): DeviceStats | null {
    return this.#open === null || this.#hasFailed ? null : this.#open.device.stats();
  }

  /** Empty while there is no device. */
  measured(): readonly PeerMeasurement[] {
    return this.#open === null || this.#hasFailed ? [] : this.#open.device.measured();
  }

  /** Total and idempotent: zero writes when everything is as desired. Throws HostError when the device can't be opened. */
  async apply(desired: TunnelEndDesired): Promise<HostReport> {
    const before = this.#reached;
    const opened = await this.#deviceFor(desired.options);
    // Nobody but us can change what a device holds: the very same plan need not be told again.
    const device = this.#reached !== null && before?.device === desired.device ? null : opened;
    this.#reached = null;
    const { network, firewall } = this.#ports;
    const isFiltered = before?.firewall === desired.firewall && !(await firewall.hasChanged());
    const ports = { network, firewall: isFiltered ? null : firewall, device };
    const report = await reconcileHost(ports, desired);
    if (report.errors.length === 0) this.#reached = desired;
    return report;
  }

  /**
   * Gives the device other peers at once, without a look at the kernel: what a relay's death needs. Only where the last
   * full pass left everything else as desired; else it is a full pass.
   */
  async applyPeers(desired: TunnelEndDesired): Promise<HostReport> {
    const open = this.#open;
    const reached = this.#reached;
    const isOnlyPeers =
      open !== null &&
      !this.#hasFailed &&
      reached !== null &&
      isSameDevice(open.options, desired.options) &&
      JSON.stringify([reached.network, reached.firewall]) ===
        JSON.stringify([desired.network, desired.firewall]);
    if (!isOnlyPeers) return this.apply(desired);
    const report = await reconcileDevice(open.device, desired.device);
    this.#reached = report.errors.length === 0 ? desired : null;
    return report;
  }

  /**
   * Takes down the device and removes everything of ours from this machine, what a former run left included; but
   * nothing while another instance has the interface, or a second one would take the first one's tunnel down.
   * `interface`: which one, where no device was opened. Idempotent; never throws HostError: failures are in the report.
   */
  async close(options: { readonly interface?: string } = {}): Promise<HostReport> {
    const own = this.#open?.options.interface;
    await this.#closeDevice();
    const name = own ?? options.interface;
    if (this.#isForeign || (own === undefined && (await this.#isTaken(name)))) {
      return { writes: 0, operations: [], errors: [] };
    }
    const { network, firewall } = this.#ports;
    return await removeHost({ network, firewall }, name === undefined ? {} : { interface: name });
  }

  /** An interface goes with the process that made it: one that is there without a device of ours is another's. */
  async #isTaken(name: string | undefined): Promise<boolean> {
    if (name === undefined) return false;
    try {
      const observed = await this.#ports.network.observe({ interface: name, sysctls: {} });
      return observed.link !== null;
    } catch (error) {
      if (!isHostError(error)) throw error;
      return false;
    }
  }

  async #deviceFor(options: DeviceOptions): Promise<Device> {
    if (this.#open !== null && !this.#hasFailed && isSameDevice(this.#open.options, options)) {
      return this.#open.device;
    }
    await this.#closeDevice();
    this.#generation += 1;
    const generation = this.#generation;
    const device = await this.#openDevice(options, generation);
    this.#open = { device, options };
    this.#ports.log.info(
      { interface: options.interface, identity: options.identity },
      "device opened",
    );
    return device;
  }

  async #openDevice(options: DeviceOptions, generation: number): Promise<Device> {
    try {
      const device = await this.#ports.devices.open(options, (event) => {
        if (generation === this.#generation) this.#hear(event);
      });
      this.#isForeign = false;
      return device;
    } catch (error) {
      this.#isForeign = isHostError(error) && error.code === "interface-in-use";
      throw error;
    }
  }

  #hear(event: DeviceEvent): void {
    if (event.kind === "failed") this.#hasFailed = true;
    this.#onEvent(event);
  }

  async #closeDevice(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    this.#reached = null;
    this.#hasFailed = false;
    this.#generation += 1;
    await open?.device.close();
  }
}
