/** The kinds that Xylem reads and writes, as `Kube` wants them named. */

import type { KubeResource } from "./kube.ts";

const XYLEM = { group: "xylem.dev", version: "v1alpha1", isNamespaced: true } as const;
const CORE = { group: "", version: "v1" } as const;

export const TUNNELS: KubeResource = { ...XYLEM, plural: "tunnels", kind: "Tunnel" };
export const TUNNEL_GATEWAYS: KubeResource = {
  ...XYLEM,
  plural: "tunnelgateways",
  kind: "TunnelGateways",
};
export const TUNNEL_AGENTS: KubeResource = {
  ...XYLEM,
  plural: "tunnelagents",
  kind: "TunnelAgent",
};

export const NETWORK_CLAIMS: KubeResource = {
  ...XYLEM,
  plural: "networkclaims",
  kind: "NetworkClaim",
};
const XYLEM_CLUSTER = { ...XYLEM, isNamespaced: false } as const;
export const NETWORK_BLOCKS: KubeResource = {
  ...XYLEM_CLUSTER,
  plural: "networkblocks",
  kind: "NetworkBlock",
};
export const NETWORK_DOMAINS: KubeResource = {
  ...XYLEM_CLUSTER,
  plural: "networkdomains",
  kind: "NetworkDomain",
};
export const NETWORK_POOLS: KubeResource = {
  ...XYLEM_CLUSTER,
  plural: "networkpools",
  kind: "NetworkPool",
};
export const SEED_NETWORKS: KubeResource = {
  ...XYLEM_CLUSTER,
  plural: "seednetworks",
  kind: "SeedNetwork",
};
/** One a seed: all address maps of its tunnels. */
export const ADDRESS_MAPS: KubeResource = {
  ...XYLEM_CLUSTER,
  plural: "addressmaps",
  kind: "AddressMaps",
};

/** Every address of a Service as an object of its own, named after the address (KEP-1880). */
export const IP_ADDRESSES: KubeResource = {
  group: "networking.k8s.io",
  version: "v1",
  plural: "ipaddresses",
  kind: "IPAddress",
  isNamespaced: false,
};

export const NETWORK_POLICIES: KubeResource = {
  group: "networking.k8s.io",
  version: "v1",
  plural: "networkpolicies",
  kind: "NetworkPolicy",
  isNamespaced: true,
};
export const ENDPOINT_SLICES: KubeResource = {
  group: "discovery.k8s.io",
  version: "v1",
  plural: "endpointslices",
  kind: "EndpointSlice",
  isNamespaced: true,
};

export const NODES: KubeResource = { ...CORE, plural: "nodes", kind: "Node", isNamespaced: false };
export const SERVICES: KubeResource = {
  ...CORE,
  plural: "services",
  kind: "Service",
  isNamespaced: true,
};
export const SECRETS: KubeResource = {
  ...CORE,
  plural: "secrets",
  kind: "Secret",
  isNamespaced: true,
};
export const CONFIG_MAPS: KubeResource = {
  ...CORE,
  plural: "configmaps",
  kind: "ConfigMap",
  isNamespaced: true,
};
export const EVENTS: KubeResource = {
  ...CORE,
  plural: "events",
  kind: "Event",
  isNamespaced: true,
};
export const LEASES: KubeResource = {
  group: "coordination.k8s.io",
  version: "v1",
  plural: "leases",
  kind: "Lease",
  isNamespaced: true,
};

export const PODS: KubeResource = { ...CORE, plural: "pods", kind: "Pod", isNamespaced: true };
export const NAMESPACES: KubeResource = {
  ...CORE,
  plural: "namespaces",
  kind: "Namespace",
  isNamespaced: false,
};
/** Events with a reporter and an action; `EVENTS` are the same objects in the older API. */
export const REPORTED_EVENTS: KubeResource = {
  group: "events.k8s.io",
  version: "v1",
  plural: "events",
  kind: "Event",
  isNamespaced: true,
};
export const MUTATING_WEBHOOKS: KubeResource = {
  group: "admissionregistration.k8s.io",
  version: "v1",
  plural: "mutatingwebhookconfigurations",
  kind: "MutatingWebhookConfiguration",
  isNamespaced: false,
};
export const VALIDATING_WEBHOOKS: KubeResource = {
  ...MUTATING_WEBHOOKS,
  plural: "validatingwebhookconfigurations",
  kind: "ValidatingWebhookConfiguration",
};

/** The key of an object in a reflector's items: `namespace/name`, or `name` for cluster-scoped kinds. */
export const objectKey = (name: { readonly namespace?: string; readonly name: string }): string =>
  name.namespace === undefined ? name.name : `${name.namespace}/${name.name}`;

/** What a person calls an object: `Tunnel shoot--lab--alpha/alpha`. */
export const describeObject = (
  resource: KubeResource,
  name: { readonly namespace?: string; readonly name: string },
): string => `${resource.kind} ${objectKey(name)}`;
