/**
 * The drawing of two-networks.ts with a whole cluster as the seed: control planes and Prometheus are pods of its node.
 *
 *   +-- seed --------------------------------------------+
 *   | 172.20.10.2, its own kube-apiserver and kubelet     |
 *   | pods 172.20.32.0/24 (bridge cni0):                  |
 *   |   kube-apiserver-x [gateway]  etcd  controllers ... |
 *   | NodePort 30443 -> kube-apiserver-x, -y, -z          |
 *   +-----------+-----------------------------------------+
 *               |  seed-net 172.20.8.0/21
 *        [seed-router]  TCP 203.0.113.2:6443 -> seed:30443; pods' range via the seed
 *               |
 *          [internet] -- balancer 198.51.100.4 and shoot-router -- node1 node2 node3, as in two-networks.ts
 */

import type { MachineSpec, Topology } from "./topology.ts";
import { twoNetworks, twoNetworksPlan } from "./two-networks.ts";

/** What the seed of `hostedNetworks` has besides `twoNetworksPlan`. */
export const hostedPlan = {
  seedPodRange: "172.20.32.0/24",
  seedServiceRange: "172.21.4.0/24",
  /** Where the seed's node offers the shoot's API server. */
  apiserverNodePort: 30_443,
} as const;

const { seedAddress } = twoNetworksPlan;

/** Returns the drawing at the head of this file. */
export const hostedNetworks = (name: string): Topology => {
  const base = twoNetworks({ name });
  const {
    apiserver: _apiserver,
    prometheus: _prometheus,
    seed,
    "seed-router": router,
    ...rest
  } = base.machines;
  if (seed === undefined || router === undefined) throw new Error("the drawing has no seed");
  return {
    ...base,
    machines: { ...rest, seed: seedNode(seed), "seed-router": routerToSeed(router) },
  };
};

const seedNode = (seed: MachineSpec): MachineSpec => ({
  ...seed,
  isRouter: true,
  sysctls: {
    "net.bridge.bridge-nf-call-iptables": "1",
    "net.bridge.bridge-nf-call-ip6tables": "1",
  },
});

const routerToSeed = (router: MachineSpec): MachineSpec => {
  if (router.nat === undefined) throw new Error("the seed's router has no NAT");
  return {
    ...router,
    routes: [...(router.routes ?? []), { to: hostedPlan.seedPodRange, via: seedAddress }],
    nat: {
      ...router.nat,
      forwards: [
        {
          protocol: "tcp",
          address: twoNetworksPlan.apiserverPublicAddress,
          port: twoNetworksPlan.apiserverPort,
          toAddress: seedAddress,
          toPort: hostedPlan.apiserverNodePort,
        },
      ],
    },
  };
};
