/** The one table of declared flows: who speaks to whom, on which port, and why. Policies, docs and `explain` come from it. */

import type { PolicyProtocol } from "#src/model/policy.ts";

/** The flow whose other end only the shoot knows: its balancer. */
export const ENDPOINT_FLOW = "gateway-to-endpoint";

/**
 * Pods that policies can be about, by what they do. `gateway`: every pod with a gateway of the tunnel, beside API servers
 * and Prometheus; `scraper`: whoever scrapes the metrics of gateways and controller.
 */
export type FlowRole =
  | "api-server"
  | "controller"
  | "dns"
  | "etcd"
  | "gateway"
  | "prometheus"
  | "scraper";

export const FLOW_ROLES: readonly FlowRole[] = [
  "api-server",
  "controller",
  "dns",
  "etcd",
  "gateway",
  "prometheus",
  "scraper",
];

/** Ends that are no pods of the seed's pod network: no policy can select them, only their addresses. */
export type FlowPlace =
  | "api-server-clients"
  | "seed-api"
  | "seed-nodes"
  | "tunnel-endpoint"
  /** The shoot's agents and nodes: they use their node's network. */
  | "agents"
  | "shoot-api"
  | "shoot-nodes"
  | "gateways-through-balancer";

export type FlowParty =
  | { readonly kind: "role"; readonly role: FlowRole }
  | { readonly kind: "place"; readonly place: FlowPlace };

/** A port by what listens there; numbers are facts of the installation. */
export type FlowPortName =
  | "agent"
  | "api-server"
  | "controller-status"
  | "dns"
  | "etcd"
  | "gateway-status"
  | "seed-api"
  | "tunnel-endpoint"
  | "webhook";

export interface DeclaredFlow {
  /** Unique; without dots, so that names of policies stay injective. */
  readonly id: string;
  readonly from: FlowParty;
  readonly to: FlowParty;
  readonly port: FlowPortName;
  readonly protocols: readonly PolicyProtocol[];
  /** One sentence: what no longer works without it. */
  readonly why: string;
}

const role = (name: FlowRole): FlowParty => ({ kind: "role", role: name });
const place = (name: FlowPlace): FlowParty => ({ kind: "place", place: name });

/** Numbers where an installation does not say otherwise. */
export const STANDARD_PORTS: Readonly<Record<FlowPortName, number>> = {
  agent: 51820,
  "api-server": 443,
  "controller-status": 9448,
  dns: 53,
  etcd: 2379,
  "gateway-status": 9446,
  "seed-api": 443,
  "tunnel-endpoint": 51820,
  webhook: 9449,
};

/** Flows of the seed. Each is needed: without it, what `why` says fails. */
export const SEED_FLOWS: readonly DeclaredFlow[] = [
  {
    id: ENDPOINT_FLOW,
    from: role("gateway"),
    to: place("tunnel-endpoint"),
    port: "tunnel-endpoint",
    protocols: ["UDP"],
    why: "the tunnel itself: gateways beside API servers and Prometheus send WireGuard to the shoot's balancer",
  },
  {
    id: "gateway-to-seed-api",
    from: role("gateway"),
    to: place("seed-api"),
    port: "seed-api",
    protocols: ["TCP"],
    why: "a gateway reads its Tunnel and Secret, and claims its slot by a Lease",
  },
  {
    id: "gateway-to-dns",
    from: role("gateway"),
    to: role("dns"),
    port: "dns",
    protocols: ["UDP", "TCP"],
    why: "names of the seed's and the shoot's API servers, of etcd, and of the balancer where it has one",
  },
  {
    id: "api-server-to-etcd",
    from: role("api-server"),
    to: role("etcd"),
    port: "etcd",
    protocols: ["TCP"],
    why: "the shoot's API server keeps its objects there",
  },
  {
    id: "prometheus-to-api-server",
    from: role("prometheus"),
    to: role("api-server"),
    port: "api-server",
    protocols: ["TCP"],
    why: "Prometheus and the gateway beside it read the shoot's nodes and pods, and scrape the API server",
  },
  {
    id: "controller-to-api-server",
    from: role("controller"),
    to: role("api-server"),
    port: "api-server",
    protocols: ["TCP"],
    why: "the controller publishes TunnelGateways in the shoot and counts its agents",
  },
  {
    id: "clients-to-api-server",
    from: place("api-server-clients"),
    to: role("api-server"),
    port: "api-server",
    protocols: ["TCP"],
    why: "agents, kubelets and people reach the shoot's API server from outside the seed",
  },
  {
    id: "probes-to-gateway",
    from: place("seed-nodes"),
    to: role("gateway"),
    port: "gateway-status",
    protocols: ["TCP"],
    why: "kubelets ask a gateway whether it has started and is ready",
  },
  {
    id: "scraper-to-gateway",
    from: role("scraper"),
    to: role("gateway"),
    port: "gateway-status",
    protocols: ["TCP"],
    why: "metrics of gateways",
  },
  {
    id: "controller-to-seed-api",
    from: role("controller"),
    to: place("seed-api"),
    port: "seed-api",
    protocols: ["TCP"],
    why: "the controller watches Tunnels, makes their Secrets and writes their status",
  },
  {
    id: "controller-to-dns",
    from: role("controller"),
    to: role("dns"),
    port: "dns",
    protocols: ["UDP", "TCP"],
    why: "names of the API servers in the shoots' kubeconfigs",
  },
  {
    id: "seed-api-to-webhook",
    from: place("seed-api"),
    to: role("controller"),
    port: "webhook",
    protocols: ["TCP"],
    why: "the seed's API servers ask the injector about pods that want a gateway",
  },
  {
    id: "probes-to-controller",
    from: place("seed-nodes"),
    to: role("controller"),
    port: "controller-status",
    protocols: ["TCP"],
    why: "kubelets ask the controller whether it is alive and ready",
  },
  {
    id: "scraper-to-controller",
    from: role("scraper"),
    to: role("controller"),
    port: "controller-status",
    protocols: ["TCP"],
    why: "metrics of the controller",
  },
];

/**
 * Flows of the shoot. Agents use their node's network, which no NetworkPolicy is about: these are for firewalls and
 * security groups of the shoot's nodes.
 */
export const SHOOT_FLOWS: readonly DeclaredFlow[] = [
  {
    id: "balancer-to-agent",
    from: place("gateways-through-balancer"),
    to: place("agents"),
    port: "agent",
    protocols: ["UDP"],
    why: "datagrams of gateways, spread by the balancer over all agents",
  },
  {
    id: "agent-to-agent",
    from: place("agents"),
    to: place("agents"),
    port: "agent",
    protocols: ["UDP"],
    why: "the agent that a datagram enters at passes it on to its owner",
  },
  {
    id: "agent-to-shoot-api",
    from: place("agents"),
    to: place("shoot-api"),
    port: "api-server",
    protocols: ["TCP"],
    why: "an agent reads the gateways' keys and registers its own",
  },
];

export const ALL_FLOWS: readonly DeclaredFlow[] = [...SEED_FLOWS, ...SHOOT_FLOWS];
