/** Desired states of a gateway's and an agent's machine, as tests of this room use them. */

import { parseAgentId } from "#src/model/agent-id.ts";
import { parseCidr } from "#src/model/cidr.ts";
import { parseEndpoint } from "#src/model/endpoint.ts";
import { parseIp } from "#src/model/ip.ts";
import { parsePrivateKey, publicKeyFromBytes } from "#src/model/key.ts";
import type { Route } from "#src/model/network.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { parseSlot } from "#src/model/slot.ts";
import type { Device, DeviceFactory, DeviceOptions } from "#src/ports/device.ts";
import type { HostDesired } from "./host.ts";

export const INTERFACE = "xylem0";

/** Slot 2, both families, one node. */
export const gatewayDesired: HostDesired = {
  network: {
    interface: INTERFACE,
    mtu: 1380,
    addresses: [cidr("198.18.0.3/32"), cidr("fd00:18::3/128")],
    routes: [route("10.250.0.0/20", "198.18.0.3"), route("fd00:222::/48", "fd00:18::3")],
    sysctls: {},
  },
  firewall: {
    interface: INTERFACE,
    chains: [
      {
        hook: "input",
        rules: [
          { kind: "accept-replies", from: "tunnel" },
          { kind: "drop-new", from: "tunnel" },
        ],
      },
      { hook: "forward", rules: [{ kind: "drop-new", from: "tunnel" }] },
    ],
  },
  device: {
    peers: [
      {
        publicKey: key(1),
        agentId: must(parseAgentId(4711)),
        slot: must(parseSlot(2)),
        endpoint: must(parseEndpoint("192.0.2.10:51820")),
        allowedIps: [cidr("10.250.3.7/32"), cidr("fd00:222:3::/64")],
      },
    ],
    steering: [],
  },
};

/** Agent 4711, IPv4, one slot, one other agent. */
export const agentDesired: HostDesired = {
  network: {
    interface: INTERFACE,
    mtu: 1380,
    addresses: [],
    routes: [route("198.18.0.0/23", null)],
    sysctls: { [`net.ipv4.conf.${INTERFACE}.rp_filter`]: "2" },
  },
  firewall: {
    interface: INTERFACE,
    chains: [
      {
        hook: "forward",
        rules: [
          {
            kind: "only-destinations",
            from: "tunnel",
            destinations: [cidr("10.222.0.0/17"), cidr("10.97.0.0/22")],
          },
          { kind: "drop-new-into", to: "tunnel" },
        ],
      },
      { hook: "output", rules: [{ kind: "drop-new-into", to: "tunnel" }] },
      {
        hook: "postrouting",
        rules: [{ kind: "masquerade", from: "tunnel", sources: [cidr("198.18.0.0/23")] }],
      },
    ],
  },
  device: {
    peers: [
      {
        publicKey: key(2),
        agentId: must(parseAgentId(4711)),
        slot: must(parseSlot(0)),
        endpoint: null,
        allowedIps: [cidr("198.18.0.1/32")],
      },
    ],
    steering: [
      {
        agentId: must(parseAgentId(99)),
        publicKey: key(3),
        endpoint: must(parseEndpoint("10.250.3.8:51820")),
      },
    ],
  },
};

/** The same state with other transit addresses, as another slot has them. */
export function withAddresses(desired: HostDesired, to: { v4: string; v6: string }): HostDesired {
  const { network } = desired;
  const sourceOf = (destination: string): string => (destination.includes(":") ? to.v6 : to.v4);
  return {
    ...desired,
    network: {
      ...network,
      addresses: [cidr(`${to.v4}/32`), cidr(`${to.v6}/128`)],
      routes: network.routes.map(({ destination }) => route(destination, sourceOf(destination))),
    },
  };
}

/** Opens the device that belongs to one of the two states. */
export function openDevice(devices: DeviceFactory, kind: "gateway" | "agent"): Promise<Device> {
  return devices.open(deviceOptions(kind), () => undefined);
}

/** Who the device of one of the two states is. */
export function deviceOptions(kind: "gateway" | "agent"): DeviceOptions {
  const isGateway = kind === "gateway";
  return {
    identity: isGateway
      ? { kind, slot: must(parseSlot(2)) }
      : { kind, agentId: must(parseAgentId(4711)) },
    privateKey: must(parsePrivateKey(new Uint8Array(32).fill(7))),
    interface: INTERFACE,
    mtu: 1380,
    listenPort: isGateway ? 0 : 51_820,
    paths: isGateway ? 4 : 1,
    offload: true,
  };
}

function key(first: number) {
  const bytes = new Uint8Array(32);
  bytes[0] = first;
  return must(publicKeyFromBytes(bytes));
}

function route(destination: string, source: string | null): Route {
  return { destination: cidr(destination), source: source === null ? null : must(parseIp(source)) };
}

function cidr(text: string) {
  return must(parseCidr(text));
}

function must<T>(read: Parsed<T>): T {
  if (read.ok) return read.value;
  throw new TypeError(read.problem);
}
