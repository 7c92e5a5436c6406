/** Where the lab's clusters live: machines and addresses, read off the topology's plan. */

import { nodeNames, twoNetworksPlan } from "#netsim/lab/two-networks.ts";

export interface NodeSite {
  /** Machine and Node object have the same name. */
  readonly name: string;
  readonly address: string;
  readonly podRange: string;
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
