/** Tests of planning gateways and agents, on a shoot whose ranges differ in size and family. */

import fc from "fast-check";
import t from "tap";
import { parseAgentId } from "#src/model/agent-id.ts";
import { containsCidr, parseCidr, type Cidr } from "#src/model/cidr.ts";
import { parseEndpoint } from "#src/model/endpoint.ts";
import { parseIp } from "#src/model/ip.ts";
import { publicKeyFromBytes, type PublicKey } from "#src/model/key.ts";
import { valueOf } from "#src/model/parsed.ts";
import { parseSlot, slotsUpTo } from "#src/model/slot.ts";
import type { AgentClaim, NodeFacts, Tunnel, TunnelGateways } from "#src/model/tunnel.ts";
import { planAgent, type AgentFacts } from "./agent-plan.ts";
import { planGateway, type GatewayFacts } from "./gateway-plan.ts";
import { slotAddresses } from "./transit.ts";

const tunnel: Tunnel = {
  namespace: "shoot--lab--alpha",
  name: "alpha",
  generation: 1,
  ranges: {
    nodes: [c("10.250.0.0/20"), c("fd00:250::/64")],
    pods: [c("10.222.0.0/17"), c("fd00:222::/56")],
    services: [c("10.97.0.0/22"), c("fd00:97::/112")],
  },
  endpoint: null,
  mode: "tun",
  transit: [c("198.18.0.0/23"), c("fd00:18::/120")],
  slots: 32,
  mtu: 1380,
  mapped: "overlapping",
  seedAddresses: [],
};
const slot = valueOf(parseSlot(2));
const endpoint = valueOf(parseEndpoint("192.0.2.10:51820"));
const nodes = [
  node({
    name: "n1",
    addresses: ["10.250.0.2", "fd00:250::2"],
    podCidrs: ["10.222.1.0/24", "fd00:222:0:1::/64"],
  }),
  node({ name: "n2", addresses: ["10.250.0.3"], podCidrs: ["10.222.2.0/25"] }),
  node({ name: "n3", addresses: ["10.250.0.4"] }),
];
const claims = [claim("n1", 30), claim("n2", 10), claim("n3", 20)];
const gatewayFacts: GatewayFacts = {
  tunnel,
  slot,
  interface: "xylem0",
  nodes,
  claims,
  endpoint,
  relay: "n2",
  maps: [],
  pod: { needed: [], strictInterfaces: [] },
};

t.test("slot i has the address base + 1 + i of each transit range", async (t) => {
  t.same(slotAddresses(tunnel.transit, slot), ["198.18.0.3", "fd00:18::3"]);
  t.same(slotAddresses([c("198.18.0.0/30")], slot), ["198.18.0.3"]);
  t.same(slotAddresses([c("198.18.0.0/31")], slot), []);
});

t.test(
  "a gateway has one peer per node, and the relay carries services and other pods too",
  async (t) => {
    const { device, findings, agents } = planGateway(gatewayFacts);
    t.same(findings, []);
    t.same(agents, { total: 3, planned: 3 });
    t.same(device.steering, []);
    t.same(
      device.peers.map(({ agentId, allowedIps }) => ({ agentId, allowedIps })),
      [
        {
          agentId: 10,
          allowedIps: [
            "10.250.0.3/32",
            "10.222.2.0/25",
            "10.97.0.0/22",
            "fd00:97::/112",
            "10.222.0.0/17",
            "fd00:222::/56",
          ],
        },
        { agentId: 20, allowedIps: ["10.250.0.4/32"] },
        {
          agentId: 30,
          allowedIps: ["10.250.0.2/32", "fd00:250::2/128", "10.222.1.0/24", "fd00:222:0:1::/64"],
        },
      ],
    );
    t.ok(device.peers.every((peer) => peer.slot === slot && peer.endpoint === endpoint));
  },
);

t.test("W40 a gateway routes all approved ranges with its slot's address as source", async (t) => {
  const { network } = planGateway(gatewayFacts);
  t.same(network, {
    interface: "xylem0",
    mtu: 1380,
    addresses: ["198.18.0.3/32", "fd00:18::3/128"],
    routes: [
      { destination: "10.250.0.0/20", source: "198.18.0.3" },
      { destination: "fd00:250::/64", source: "fd00:18::3" },
      { destination: "10.222.0.0/17", source: "198.18.0.3" },
      { destination: "fd00:222::/56", source: "fd00:18::3" },
      { destination: "10.97.0.0/22", source: "198.18.0.3" },
      { destination: "fd00:97::/112", source: "fd00:18::3" },
    ],
    sysctls: {},
  });
});

t.test("S1 a gateway takes only replies from the tunnel, for itself and for others", async (t) => {
  const onlyReplies = [
    { kind: "accept-replies", from: "tunnel" },
    { kind: "drop-new", from: "tunnel" },
  ];
  t.same(planGateway(gatewayFacts).firewall, {
    interface: "xylem0",
    chains: [
      { hook: "input", rules: onlyReplies },
      { hook: "forward", rules: onlyReplies },
    ],
  });
});

t.test("ranges of a family without a transit range are left out and reported", async (t) => {
  const { network, findings } = planGateway({
    ...gatewayFacts,
    tunnel: { ...tunnel, transit: [c("198.18.0.0/23")] },
  });
  t.same(
    network.routes.map(({ destination }) => destination),
    ["10.250.0.0/20", "10.222.0.0/17", "10.97.0.0/22"],
  );
  t.same(
    findings.map(({ code }) => code),
    Array(3).fill("family-without-transit"),
  );
});

t.test("a prefix that a node owns whole is not the relay's, too", async (t) => {
  const small = { ...tunnel, ranges: { ...tunnel.ranges, pods: [c("10.222.1.0/24")] } };
  const { device } = planGateway({ ...gatewayFacts, tunnel: small });
  const holders = device.peers.filter(({ allowedIps }) => allowedIps.includes(c("10.222.1.0/24")));
  t.same(
    holders.map(({ agentId }) => agentId),
    [30],
  );
});

t.test("a node without a claim and a claim without a node are no peers", async (t) => {
  const plan = planGateway({ ...gatewayFacts, claims: [claim("n1", 30), claim("ghost", 5)] });
  t.same(
    plan.device.peers.map(({ agentId }) => agentId),
    [30],
  );
  t.same(plan.agents, { total: 3, planned: 1 });
  t.match(plan.findings, [{ code: "relay-without-agent", message: /the relay n2/ }]);
});

t.test("W27 a node that was made again under its name has the new key only", async (t) => {
  const again = { ...claim("n1", 30), publicKey: keyOf(99), uid: "new" };
  const { device } = planGateway({ ...gatewayFacts, claims: [again, ...claims.slice(1)] });
  t.equal(device.peers.length, 3);
  t.ok(device.peers.some(({ publicKey }) => publicKey === keyOf(99)));
  t.notOk(device.peers.some(({ publicKey }) => publicKey === claim("n1", 30).publicKey));
});

t.test("what is missing is said: no relay, no endpoint", async (t) => {
  const { findings } = planGateway({ ...gatewayFacts, relay: null, endpoint: null });
  t.same(
    findings.map(({ code }) => code),
    ["no-relay", "no-endpoint"],
  );
});

t.test(
  "S1 whatever nodes claim, a gateway's peers stay inside the approved ranges and never share a prefix",
  async () => {
    const text = fc.constantFrom(
      "10.222.0.0/17",
      "10.222.1.0/24",
      "10.222.1.128/25",
      "0.0.0.0/0",
      "10.97.0.0/24",
      "198.18.0.0/23",
      "::/0",
    );
    const ip = fc.constantFrom(
      "10.250.0.2",
      "10.250.0.3",
      "10.97.0.1",
      "198.18.0.1",
      "169.254.169.254",
      "fd00:250::2",
      "10.222.1.1",
    );
    const hostile = fc.array(
      fc.record({ addresses: fc.array(ip), podCidrs: fc.array(text), createdMs: fc.nat(3) }),
      { maxLength: 4 },
    );
    const approved = [...tunnel.ranges.nodes, ...tunnel.ranges.pods, ...tunnel.ranges.services];
    fc.assert(
      fc.property(hostile, (specs) => {
        const evil = specs.map((spec, at) => node({ name: `n${at + 1}`, ...spec }));
        const { device } = planGateway({
          ...gatewayFacts,
          nodes: evil,
          claims: evil.map(({ name }, at) => claim(name, at + 1)),
        });
        const all = device.peers.flatMap(({ allowedIps }) => allowedIps);
        return (
          new Set(all).size === all.length &&
          all.every((inner) => approved.some((outer) => containsCidr({ outer, inner })))
        );
      }),
      { numRuns: 500 },
    );
  },
);

t.test("W57 equal facts in another order give the same plan", async (t) => {
  const shuffled = { ...gatewayFacts, nodes: nodes.toReversed(), claims: claims.toReversed() };
  t.same(planGateway(shuffled), planGateway(gatewayFacts));
  t.same(
    planAgent({ ...agentFacts(), nodes: nodes.toReversed(), claims: claims.toReversed() }),
    planAgent(agentFacts()),
  );
});

t.test(
  "an agent has one peer per slot, with the slot's own addresses and nothing else",
  async (t) => {
    const { device, findings } = planAgent(agentFacts());
    t.same(findings, []);
    t.same(device.peers, [
      {
        publicKey: keyOf(100),
        agentId: 30,
        slot: 0,
        endpoint: null,
        allowedIps: ["198.18.0.1/32", "fd00:18::1/128"],
      },
      {
        publicKey: keyOf(101),
        agentId: 30,
        slot: 1,
        endpoint: null,
        allowedIps: ["198.18.0.2/32", "fd00:18::2/128"],
      },
    ]);
  },
);

t.test(
  "an agent steers to all other agents at their node addresses, and not to itself",
  async (t) => {
    t.same(planAgent(agentFacts()).device.steering, [
      {
        agentId: 10,
        publicKey: claim("n2", 10).publicKey,
        endpoint: { address: "10.250.0.3", port: 51820 },
      },
      {
        agentId: 20,
        publicKey: claim("n3", 20).publicKey,
        endpoint: { address: "10.250.0.4", port: 51820 },
      },
    ]);
  },
);

t.test("S1 an agent never steers to an address outside of the approved node ranges", async (t) => {
  const liar = node({ name: "n2", addresses: ["203.0.113.66", "169.254.169.254"] });
  const { device, findings } = planAgent({
    ...agentFacts(),
    nodes: [...nodes.filter(({ name }) => name !== "n2"), liar],
  });
  t.same(
    device.steering.map(({ agentId }) => agentId),
    [20],
  );
  t.same(
    findings.map(({ code }) => code),
    ["node-address-not-approved", "node-address-not-approved"],
  );
});

t.test("an agent prefers a family that its own node has", async (t) => {
  const own = node({ name: "n1", addresses: ["10.250.0.2"] });
  const dual = node({ name: "n2", addresses: ["fd00:250::3", "10.250.0.3"] });
  const { device } = planAgent({ ...agentFacts(), nodes: [own, dual] });
  t.match(device.steering, [{ endpoint: { address: "10.250.0.3" } }]);
});

t.test(
  "W37 an agent routes the transit ranges to the tunnel and loosens rp_filter of its interface only",
  async (t) => {
    t.same(planAgent(agentFacts()).network, {
      interface: "xylem0",
      mtu: 1400,
      addresses: [],
      routes: [
        { destination: "198.18.0.0/23", source: null },
        { destination: "fd00:18::/120", source: null },
      ],
      sysctls: { "net.ipv4.conf.xylem0.rp_filter": "2" },
    });
  },
);

t.test(
  "S1 an agent forwards to approved ranges only, lets nothing new into the tunnel, and masquerades",
  async (t) => {
    const { nodes: n, pods, services } = tunnel.ranges;
    const onlyApproved = {
      kind: "only-destinations",
      from: "tunnel",
      destinations: [...n, ...pods, ...services],
    };
    const nothingNew = { kind: "drop-new-into", to: "tunnel" };
    t.same(planAgent(agentFacts()).firewall, {
      interface: "xylem0",
      chains: [
        { hook: "input", rules: [onlyApproved] },
        { hook: "forward", rules: [onlyApproved, nothingNew] },
        { hook: "output", rules: [nothingNew] },
        {
          hook: "postrouting",
          rules: [{ kind: "masquerade", from: "tunnel", sources: tunnel.transit }],
        },
      ],
    });
  },
);

function agentFacts(): AgentFacts {
  const gateways: TunnelGateways = {
    slots: slotsUpTo(2)
      .toReversed()
      .map((number) => ({
        slot: number,
        publicKey: keyOf(100 + number),
        addresses: slotAddresses(tunnel.transit, number),
      })),
    transit: tunnel.transit,
    ranges: tunnel.ranges,
    mtu: 1400,
    maps: [],
  };
  return {
    node: "n1",
    agentId: valueOf(parseAgentId(30)),
    interface: "xylem0",
    gateways,
    nodes,
    claims,
  };
}

function c(text: string): Cidr {
  return valueOf(parseCidr(text));
}

function keyOf(seed: number): PublicKey {
  return valueOf(publicKeyFromBytes(new Uint8Array(32).fill(seed)));
}

function claim(name: string, agentId: number): AgentClaim {
  return {
    node: name,
    uid: `agent-${name}`,
    createdMs: 0,
    publicKey: keyOf(agentId),
    agentId: valueOf(parseAgentId(agentId)),
    port: 51820,
  };
}

function node(facts: {
  name: string;
  createdMs?: number;
  addresses?: string[];
  podCidrs?: string[];
}): NodeFacts {
  return {
    name: facts.name,
    uid: `uid-${facts.name}`,
    createdMs: facts.createdMs ?? 0,
    addresses: (facts.addresses ?? []).map((text) => valueOf(parseIp(text))),
    podCidrs: (facts.podCidrs ?? []).map(c),
    isReady: true,
  };
}
