/**
 * The lab's standard drawing: a seed behind NAT, an internet, and a shoot of three nodes behind a UDP load balancer.
 *
 *   seed        apiserver     prometheus                            node1        node2        node3
 *   .10.2       .10.10        .11.20                                .1.11        .2.12        .9.13
 *     |           |             |     seed-net                        |            |            |   shoot-net
 *   --+-----------+------+------+--   172.20.8.0/21                 --+------------+--+------+--+-- 10.250.0.0/20
 *                        | .8.1       fd20:8::/64                                     | .0.1 | .0.4 fd25:0:0:f0::/60
 *                 [seed-router]                                            [shoot-router]  [balancer]
 *                  NAT, drops unsolicited;                                  NAT for nodes   VIP 198.51.100.4
 *                  TCP 6443 -> apiserver                                   and pods  |       |  UDP 51820
 *                        | 203.0.113.2                               198.51.100.2    |       | .3
 *                  ------+------ seed-uplink                              -----------+---+---+-- shoot-uplink
 *                        | .1    203.0.113.0/29                                          | .1    198.51.100.0/28
 *                        +------------------------ [internet] ---------------------------+
 *
 * The pods of the nodes: 10.128.0.0/17, node1 10.128.1.0/24, node2 10.128.2.0/25, node3 10.128.3.128/25. Services:
 * 172.28.0.0/22. Nodes and the shoot's router know the pods of every node; the internet and the seed know nothing but
 * public addresses. The balancer keeps client addresses, so what nodes send from UDP 51820 goes back through it.
 */

import type { BalancerMode, MachineSpec, RouteSpec, Topology } from "./topology.ts";

/** Where everything is in `twoNetworks`. */
export const twoNetworksPlan = {
  seedRange: "172.20.8.0/21",
  seedAddress: "172.20.10.2",
  apiserverAddress: "172.20.10.10",
  prometheusAddress: "172.20.11.20",
  /** The seed router's public address: nodes and pods of the shoot find their API server here. */
  apiserverPublicAddress: "203.0.113.2",
  apiserverPort: 6443,
  nodeRange: "10.250.0.0/20",
  nodeRange6: "fd25:0:0:f0::/60",
  podRange: "10.128.0.0/17",
  podRange6: "fd25:0:1::/56",
  serviceRange: "172.28.0.0/22",
  balancerAddress: "198.51.100.4",
  balancerAddress6: "2001:db8:2::4",
  /** Free addresses of the balancer's network, for a balancer that moves. */
  balancerSpareAddresses: ["198.51.100.5", "198.51.100.6"],
  tunnelPort: 51820,
  nodes: {
    node1: {
      address: "10.250.1.11",
      address6: "fd25:0:0:f0::11",
      podCidr: "10.128.1.0/24",
      podCidr6: "fd25:0:1:1::/64",
    },
    node2: {
      address: "10.250.2.12",
      address6: "fd25:0:0:f0::12",
      podCidr: "10.128.2.0/25",
      podCidr6: "fd25:0:1:2::/64",
    },
    node3: {
      address: "10.250.9.13",
      address6: "fd25:0:0:f0::13",
      podCidr: "10.128.3.128/25",
      podCidr6: "fd25:0:1:3::/64",
    },
  },
} as const;

export type NodeName = keyof typeof twoNetworksPlan.nodes;
/** The shoot's nodes, in order. */
export const nodeNames: readonly NodeName[] = ["node1", "node2", "node3"];

export interface TwoNetworksOptions {
  /** Default "two-networks"; labs with different names run side by side. */
  readonly name?: string;
  /** Default "per-flow". */
  readonly mode?: BalancerMode;
  /** Idle UDP timeout of the seed's NAT. */
  readonly natUdpTimeoutSeconds?: number;
  readonly natPorts?: "preserved" | "random";
  /** Idle UDP timeout of the balancer. */
  readonly balancerUdpTimeoutSeconds?: number;
  /** What the internet does with packets to private addresses: an ICMP error (the default), or nothing at all. */
  readonly unknownAddresses?: "unreachable" | "black hole";
  /** Loss towards each node, in percent. */
  readonly nodeLossPercent?: number;
}

const plan = twoNetworksPlan;
const shootGateway = { address: "10.250.0.1", address6: "fd25:0:0:f0::1" };
const balancerInside = { address: "10.250.0.4", address6: "fd25:0:0:f0::4" };

/** Returns the drawing at the head of this file. */
export const twoNetworks = (options: TwoNetworksOptions = {}): Topology => ({
  name: options.name ?? "two-networks",
  networks: {
    "seed-net": { ranges: [plan.seedRange, "fd20:8::/64"] },
    "seed-uplink": { ranges: ["203.0.113.0/29", "2001:db8:1::/64"] },
    "shoot-uplink": { ranges: ["198.51.100.0/28", "2001:db8:2::/64"] },
    "shoot-net": { ranges: [plan.nodeRange, plan.nodeRange6] },
  },
  machines: {
    seed: seedMachine(plan.seedAddress, "fd20:8::2"),
    apiserver: seedMachine(plan.apiserverAddress, "fd20:8::10"),
    prometheus: seedMachine(plan.prometheusAddress, "fd20:8::20"),
    "seed-router": seedRouter(options),
    internet: internet(options),
    "shoot-router": shootRouter(),
    balancer: balancerMachine(),
    ...Object.fromEntries(nodeNames.map((name) => [name, nodeMachine(name, options)])),
  },
  balancers: {
    public: {
      machine: "balancer",
      outside: "outside",
      address: plan.balancerAddress,
      address6: plan.balancerAddress6,
      port: plan.tunnelPort,
      mode: options.mode ?? "per-flow",
      targetPort: plan.tunnelPort,
      ...(options.balancerUdpTimeoutSeconds === undefined
        ? {}
        : { udpTimeoutSeconds: options.balancerUdpTimeoutSeconds }),
      targets: Object.fromEntries(
        nodeNames.map((name) => {
          const { address, address6 } = plan.nodes[name];
          return [name, { machine: name, address, address6 }];
        }),
      ),
    },
  },
});

const internet = (options: TwoNetworksOptions): MachineSpec => ({
  isRouter: true,
  routes: options.unknownAddresses === "black hole" ? [{ to: "default", via: "black hole" }] : [],
  interfaces: {
    seed: { network: "seed-uplink", addresses: ["203.0.113.1/29", "2001:db8:1::1/64"] },
    shoot: { network: "shoot-uplink", addresses: ["198.51.100.1/28", "2001:db8:2::1/64"] },
  },
});

const shootRouter = (): MachineSpec => ({
  isRouter: true,
  interfaces: {
    inside: {
      network: "shoot-net",
      addresses: [`${shootGateway.address}/20`, `${shootGateway.address6}/60`],
    },
    outside: { network: "shoot-uplink", addresses: ["198.51.100.2/28", "2001:db8:2::2/64"] },
  },
  nat: { outside: "outside" },
  routes: [
    { to: "default", via: "198.51.100.1" },
    { to: "default", via: "2001:db8:2::1" },
    { to: "default", via: balancerInside.address, udpSourcePort: plan.tunnelPort },
    { to: "default", via: balancerInside.address6, udpSourcePort: plan.tunnelPort },
    ...podRoutes(),
  ],
});

const balancerMachine = (): MachineSpec => ({
  isRouter: true,
  interfaces: {
    inside: {
      network: "shoot-net",
      addresses: [`${balancerInside.address}/20`, `${balancerInside.address6}/60`],
    },
    outside: { network: "shoot-uplink", addresses: ["198.51.100.3/28", "2001:db8:2::3/64"] },
  },
  routes: [
    { to: "default", via: "198.51.100.1" },
    { to: "default", via: "2001:db8:2::1" },
  ],
});

const seedMachine = (address: string, address6: string): MachineSpec => ({
  interfaces: { eth0: { network: "seed-net", addresses: [`${address}/21`, `${address6}/64`] } },
  routes: [
    { to: "default", via: "172.20.8.1" },
    { to: "default", via: "fd20:8::1" },
  ],
});

const seedRouter = (options: TwoNetworksOptions): MachineSpec => ({
  isRouter: true,
  interfaces: {
    inside: { network: "seed-net", addresses: ["172.20.8.1/21", "fd20:8::1/64"] },
    outside: { network: "seed-uplink", addresses: ["203.0.113.2/29", "2001:db8:1::2/64"] },
  },
  routes: [
    { to: "default", via: "203.0.113.1" },
    { to: "default", via: "2001:db8:1::1" },
  ],
  nat: {
    outside: "outside",
    ...(options.natPorts === undefined ? {} : { ports: options.natPorts }),
    ...(options.natUdpTimeoutSeconds === undefined
      ? {}
      : { udpTimeoutSeconds: options.natUdpTimeoutSeconds }),
    forwards: [
      {
        protocol: "tcp",
        address: plan.apiserverPublicAddress,
        port: plan.apiserverPort,
        toAddress: plan.apiserverAddress,
        toPort: plan.apiserverPort,
      },
    ],
  },
});

const nodeMachine = (name: NodeName, options: TwoNetworksOptions): MachineSpec => ({
  isRouter: true,
  interfaces: {
    eth0: {
      network: "shoot-net",
      addresses: [`${plan.nodes[name].address}/20`, `${plan.nodes[name].address6}/60`],
      ...(options.nodeLossPercent === undefined ? {} : { lossPercent: options.nodeLossPercent }),
    },
  },
  routes: [
    { to: "default", via: shootGateway.address },
    { to: "default", via: shootGateway.address6 },
    ...podRoutes(name),
  ],
  // kube-proxy's rules must see what the pods' bridge switches.
  sysctls: {
    "net.bridge.bridge-nf-call-iptables": "1",
    "net.bridge.bridge-nf-call-ip6tables": "1",
  },
});

/** The way to every node's pods, but for those of `own`. */
const podRoutes = (own?: NodeName): RouteSpec[] =>
  nodeNames
    .filter((name) => name !== own)
    .flatMap((name) => [
      { to: plan.nodes[name].podCidr, via: plan.nodes[name].address },
      { to: plan.nodes[name].podCidr6, via: plan.nodes[name].address6 },
    ]);
