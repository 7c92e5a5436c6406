/** Where datagrams are sent to: what machines say of their own bridges is never believed. */

import fc from "fast-check";
import t from "tap";
import { parseAgentId } from "#src/model/agent-id.ts";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { parseEndpoint } from "#src/model/endpoint.ts";
import { parseIp } from "#src/model/ip.ts";
import { publicKeyFromBytes } from "#src/model/key.ts";
import { valueOf } from "#src/model/parsed.ts";
import { parseSlot } from "#src/model/slot.ts";
import type { AgentClaim, NodeFacts, Tunnel } from "#src/model/tunnel.ts";
import { planAgent } from "./agent-plan.ts";
import { planGateway } from "./gateway-plan.ts";

const c = (text: string): Cidr => valueOf(parseCidr(text));

const tunnel: Tunnel = {
  namespace: "shoot--lab--alpha",
  name: "alpha",
  generation: 1,
  ranges: {
    nodes: [c("10.250.0.0/20"), c("fd00:250::/64")],
    pods: [c("172.17.0.0/16"), c("fd00:222::/56")],
    services: [c("10.97.0.0/22"), c("fd00:97::/112")],
  },
  endpoint: null,
  mode: "tun",
  transit: [c("198.18.0.0/23")],
  slots: 4,
  mtu: 1380,
  mapped: "overlapping",
  seedAddresses: [],
};
const endpoint = valueOf(parseEndpoint("192.0.2.10:51820"));

/** The first addresses of bridges of pods and of containers, the same on many machines; none is a node's own. */
const bridges = ["172.17.0.1", "172.18.0.1", "10.88.0.1", "192.168.122.1", "fd00:222::1"];
const own = {
  n1: ["10.250.0.11", "fd00:250::11"],
  n2: ["10.250.0.12", "fd00:250::12"],
} as const;

const node = (name: keyof typeof own, addresses: readonly string[]): NodeFacts => ({
  name,
  uid: `uid-${name}`,
  createdMs: 0,
  addresses: addresses.map((text) => valueOf(parseIp(text))),
  podCidrs: [],
  isReady: true,
});

const claim = (name: keyof typeof own, id: number): AgentClaim => ({
  node: name,
  uid: `agent-${name}`,
  createdMs: 0,
  publicKey: valueOf(publicKeyFromBytes(new Uint8Array(32).fill(id))),
  agentId: valueOf(parseAgentId(id)),
  port: 51820,
});

const claims = [claim("n1", 1), claim("n2", 2)];

/** A node's own addresses among those of bridges, in any order. */
const mixed = (name: keyof typeof own): fc.Arbitrary<readonly string[]> =>
  fc.shuffledSubarray([...bridges, ...own[name]], { minLength: bridges.length + 2 });

t.test(
  "W18 whatever bridges nodes list among their addresses, agents steer to a node's own address",
  async () => {
    fc.assert(
      fc.property(mixed("n1"), mixed("n2"), (first, second) => {
        const { device } = planAgent({
          node: "n1",
          agentId: valueOf(parseAgentId(1)),
          interface: "xylem0",
          gateways: {
            slots: [],
            transit: tunnel.transit,
            ranges: tunnel.ranges,
            mtu: 1380,
            maps: [],
          },
          nodes: [node("n1", first), node("n2", second)],
          claims,
        });
        const targets: readonly string[] = device.steering.map((each) => each.endpoint.address);
        return targets.length === 1 && own.n2.some((address) => targets[0] === address);
      }),
    );
  },
);

t.test("W18 whatever nodes list, a gateway sends to the tunnel's endpoint alone", async () => {
  fc.assert(
    fc.property(mixed("n1"), mixed("n2"), (first, second) => {
      const { device } = planGateway({
        tunnel,
        slot: valueOf(parseSlot(0)),
        interface: "xylem0",
        nodes: [node("n1", first), node("n2", second)],
        claims,
        endpoint,
        relay: "n1",
        maps: [],
        pod: { needed: [], strictInterfaces: [] },
      });
      return device.peers.length === 2 && device.peers.every((p) => p.endpoint === endpoint);
    }),
  );
});
