/** Where the lab's clusters live: machines and addresses, read off the topology's plan. */

import { overlappingPlan } from "#netsim/lab/overlapping-networks.ts";
import { nodeNames, twoNetworksPlan } from "#netsim/lab/two-networks.ts";

export interface NodeSite {
  /** Machine and Node object have the same name. */
  readonly name: string;
  readonly address: string;
  readonly podRange: string;
  /** Its second family in a dual-stack shoot. */
  readonly ipv6?: { readonly address: string; readonly podRange: string };
}

/** The ranges that the seed has no route to. */
export interface ShootRanges {
  readonly nodes: string;
  readonly pods: string;
  readonly services: string;
}

export interface ClusterSite {
  /** The seed's own cluster: one machine with its API server; it has no nodes. */
  readonly seed: {
    readonly machine: string;
    readonly address: string;
    readonly serviceRange: string;
    readonly serviceAddress: string;
  };
  /** The pod namespace of the shoot's API server, which a gateway shares. */
  readonly apiserver: {
    readonly machine: string;
    readonly address: string;
    /** Where nodes and pods of the shoot find it. */
    readonly publicAddress: string;
  };
  /** The pod namespace of Prometheus, which another gateway shares. */
  readonly prometheus: { readonly machine: string; readonly address: string };
  readonly nodes: readonly NodeSite[];
  readonly ranges: ShootRanges;
  /** Only in a dual-stack shoot. */
  readonly ranges6?: ShootRanges;
  readonly serviceAddress: string;
  readonly dnsAddress: string;
}

/** The clusters of the drawing in netsim/lab/two-networks.ts. */
export const twoNetworksSite: ClusterSite = {
  seed: {
    machine: "seed",
    address: twoNetworksPlan.seedAddress,
    serviceRange: "172.21.4.0/24",
    serviceAddress: "172.21.4.1",
  },
  apiserver: {
    machine: "apiserver",
    address: twoNetworksPlan.apiserverAddress,
    publicAddress: twoNetworksPlan.apiserverPublicAddress,
  },
  prometheus: { machine: "prometheus", address: twoNetworksPlan.prometheusAddress },
  nodes: nodeNames.map((name) => ({
    name,
    address: twoNetworksPlan.nodes[name].address,
    podRange: twoNetworksPlan.nodes[name].podCidr,
  })),
  ranges: {
    nodes: twoNetworksPlan.nodeRange,
    pods: twoNetworksPlan.podRange,
    services: twoNetworksPlan.serviceRange,
  },
  serviceAddress: "172.28.0.1",
  dnsAddress: "172.28.0.10",
};

/** The same shoot under a seed that has the same ranges: the drawing of netsim/lab/overlapping-networks.ts. */
export const overlappingSite: ClusterSite = {
  ...twoNetworksSite,
  seed: {
    machine: "seed",
    address: overlappingPlan.seedAddress,
    serviceRange: twoNetworksPlan.serviceRange,
    serviceAddress: twoNetworksSite.serviceAddress,
  },
  apiserver: {
    machine: "apiserver",
    address: overlappingPlan.apiserverAddress,
    publicAddress: twoNetworksPlan.apiserverPublicAddress,
  },
  prometheus: { machine: "prometheus", address: overlappingPlan.prometheusAddress },
};

/** The same with a dual-stack shoot; the seed's cluster and the API servers' own addresses stay IPv4. */
export const twoNetworksDualSite: ClusterSite = {
  ...twoNetworksSite,
  nodes: nodeNames.map((name) => ({
    name,
    address: twoNetworksPlan.nodes[name].address,
    podRange: twoNetworksPlan.nodes[name].podCidr,
    ipv6: {
      address: twoNetworksPlan.nodes[name].address6,
      podRange: twoNetworksPlan.nodes[name].podCidr6,
    },
  })),
  ranges6: {
    nodes: twoNetworksPlan.nodeRange6,
    pods: twoNetworksPlan.podRange6,
    // The API server takes no IPv6 service range that is larger than a /108.
    services: "fd25:0:2::/112",
  },
};

/** One value a family, IPv4 first, as Kubernetes wants its lists. */
export function bothFamilies(ipv4: string, ipv6: string | undefined): readonly string[] {
  return ipv6 === undefined ? [ipv4] : [ipv4, ipv6];
}
