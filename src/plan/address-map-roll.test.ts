/** Gateway and agent know different parts of one list of maps: whatever arrives is right, or nothing arrives. */

import fc from "fast-check";
import t from "tap";
import { realOf, type AddressMap } from "#src/model/address-map.ts";
import { parseAgentId } from "#src/model/agent-id.ts";
import { addressAt, cidrParts, containsIp, parseCidr, sizeOf, type Cidr } from "#src/model/cidr.ts";
import { parseEndpoint } from "#src/model/endpoint.ts";
import { familyOf, parseIp, type IpAddress } from "#src/model/ip.ts";
import { publicKeyFromBytes } from "#src/model/key.ts";
import type { FirewallRule, FirewallTable } from "#src/model/network.ts";
import { valueOf } from "#src/model/parsed.ts";
import { parseSlot } from "#src/model/slot.ts";
import type { AgentClaim, NodeFacts, Tunnel } from "#src/model/tunnel.ts";
import { planAgent, type AgentPlan } from "./agent-plan.ts";
import { planGateway, type GatewayPlan } from "./gateway-plan.ts";
import { slotAddresses } from "./transit.ts";

const c = (text: string): Cidr => valueOf(parseCidr(text));
const key = (n: number) => valueOf(publicKeyFromBytes(new Uint8Array(32).fill(n)));
const slot = valueOf(parseSlot(2));
const agentId = valueOf(parseAgentId(7));

const tunnel: Tunnel = {
  namespace: "shoot--lab--alpha",
  name: "alpha",
  generation: 1,
  ranges: {
    nodes: [c("10.250.0.0/20"), c("fd25::/64")],
    pods: [c("10.128.0.0/17"), c("10.130.0.0/24")],
    services: [c("172.28.0.0/22")],
  },
  endpoint: null,
  mode: "tun",
  transit: [c("198.18.0.0/23"), c("fd18::/112")],
  slots: 32,
  mtu: 1380,
  mapped: "overlapping",
  seedAddresses: [],
};
/** All that will ever be stored; each end knows some of it. */
const LEDGER: readonly AddressMap[] = [
  ["198.18.0.0/23", "10.64.0.0/23"],
  ["fd18::/112", "fd98::/112"],
  ["10.250.0.0/20", "10.64.16.0/20"],
  ["10.128.0.0/17", "10.65.0.0/17"],
  ["10.130.0.0/24", "10.65.128.0/24"],
  ["172.28.0.0/22", "10.65.132.0/22"],
  ["fd25::/64", "fd99::/64"],
].map(([real = "", mapped = ""]) => ({ real: c(real), mapped: c(mapped) }));

const node: NodeFacts = {
  name: "n1",
  uid: "uid-n1",
  createdMs: 0,
  addresses: [valueOf(parseIp("10.250.0.2")), valueOf(parseIp("fd25::2"))],
  podCidrs: [c("10.128.1.0/24")],
  isReady: true,
};
const claim: AgentClaim = {
  node: "n1",
  uid: "uid-claim",
  createdMs: 0,
  publicKey: key(1),
  agentId,
  port: 51_820,
};

const gatewayOf = (maps: readonly AddressMap[]): GatewayPlan =>
  planGateway({
    tunnel,
    slot,
    interface: "xylem0",
    nodes: [node],
    claims: [claim],
    endpoint: valueOf(parseEndpoint("192.0.2.10:51820")),
    relay: "n1",
    maps,
    pod: { needed: [], strictInterfaces: [] },
  });

const agentOf = (maps: readonly AddressMap[], ranges = tunnel.ranges): AgentPlan =>
  planAgent({
    node: "n1",
    agentId,
    interface: "xylem0",
    gateways: {
      slots: [{ slot, publicKey: key(2), addresses: slotAddresses(tunnel.transit, slot) }],
      transit: tunnel.transit,
      ranges,
      mtu: 1380,
      maps,
    },
    nodes: [node],
    claims: [claim],
  });

interface Packet {
  readonly source: IpAddress;
  readonly destination: IpAddress;
}

const holds = (blocks: readonly Cidr[], address: IpAddress): boolean =>
  blocks.some((block) => containsIp(block, address));

const rulesOf = (table: FirewallTable, hook: string): readonly FirewallRule[] =>
  table.chains.filter((chain) => chain.hook === hook).flatMap(({ rules }) => rules);

/** As kernel and WireGuard would: longest route, its source, the peer that may have the address. Null: it stays here. */
const sent = ({ network, device }: GatewayPlan, destination: IpAddress): Packet | null => {
  const [route] = network.routes
    .filter((one) => one.way === undefined && containsIp(one.destination, destination))
    .toSorted((a, b) => cidrParts(b.destination).length - cidrParts(a.destination).length);
  const isPeers = device.peers.some(({ allowedIps }) => holds(allowedIps, destination));
  if (route === undefined || route.source === null || !isPeers) return null;
  return { source: route.source, destination };
};

/** What reaches the node or goes on to its pods; null: refused. */
const delivered = ({ device, firewall }: AgentPlan, packet: Packet): Packet | null => {
  if (!device.peers.some(({ allowedIps }) => holds(allowedIps, packet.source))) return null;
  const rewritten = rulesOf(firewall, "arrival").reduce<Packet>((before, rule) => {
    if (rule.kind !== "map-destination") return before;
    const destination = realOf([rule], before.destination);
    return destination === null ? before : { ...before, destination };
  }, packet);
  const isOpen = rulesOf(firewall, "forward").every(
    (rule) => rule.kind !== "only-destinations" || holds(rule.destinations, rewritten.destination),
  );
  return isOpen ? rewritten : null;
};

/** The answer as the gateway gets it; null: the node does not lead it into the tunnel. */
const answered = ({ network, firewall }: AgentPlan, got: Packet): Packet | null => {
  const back = { source: got.destination, destination: got.source };
  if (!network.routes.some(({ destination }) => containsIp(destination, back.destination)))
    return null;
  return rulesOf(firewall, "departure").reduce<Packet>((before, rule) => {
    if (rule.kind !== "map-source" || !holds(rule.destinations, before.destination)) return before;
    const source = realOf([{ real: rule.mapped, mapped: rule.real }], before.source);
    return source === null ? before : { ...before, source };
  }, back);
};

const everything = [
  ...tunnel.ranges.nodes,
  ...tunnel.ranges.pods,
  ...tunnel.ranges.services,
  ...LEDGER.map(({ mapped }) => mapped),
];

const address = fc
  .constantFrom(...everything)
  .chain((block) =>
    fc.bigInt({ min: 0n, max: sizeOf(block) - 1n }).map((index) => addressAt(block, index)),
  )
  .filter((found) => found !== null);

const part = fc.shuffledSubarray([...LEDGER]);

void t.test(
  "whatever each end knows, a packet reaches the address that its own stands for, or none",
  async () => {
    fc.assert(
      fc.property(part, part, address, (ofGateway, ofAgent, dialed) => {
        const gateway = gatewayOf(ofGateway);
        const packet = sent(gateway, dialed);
        const agent = agentOf(ofAgent);
        const got = packet === null ? null : delivered(agent, packet);
        if (packet === null || got === null) return true;
        const wanted = realOf(LEDGER, dialed) ?? dialed;
        if (got.destination !== wanted) return false;
        const back = answered(agent, got);
        if (back === null || back.source === dialed) return true;
        // It must not be taken for the answer to a connection with that other address.
        return sent(gateway, back.source)?.source !== back.destination;
      }),
      { numRuns: 2_000 },
    );
  },
);

void t.test(
  "where both know a map its addresses work, and real ones do for everybody",
  async () => {
    fc.assert(
      fc.property(part, part, address, (ofGateway, ofAgent, dialed) => {
        const real = realOf(LEDGER, dialed);
        const isKnown = (maps: readonly AddressMap[]): boolean =>
          real === null ||
          (maps.some(({ mapped }) => containsIp(mapped, dialed)) &&
            maps.some(
              ({ mapped }) =>
                mapped === (familyOf(dialed) === 4 ? c("10.64.0.0/23") : c("fd98::/112")),
            ));
        const isTransit = real !== null && holds(tunnel.transit, real);
        if (isTransit || !isKnown(ofGateway) || !isKnown(ofAgent)) return true;
        const packet = sent(gatewayOf(ofGateway), dialed);
        // The relay has what no node has, but not other nodes' own addresses.
        if (packet === null) return holds(tunnel.ranges.nodes, real ?? dialed);
        const agent = agentOf(ofAgent);
        const got = delivered(agent, packet);
        const back = got === null ? null : answered(agent, got);
        return (
          got?.destination === (real ?? dialed) &&
          back?.source === dialed &&
          back.destination === packet.source
        );
      }),
      { numRuns: 2_000 },
    );
  },
);

void t.test("an agent that is older in ranges, too, refuses what it does not know", async (t) => {
  const older = { ...tunnel.ranges, pods: [c("10.128.0.0/17")] };
  const agent = agentOf(LEDGER, older);
  const dialed = valueOf(parseIp("10.65.128.7"));
  const packet = sent(gatewayOf(LEDGER), dialed);
  t.ok(packet);
  if (packet !== null) t.equal(delivered(agent, packet), null);
});

void t.test("without maps nothing of them is on either machine", async (t) => {
  const agent = agentOf([]);
  t.same(rulesOf(agent.firewall, "arrival"), []);
  t.same(rulesOf(agent.firewall, "departure"), []);
  const { network, firewall } = gatewayOf([]);
  t.equal(network.rules, undefined);
  t.ok(network.routes.every(({ table }) => table === undefined));
  t.same(rulesOf(firewall, "answer"), []);
});

void t.test(
  "with maps a gateway's routes are apart, and needed addresses are kept out of them",
  async (t) => {
    const seedAddresses = [{ name: "etcd", address: valueOf(parseIp("172.28.2.7")) }];
    const plan = planGateway({
      tunnel: { ...tunnel, seedAddresses },
      slot,
      interface: "xylem0",
      nodes: [node],
      claims: [claim],
      endpoint: valueOf(parseEndpoint("10.250.3.3:51820")),
      relay: "n1",
      maps: LEDGER,
      pod: {
        needed: [valueOf(parseIp("10.128.40.10")), valueOf(parseIp("192.0.2.53"))],
        strictInterfaces: ["eth0"],
      },
    });
    const keptOut = plan.network.routes.filter(({ way }) => way === "keep-out");
    t.same(
      keptOut.map(({ destination }) => destination),
      ["10.128.40.10/32", "10.250.3.3/32", "172.28.2.7/32"],
    );
    t.ok(plan.network.routes.every(({ table }) => table === "own"));
    t.same(plan.network.rules, [4, 6]);
    t.same(plan.network.sysctls, { "net.ipv4.conf.eth0.rp_filter": "2" });
    t.same(plan.network.addresses, ["198.18.0.3/32", "fd18::3/128", "10.64.0.3/32", "fd98::3/128"]);
    t.same(rulesOf(plan.firewall, "answer"), [{ kind: "mark-answers", to: "tunnel" }]);
  },
);
