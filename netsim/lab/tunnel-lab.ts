/**
 * The two networks with a tunnel between them and no Kubernetes: a gateway in the API server's namespace, an agent
 * on each node, both real, planned by the product's own planning from facts that a test can change.
 */

import { createHash } from "node:crypto";
import { publicKeyOf } from "#src/host/slot-keys.ts";
import { parseCidr } from "#src/model/cidr.ts";
import type { Cidr } from "#src/model/cidr.ts";
import { parseEndpoint } from "#src/model/endpoint.ts";
import type { Endpoint } from "#src/model/endpoint.ts";
import { parseIp } from "#src/model/ip.ts";
import { parsePrivateKey } from "#src/model/key.ts";
import type { PrivateKey } from "#src/model/key.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { parseSlot } from "#src/model/slot.ts";
import type { AgentClaim, NodeFacts, Tunnel, TunnelGateways } from "#src/model/tunnel.ts";
import { preferredAgentId } from "#src/plan/agent-id-plan.ts";
import { planAgent } from "#src/plan/agent-plan.ts";
import { planGateway } from "#src/plan/gateway-plan.ts";
import { slotAddresses } from "#src/plan/transit.ts";
import { type End, type EndReport, startEnd } from "./end.ts";
import { type Lab, openLab } from "./lab.ts";
import type { Namespace } from "./namespace.ts";
import {
  nodeNames,
  twoNetworks,
  type TwoNetworksOptions,
  twoNetworksPlan,
} from "./two-networks.ts";

const must = <T>(read: Parsed<T>): T => {
  if (!read.ok) throw new Error(read.problem);
  return read.value;
};
const cidr = (text: string): Cidr => must(parseCidr(text));

export const transitRange = "198.18.0.0/23";
const interfaceName = "xylem0";
const mtu = 1380;
const slot = must(parseSlot(0));

/** The same name gives the same key, so that a restarted end is who it was. */
const keyOf = (name: string): PrivateKey =>
  must(parsePrivateKey(createHash("sha256").update(`key of ${name}`).digest()));

const ranges = {
  nodes: [cidr(twoNetworksPlan.nodeRange)],
  pods: [cidr(twoNetworksPlan.podRange)],
  services: [cidr(twoNetworksPlan.serviceRange)],
};

/** What both ends are planned from; a test may replace any part. */
export interface TunnelFacts {
  nodes: NodeFacts[];
  claims: AgentClaim[];
  endpoint: Endpoint;
  relay: string | null;
}

const factsAtStart = (): TunnelFacts => ({
  nodes: nodeNames.map((name, index) => ({
    name,
    uid: `uid-${name}`,
    createdMs: index,
    addresses: [must(parseIp(twoNetworksPlan.nodes[name].address))],
    podCidrs: [cidr(twoNetworksPlan.nodes[name].podCidr)],
    isReady: true,
  })),
  claims: nodeNames.map((name, index) => ({
    node: name,
    uid: `uid-claim-${name}`,
    createdMs: index,
    publicKey: publicKeyOf(keyOf(name)),
    agentId: preferredAgentId(name),
    port: twoNetworksPlan.tunnelPort,
  })),
  endpoint: must(parseEndpoint(`${twoNetworksPlan.balancerAddress}:${twoNetworksPlan.tunnelPort}`)),
  relay: nodeNames[0] ?? null,
});

const tunnel: Tunnel = {
  namespace: "shoot--lab--alpha",
  name: "alpha",
  generation: 1,
  ranges,
  endpoint: null,
  mode: "tun",
  transit: [cidr(transitRange)],
  slots: 4,
  mtu,
  mapped: "overlapping",
  seedAddresses: [],
};

const gateways: TunnelGateways = {
  slots: [
    {
      slot,
      publicKey: publicKeyOf(keyOf("gateway")),
      addresses: slotAddresses(tunnel.transit, slot),
    },
  ],
  transit: tunnel.transit,
  ranges,
  mtu,
  maps: [],
};

export interface TunnelLabOptions extends TwoNetworksOptions {
  /** Default true; false: no offload on either end. */
  readonly offload?: boolean;
}

export class TunnelLab {
  readonly lab: Lab;
  readonly facts: TunnelFacts = factsAtStart();
  readonly #options: TunnelLabOptions;
  #gateway: End | null = null;
  readonly #agents = new Map<string, End>();

  constructor(lab: Lab, options: TunnelLabOptions) {
    this.lab = lab;
    this.#options = options;
  }

  get gateway(): End {
    if (this.#gateway === null) throw new Error("the gateway was not started");
    return this.#gateway;
  }

  /** Where the gateway is: pings and connections start here. */
  get seed(): Namespace {
    return this.lab.namespace("apiserver");
  }

  agent(node: string): End {
    const agent = this.#agents.get(node);
    if (agent === undefined) throw new Error(`the agent on ${node} was not started`);
    return agent;
  }

  address(node: string): string {
    const [address] = this.facts.nodes.find(({ name }) => name === node)?.addresses ?? [];
    if (address === undefined) throw new Error(`there is no node ${node}`);
    return address;
  }

  async startGateway(): Promise<void> {
    this.#gateway = await startEnd(this.lab, "apiserver");
    await this.applyGateway();
  }

  async startAgent(node: string): Promise<void> {
    this.#agents.set(node, await startEnd(this.lab, node));
    await this.applyAgent(node);
  }

  /** Plans from the facts as they are now, and applies. */
  async applyGateway(): Promise<EndReport> {
    const plan = planGateway({
      tunnel,
      slot,
      interface: interfaceName,
      ...this.facts,
      maps: [],
      pod: { needed: [], strictInterfaces: [] },
    });
    return this.gateway.apply({
      options: {
        identity: { kind: "gateway", slot },
        privateKey: Buffer.from(keyOf("gateway").bytes()).toString("base64"),
        interface: interfaceName,
        mtu,
        listenPort: 0,
        paths: 4,
        offload: this.#options.offload ?? true,
      },
      device: plan.device,
      network: plan.network,
      firewall: plan.firewall,
    });
  }

  async applyAgent(node: string): Promise<EndReport> {
    const agentId = preferredAgentId(node);
    const { nodes, claims } = this.facts;
    const plan = planAgent({ node, agentId, interface: interfaceName, gateways, nodes, claims });
    return this.agent(node).apply({
      options: {
        identity: { kind: "agent", agentId },
        privateKey: Buffer.from(keyOf(node).bytes()).toString("base64"),
        interface: interfaceName,
        mtu,
        listenPort: twoNetworksPlan.tunnelPort,
        paths: 1,
        offload: this.#options.offload ?? true,
      },
      device: plan.device,
      network: plan.network,
      firewall: plan.firewall,
    });
  }

  /** The node whose key a peer of the gateway has. */
  nodeOf(publicKey: string): string {
    return this.facts.claims.find((claim) => claim.publicKey === publicKey)?.node ?? publicKey;
  }

  async close(): Promise<void> {
    const ends = [...(this.#gateway === null ? [] : [this.#gateway]), ...this.#agents.values()];
    await Promise.all(ends.map((end) => end.close()));
    await this.lab.close();
  }
}

/** Opens the lab and starts a gateway and three agents; nothing has been sent yet. */
export const openTunnelLab = async (options: TunnelLabOptions = {}): Promise<TunnelLab> => {
  const lab = await openLab(twoNetworks(options));
  const tunnelLab = new TunnelLab(lab, options);
  try {
    await Promise.all([
      tunnelLab.startGateway(),
      ...nodeNames.map((node) => tunnelLab.startAgent(node)),
    ]);
  } catch (error) {
    await lab.evidence();
    await lab.close();
    throw error;
  }
  return tunnelLab;
};
