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

/** The key of an object in a reflector's items: `namespace/name`, or `name` for cluster-scoped kinds. */
export const objectKey = (name: { readonly namespace?: string; readonly name: string }): string =>
  name.namespace === undefined ? name.name : `${name.namespace}/${name.name}`;

/** What a person calls an object: `Tunnel shoot--lab--alpha/alpha`. */
export const describeObject = (
  resource: KubeResource,
  name: { readonly namespace?: string; readonly name: string },
): string => `${resource.kind} ${objectKey(name)}`;
