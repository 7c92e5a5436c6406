/** What an agent's node must hold: one peer per gateway slot, steering to the other agents, forwarding to approved ranges only. */

import type { AgentId } from "#src/model/agent-id.ts";
import { mappedOf, type AddressMap } from "#src/model/address-map.ts";
import { cidrParts, hostCidr, type Cidr } from "#src/model/cidr.ts";
import type { DeviceDesired, SteeringTarget } from "#src/model/device.ts";
import type { Finding } from "#src/model/finding.ts";
import { familyOf, type IpAddress } from "#src/model/ip.ts";
import type { FirewallChain, FirewallTable, NetworkDesired } from "#src/model/network.ts";
import type { AgentClaim, NodeFacts, TunnelGateways } from "#src/model/tunnel.ts";
import { usableMaps, type UsableMaps } from "./address-map-use.ts";
import { winningClaims } from "./agent-id-plan.ts";
import { shareApproved } from "./approved.ts";

export interface AgentFacts {
  /** This agent's own node. */
  readonly node: string;
  readonly agentId: AgentId;
  readonly interface: string;
  readonly gateways: TunnelGateways;
  readonly nodes: readonly NodeFacts[];
  readonly claims: readonly AgentClaim[];
}

export interface AgentPlan {
  readonly device: DeviceDesired;
  readonly network: NetworkDesired;
  readonly firewall: FirewallTable;
  readonly findings: readonly Finding[];
}

/** Loose: the way back of a reply need not be the way in (W37). */
const RP_FILTER_LOOSE = "2";

/** Plans one agent; equal facts give an equal plan, whatever their order. */
export const planAgent = (facts: AgentFacts): AgentPlan => {
  const { gateways } = facts;
  const steering = planSteering(facts);
  const maps = usableMaps({ ...gateways, object: "TunnelGateways kube-system/xylem" });
  const transit = [...gateways.transit, ...maps.transit.map(({ mapped }) => mapped)];
  const isIpv4 = gateways.transit.some((cidr) => cidrParts(cidr).family === 4);
  const rpFilter = `net.ipv4.conf.${facts.interface}.rp_filter`;
  return {
    device: { peers: planPeers(facts, maps), steering: steering.targets },
    network: {
      interface: facts.interface,
      mtu: gateways.mtu,
      addresses: [],
      routes: transit.map((destination) => ({ destination, source: null })),
      sysctls: isIpv4 ? { [rpFilter]: RP_FILTER_LOOSE } : {},
    },
    firewall: planFirewall(facts, { maps, transit }),
    findings: [...steering.findings, ...maps.findings],
  };
};

/** A slot may use its own transit addresses, their images, and no others. */
const planPeers = ({ gateways, agentId }: AgentFacts, maps: UsableMaps): DeviceDesired["peers"] =>
  gateways.slots
    .toSorted((a, b) => a.slot - b.slot)
    .map(({ slot, publicKey, addresses }) => ({
      publicKey,
      agentId,
      slot,
      endpoint: null,
      allowedIps: withImages(addresses, maps.transit).map(hostCidr),
    }));

/**
 * Only addresses inside the approved node ranges are targets: a node that lies about its address can't make others
 * send datagrams to strangers.
 */
const planSteering = (
  facts: AgentFacts,
): { readonly targets: SteeringTarget[]; readonly findings: readonly Finding[] } => {
  const { winners, losers } = winningClaims(facts.claims);
  const approved = shareApproved({ ranges: facts.gateways.ranges, nodes: facts.nodes });
  const own = approved.shares.get(facts.node)?.addresses ?? [];
  const targets = [...winners.values()]
    .filter((claim) => claim.node !== facts.node && claim.agentId !== facts.agentId)
    .toSorted((a, b) => a.agentId - b.agentId)
    .flatMap(({ node, agentId, publicKey, port }) => {
      const address = reachableFrom(own, approved.shares.get(node)?.addresses ?? []);
      return address === undefined ? [] : [{ agentId, publicKey, endpoint: { address, port } }];
    });
  return { targets, findings: [...losers, ...approved.findings] };
};

/** The first address of a family that this node has, too; else the first one. */
const reachableFrom = (
  own: readonly IpAddress[],
  theirs: readonly IpAddress[],
): IpAddress | undefined => {
  const families = new Set(own.map(familyOf));
  return theirs.find((address) => families.has(familyOf(address))) ?? theirs[0];
};

const withImages = (
  addresses: readonly IpAddress[],
  maps: readonly AddressMap[],
): readonly IpAddress[] => [
  ...addresses,
  ...addresses.map((address) => mappedOf(maps, address)).filter((address) => address !== null),
];

/**
 * Services whose endpoints are host-network pods are forwarded to node addresses, so node ranges are destinations, too.
 * Nothing on the node or behind it opens a connection into the tunnel. A mapped destination is rewritten before any of
 * this, so that all other rules know real addresses alone.
 */
const planFirewall = (
  { gateways, interface: interfaceName }: AgentFacts,
  { maps, transit }: { readonly maps: UsableMaps; readonly transit: readonly Cidr[] },
): FirewallTable => {
  const { nodes, pods, services } = gateways.ranges;
  const onlyApproved = {
    kind: "only-destinations",
    from: "tunnel",
    destinations: [...nodes, ...pods, ...services],
  } as const;
  const nothingNew = { kind: "drop-new-into", to: "tunnel" } as const;
  return {
    interface: interfaceName,
    chains: [
      ...planMapping(maps),
      { hook: "input", rules: [onlyApproved] },
      { hook: "forward", rules: [onlyApproved, nothingNew] },
      { hook: "output", rules: [nothingNew] },
      {
        hook: "postrouting",
        rules: [{ kind: "masquerade", from: "tunnel", sources: transit }],
      },
    ],
  };
};

/**
 * Both ways without memory: a packet that came from a mapped transit address asked for a mapped address, and so its
 * answer has one, too.
 */
const planMapping = ({ ranges, transit }: UsableMaps): readonly FirewallChain[] => {
  if (ranges.length === 0) return [];
  const from = "tunnel";
  const destinations = (real: Cidr): readonly Cidr[] =>
    transit.map(({ mapped }) => mapped).filter((mapped) => isSameFamily(mapped, real));
  return [
    {
      hook: "arrival",
      rules: ranges.map((map) => ({ kind: "map-destination", from, ...map }) as const),
    },
    {
      hook: "departure",
      rules: ranges.map(
        (map) =>
          ({ kind: "map-source", to: from, destinations: destinations(map.real), ...map }) as const,
      ),
    },
  ];
};

const isSameFamily = (a: Cidr, b: Cidr): boolean => cidrParts(a).family === cidrParts(b).family;
