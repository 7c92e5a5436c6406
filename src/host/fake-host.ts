/** A whole machine in memory: network, firewall and devices that belong together, and one text of it all. */

import { FakeDeviceFactory } from "./device/fake-device.ts";
import { FakeFirewall } from "./firewall/fake-firewall.ts";
import { FakeNetwork } from "./network/fake-network.ts";

export class FakeHost {
  readonly network = new FakeNetwork();
  readonly firewall = new FakeFirewall();
  /** A device that opens makes its link in `network`, and takes it away when it closes. */
  readonly devices = new FakeDeviceFactory(this.network);

  /** Changes so far, of kernel, filter and devices. */
  get writes(): number {
    const ofDevices = this.devices.opened.reduce((sum, device) => sum + device.writes, 0);
    return this.network.writes + this.firewall.writes + ofDevices;
  }

  /** Everything that the machine holds, for golden tests; keys are public ones only. */
  print(): string {
    const device = this.devices.current?.print() ?? "no device";
    return [this.network.print(), this.firewall.print(), device].filter((s) => s !== "").join("\n");
  }
}
