/**
 * The standard drawing (two-networks.ts) with a seed that has the very ranges of its shoot: nodes, pods and services.
 *
 *   seed           apiserver      prometheus                        node1        node2        node3
 *   10.250.12.2    10.128.64.10   10.128.65.20                      10.250.1.11  10.250.2.12  10.250.9.13
 *     |               |              |   seed-pods                    |            |            |
 *   --+-- seed-net  --+--------------+-- 10.128.0.0/17              --+------------+------------+-- 10.250.0.0/20
 *     |   10.250.0.0/20          |                                    pods 10.128.0.0/17, services 172.28.0.0/22
 *     |                          |
 *     +------ [seed-router] -----+            ... the rest as in two-networks.ts
 *
 * 172.28.2.7 is a service address of the seed that the API server's pod needs (say, etcd's): the machine `seed` answers.
 */

import type { MachineSpec, Topology } from "./topology.ts";
import { twoNetworks, twoNetworksPlan } from "./two-networks.ts";

/** Where the seed's machines are in `overlappingNetworks`; the shoot is where it always is. */
export const overlappingPlan = {
  seedAddress: "10.250.12.2",
  apiserverAddress: "10.128.64.10",
  prometheusAddress: "10.128.65.20",
  etcdAddress: "172.28.2.7",
} as const;

const nodesRouter = "10.250.12.1";
const podsRouter = "10.128.64.1";
const plan = overlappingPlan;

/** Returns the drawing at the head of this file. */
export const overlappingNetworks = (options: { readonly name: string }): Topology => {
  const standard = twoNetworks(options);
  const { "seed-router": router, ...machines } = standard.machines;
  return {
    ...standard,
    networks: {
      ...standard.networks,
      "seed-net": { ranges: [twoNetworksPlan.nodeRange] },
      "seed-pods": { ranges: [twoNetworksPlan.podRange] },
    },
    machines: {
      ...machines,
      seed: {
        interfaces: {
          eth0: {
            network: "seed-net",
            addresses: [`${plan.seedAddress}/20`, `${plan.etcdAddress}/32`],
          },
        },
        routes: [{ to: "default", via: nodesRouter }],
      },
      apiserver: podMachine(plan.apiserverAddress),
      prometheus: podMachine(plan.prometheusAddress),
      "seed-router": seedRouter(router ?? { interfaces: {} }),
    },
  };
};

const podMachine = (address: string): MachineSpec => ({
  interfaces: { eth0: { network: "seed-pods", addresses: [`${address}/17`] } },
  routes: [{ to: "default", via: podsRouter }],
  // As on systems that trust no packet from an address that they would answer elsewhere.
  sysctls: { "net.ipv4.conf.all.rp_filter": "1" },
});

const seedRouter = (standard: MachineSpec): MachineSpec => ({
  ...standard,
  interfaces: {
    ...standard.interfaces,
    inside: { network: "seed-net", addresses: [`${nodesRouter}/20`] },
    pods: { network: "seed-pods", addresses: [`${podsRouter}/17`] },
  },
  routes: [...(standard.routes ?? []), { to: `${plan.etcdAddress}/32`, via: plan.seedAddress }],
  nat: {
    outside: "outside",
    ...standard.nat,
    forwards: (standard.nat?.forwards ?? []).map((forward) => ({
      ...forward,
      toAddress: plan.apiserverAddress,
    })),
  },
});
