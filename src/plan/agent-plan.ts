/** What an agent's node must hold: one peer per gateway slot, steering to the other agents, forwarding to approved ranges only. */

import type { AgentId } from "#src/model/agent-id.ts";
import { cidrParts, hostCidr } from "#src/model/cidr.ts";
import type { DeviceDesired, SteeringTarget } from "#src/model/device.ts";
import type { Finding } from "#src/model/finding.ts";
import { familyOf, type IpAddress } from "#src/model/ip.ts";
import type { FirewallTable, NetworkDesired } from "#src/model/network.ts";
import type { AgentClaim, NodeFacts, TunnelGateways } from "#src/model/tunnel.ts";
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
  const isIpv4 = gateways.transit.some((cidr) => cidrParts(cidr).family === 4);
  const rpFilter = `net.ipv4.conf.${facts.interface}.rp_filter`;
  return {
    device: { peers: planPeers(facts), steering: steering.targets },
    network: {
      interface: facts.interface,
      mtu: gateways.mtu,
      addresses: [],
      routes: gateways.transit.map((destination) => ({ destination, source: null })),
      sysctls: isIpv4 ? { [rpFilter]: RP_FILTER_LOOSE } : {},
    },
    firewall: planFirewall(facts),
    findings: steering.findings,
  };
};

/** A slot may use its own transit addresses and no others. */
const planPeers = ({ gateways, agentId }: AgentFacts): DeviceDesired["peers"] =>
  gateways.slots
    .toSorted((a, b) => a.slot - b.slot)
    .map(({ slot, publicKey, addresses }) => ({
      publicKey,
      agentId,
      slot,
      endpoint: null,
      allowedIps: addresses.map(hostCidr),
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

/**
 * Services whose endpoints are host-network pods are forwarded to node addresses, so node ranges are destinations, too.
 * Nothing on the node or behind it opens a connection into the tunnel.
 */
const planFirewall = ({ gateways, interface: interfaceName }: AgentFacts): FirewallTable => {
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
      { hook: "input", rules: [onlyApproved] },
      { hook: "forward", rules: [onlyApproved, nothingNew] },
      { hook: "output", rules: [nothingNew] },
      {
        hook: "postrouting",
        rules: [{ kind: "masquerade", from: "tunnel", sources: gateways.transit }],
      },
    ],
  };
};
