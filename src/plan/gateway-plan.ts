/** What a gateway's machine must hold: one peer per agent, routes for the approved ranges, answers only. */

import type { AgentId } from "#src/model/agent-id.ts";
import { mappedBlocks, mappedOf, type AddressMap } from "#src/model/address-map.ts";
import { cidrParts, compareCidrs, containsIp, hostCidr, type Cidr } from "#src/model/cidr.ts";
import type { DeviceDesired, DevicePeer } from "#src/model/device.ts";
import type { Endpoint } from "#src/model/endpoint.ts";
import type { Finding } from "#src/model/finding.ts";
import { familyOf, type IpAddress } from "#src/model/ip.ts";
import type { FirewallTable, NetworkDesired, Route } from "#src/model/network.ts";
import type { Slot } from "#src/model/slot.ts";
import type { AgentClaim, NodeFacts, Tunnel } from "#src/model/tunnel.ts";
import { usableMaps } from "./address-map-use.ts";
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
  /** As the controller published them. */
  readonly maps: readonly AddressMap[];
  readonly pod: PodFacts;
}

/** What a gateway sees of the pod that it is in. */
export interface PodFacts {
  /** Addresses of the seed that it needs besides those that the Tunnel names: its API servers, its DNS servers. */
  readonly needed: readonly IpAddress[];
  /** Interfaces that refuse a packet whose source would be answered elsewhere. */
  readonly strictInterfaces: readonly string[];
}

export interface GatewayPlan {
  readonly device: DeviceDesired;
  readonly network: NetworkDesired;
  readonly firewall: FirewallTable;
  readonly findings: readonly Finding[];
  /** Nodes of the shoot, and those among them that are peers. */
  readonly agents: { readonly total: number; readonly planned: number };
}

const RP_FILTER_LOOSE = "2";

/** Plans one gateway; equal facts give an equal plan, whatever their order. */
export const planGateway = (facts: GatewayFacts): GatewayPlan => {
  const { tunnel } = facts;
  const maps = usableMaps({ ...tunnel, maps: facts.maps, object: describe(tunnel) });
  const own = slotAddresses(tunnel.transit, facts.slot);
  const addresses = [...own, ...imagesOf(own, maps.transit)];
  const keptOut = keptOutOf(facts);
  const isApart = keptOut.length > 0 || maps.ranges.length > 0;
  const { winners, losers } = winningClaims(facts.claims);
  const approved = shareApproved({ ranges: tunnel.ranges, nodes: facts.nodes });
  const peers = planPeers(facts, { winners, shares: approved.shares, maps: maps.ranges });
  const routes = [
    ...planRoutes(allRanges(tunnel), own),
    ...planRoutes(
      maps.ranges.map(({ mapped }) => mapped),
      imagesOf(own, maps.transit),
    ),
  ];
  return {
    device: { peers, steering: [] },
    network: {
      interface: facts.interface,
      mtu: tunnel.mtu,
      addresses: addresses.map(hostCidr),
      ...(isApart ? setApart(routes, keptOut) : { routes }),
      sysctls: isApart ? loosened(facts.pod) : {},
    },
    firewall: answersOnly(facts.interface, isApart),
    findings: [
      ...losers,
      ...approved.findings,
      ...maps.findings,
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
    readonly maps: readonly AddressMap[];
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
      const real = [
        ...share.addresses.map(hostCidr),
        ...share.podCidrs,
        ...(claim.node === facts.relay ? forRelay : []),
      ];
      const allowedIps = [...real, ...real.flatMap((block) => mappedBlocks(known.maps, block))];
      return [{ publicKey, agentId, slot: facts.slot, endpoint: facts.endpoint, allowedIps }];
    });
};

const imagesOf = (
  addresses: readonly IpAddress[],
  maps: readonly AddressMap[],
): readonly IpAddress[] =>
  addresses.map((address) => mappedOf(maps, address)).filter((address) => address !== null);

/** What the seed's side needs and a route of ours would take away. */
const keptOutOf = (facts: GatewayFacts): readonly Cidr[] => {
  const { tunnel, endpoint } = facts;
  const needed = [
    ...tunnel.seedAddresses.map(({ address }) => address),
    ...facts.pod.needed,
    ...(endpoint === null ? [] : [endpoint.address]),
  ];
  const ranges = allRanges(tunnel);
  return [...new Set(needed)]
    .filter((address) => ranges.some((range) => containsIp(range, address)))
    .map(hostCidr)
    .toSorted(compareCidrs);
};

/**
 * Where ranges of both sides overlap, our routes live in a table of their own: they win over equal ones of the pod's, let
 * needed addresses pass to these, and answers to whoever dialed this pod go back as they came.
 */
const setApart = (
  routes: readonly Route[],
  keptOut: readonly Cidr[],
): Pick<NetworkDesired, "routes" | "rules"> => {
  const table = "own" as const;
  const all = [
    ...routes.map((route) => ({ ...route, table })),
    ...keptOut.map(
      (destination) => ({ destination, source: null, table, way: "keep-out" }) as const,
    ),
  ];
  const families = new Set(all.map(({ destination }) => cidrParts(destination).family));
  return { routes: all, rules: ([4, 6] as const).filter((family) => families.has(family)) };
};

/** A packet from an address that both sides have comes from the pod's side, though its route leads into the tunnel. */
const loosened = ({ strictInterfaces }: PodFacts): Readonly<Record<string, string>> =>
  Object.fromEntries(
    strictInterfaces.map((name) => [`net.ipv4.conf.${name}.rp_filter`, RP_FILTER_LOOSE]),
  );

/** The source is named, so that replies come to the slot's address whatever else the pod has (W40). */
const planRoutes = (ranges: readonly Cidr[], addresses: readonly IpAddress[]): Route[] =>
  ranges.flatMap((destination) => {
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
const answersOnly = (interfaceName: string, isApart: boolean): FirewallTable => {
  const rules = [
    { kind: "accept-replies", from: "tunnel" },
    { kind: "drop-new", from: "tunnel" },
  ] as const;
  const answer = { hook: "answer", rules: [{ kind: "mark-answers", to: "tunnel" }] } as const;
  return {
    interface: interfaceName,
    chains: [{ hook: "input", rules }, { hook: "forward", rules }, ...(isApart ? [answer] : [])],
  };
};

const familyFindings = (tunnel: Tunnel): Finding[] =>
  allRanges(tunnel)
    .filter((range) => !tunnel.transit.some((cidr) => isSameFamily(cidr, range)))
    .map((range) => ({
      code: "family-without-transit",
      object: `Tunnel ${tunnel.namespace}/${tunnel.name}`,
      message: `the range ${range} is not carried: spec.transit has no IPv${cidrParts(range).family} range; add one`,
    }));

const describe = ({ namespace, name }: Tunnel): string => `Tunnel ${namespace}/${name}`;

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
