/** Turns the data plane's error codes into sentences that say what to do. */

import type { DeviceErrorCode, DeviceOptions } from "#src/ports/device.ts";
import { HostError } from "#src/ports/host-error.ts";
import { holderOfUdpPort } from "./udp-port-holder.ts";

const CODES: readonly DeviceErrorCode[] = [
  "no-tun",
  "no-permission",
  "port-in-use",
  "interface-in-use",
  "bad-config",
  "closed",
  "io",
];

/** The error that a caller gets for a failure of the addon; unknown codes count as `io`. */
export async function deviceError(
  cause: unknown,
  options: DeviceOptions,
): Promise<HostError<DeviceErrorCode>> {
  const said = cause instanceof Error ? cause.message : String(cause);
  const given = cause instanceof Error && "code" in cause ? cause.code : undefined;
  const code = CODES.find((known) => known === given) ?? "io";
  return new HostError(code, await sentence({ code, said, options }), { cause });
}

async function sentence(failure: {
  code: DeviceErrorCode;
  said: string;
  options: DeviceOptions;
}): Promise<string> {
  const { code, said, options } = failure;
  const name = options.interface;
  switch (code) {
    case "no-tun":
      return (
        `Device ${name} can't be opened: /dev/net/tun is missing in this container. ` +
        "Mount it (hostPath /dev/net/tun, type CharDevice), and load the kernel module tun on the host."
      );
    case "no-permission":
      return `Device ${name} can't be opened: give the container the capability NET_ADMIN (${said}).`;
    case "port-in-use": {
      const holder = await holderOfUdpPort(options.listenPort);
      const who = holder === null ? "another program (ss -lunp names it)" : holder;
      return `UDP port ${options.listenPort} is taken by ${who}: stop it, or give the tunnel another port.`;
    }
    case "interface-in-use":
      return `Interface ${name} is in use by another program: stop the other instance, or choose another name.`;
    case "bad-config":
      return `The data plane refuses the configuration of ${name}: ${said}`;
    case "closed":
      return `Device ${name} is closed.`;
    case "io":
      return `Device ${name} failed: ${said}`;
  }
}
