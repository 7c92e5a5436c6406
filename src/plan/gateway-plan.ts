/** What a gateway's machine must hold: one peer per agent, routes for the approved ranges, answers only. */

import type { AgentId } from "#src/model/agent-id.ts";
import { cidrParts, hostCidr, type Cidr } from "#src/model/cidr.ts";
import type { DeviceDesired, DevicePeer } from "#src/model/device.ts";
import type { Endpoint } from "#src/model/endpoint.ts";
import type { Finding } from "#src/model/finding.ts";
import { familyOf, type IpAddress } from "#src/model/ip.ts";
import type { FirewallTable, NetworkDesired, Route } from "#src/model/network.ts";
import type { Slot } from "#src/model/slot.ts";
import type { AgentClaim, NodeFacts, Tunnel } from "#src/model/tunnel.ts";
import { winningClaims } from "./agent-id-plan.ts";
import { shareApproved, type NodeShare } from "./approved.ts";
import { slotAddresses } from "./transit.ts";

export interface GatewayFacts {
  readonly tunnel: Tunnel;
  readonly slot: Slot;
  readonly interface: string;
  readonly nodes: readonly NodeFacts[];
  readonly claims: readonly AgentClaim[];
  /** Where the balancer is; null: not known yet. */
  readonly endpoint: Endpoint | null;
  /** Node that carries what no single node owns; null: none. */
  readonly relay: string | null;
}

export interface GatewayPlan {
  readonly device: DeviceDesired;
  readonly network: NetworkDesired;
  readonly firewall: FirewallTable;
  readonly findings: readonly Finding[];
  /** Nodes of the shoot, and those among them that are peers. */
  readonly agents: { readonly total: number; readonly planned: number };
}

/** Plans one gateway; equal facts give an equal plan, whatever their order. */
export const planGateway = (facts: GatewayFacts): GatewayPlan => {
  const { tunnel } = facts;
  const addresses = slotAddresses(tunnel.transit, facts.slot);
  const { winners, losers } = winningClaims(facts.claims);
  const approved = shareApproved({ ranges: tunnel.ranges, nodes: facts.nodes });
  const peers = planPeers(facts, { winners, shares: approved.shares });
  return {
    device: { peers, steering: [] },
    network: {
      interface: facts.interface,
      mtu: tunnel.mtu,
      addresses: addresses.map(hostCidr),
      routes: planRoutes(tunnel, addresses),
      sysctls: {},
    },
    firewall: answersOnly(facts.interface),
    findings: [
      ...losers,
      ...approved.findings,
      ...familyFindings(tunnel),
      ...relayFindings(facts, winners),
      ...endpointFindings(facts),
    ],
    agents: { total: facts.nodes.length, planned: peers.length },
  };
};

const planPeers = (
  facts: GatewayFacts,
  known: {
    readonly winners: ReadonlyMap<AgentId, AgentClaim>;
    readonly shares: ReadonlyMap<string, NodeShare>;
  },
): DevicePeer[] => {
  const owned = new Set<Cidr>([...known.shares.values()].flatMap((share) => share.podCidrs));
  const forRelay = [...facts.tunnel.ranges.services, ...facts.tunnel.ranges.pods].filter(
    (block) => !owned.has(block),
  );
  return [...known.winners.values()]
    .toSorted((a, b) => a.agentId - b.agentId)
    .flatMap((claim): DevicePeer[] => {
      const share = known.shares.get(claim.node);
      if (share === undefined) return [];
      const { publicKey, agentId } = claim;
      const allowedIps = [
        ...share.addresses.map(hostCidr),
        ...share.podCidrs,
        ...(claim.node === facts.relay ? forRelay : []),
      ];
      return [{ publicKey, agentId, slot: facts.slot, endpoint: facts.endpoint, allowedIps }];
    });
};

/** The source is named, so that replies come to the slot's address whatever else the pod has (W40). */
const planRoutes = (tunnel: Tunnel, addresses: readonly IpAddress[]): Route[] =>
  allRanges(tunnel).flatMap((destination) => {
    const { family } = cidrParts(destination);
    const source = addresses.find((address) => familyOf(address) === family);
    return source === undefined ? [] : [{ destination, source }];
  });

const allRanges = ({ ranges }: Tunnel): Cidr[] => [
  ...ranges.nodes,
  ...ranges.pods,
  ...ranges.services,
];

/** Nothing opens connections toward the seed; what the pod itself sends is not filtered. */
const answersOnly = (interfaceName: string): FirewallTable => ({
  interface: interfaceName,
  chains: (["input", "forward"] as const).map((hook) => ({
    hook,
    rules: [
      { kind: "accept-replies", from: "tunnel" },
      { kind: "drop-new", from: "tunnel" },
    ],
  })),
});

const familyFindings = (tunnel: Tunnel): Finding[] =>
  allRanges(tunnel)
    .filter((range) => !tunnel.transit.some((cidr) => isSameFamily(cidr, range)))
    .map((range) => ({
      code: "family-without-transit",
      object: `Tunnel ${tunnel.namespace}/${tunnel.name}`,
      message: `the range ${range} is not carried: spec.transit has no IPv${cidrParts(range).family} range; add one`,
    }));

const isSameFamily = (a: Cidr, b: Cidr): boolean => cidrParts(a).family === cidrParts(b).family;

const relayFindings = (
  facts: GatewayFacts,
  winners: ReadonlyMap<AgentId, AgentClaim>,
): Finding[] => {
  const { relay, tunnel } = facts;
  const object = `Tunnel ${tunnel.namespace}/${tunnel.name}`;
  if (relay === null) {
    return [
      {
        code: "no-relay",
        object,
        message: "services are not reachable: no agent can be the relay",
      },
    ];
  }
  const isPeer =
    facts.nodes.some(({ name }) => name === relay) &&
    [...winners.values()].some(({ node }) => node === relay);
  if (isPeer) return [];
  const message = `services are not reachable: the relay ${relay} is no node with a valid TunnelAgent`;
  return [{ code: "relay-without-agent", object, message }];
};

const endpointFindings = ({ endpoint, tunnel }: GatewayFacts): Finding[] =>
  endpoint === null
    ? [
        {
          code: "no-endpoint",
          object: `Tunnel ${tunnel.namespace}/${tunnel.name}`,
          message:
            "the agents' address is not known: wait for the address of Service kube-system/xylem-agent, or set spec.endpoint",
        },
      ]
    : [];
