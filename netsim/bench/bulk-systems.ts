/** The systems that carry the same bytes over the same drawing: the product, wireguard-go, and a plain route. */

import { TunnelLab } from "#netsim/lab/tunnel-lab.ts";
import type { Lab } from "#netsim/lab/lab.ts";
import { preparePlainRoutes } from "#netsim/cluster/plain-routes.ts";
import { twoNetworksSite } from "#netsim/cluster/site.ts";
import { startForeignTunnel } from "./foreign-wireguard.ts";

/** One way from the API server's pod to a node, while it is up. */
export interface Carrier {
  /** The processes whose CPU time the way costs. */
  readonly pids: readonly number[];
  readonly stop: () => Promise<void>;
}

export interface BulkSystem {
  readonly name: string;
  readonly start: () => Promise<Carrier>;
}

export interface BulkSpec {
  readonly lab: Lab;
  /** Path of wireguard-go. */
  readonly wireguardGo: string;
}

/** The node that everything is sent to, and another one that datagrams may enter by. */
export const ownerNode = "node1";
const otherNode = "node2";
const mtu = 1380;

/** All systems; one at a time may run. */
export const bulkSystems = (spec: BulkSpec): readonly BulkSystem[] => [
  { name: "xylem", start: () => startProduct(spec, ownerNode) },
  { name: "xylem, passed on", start: () => startProduct(spec, otherNode) },
  { name: "wireguard-go", start: () => startForeign(spec) },
  { name: "plain route", start: () => startPlain(spec) },
];

/** With an entry other than the owner, every datagram is passed on by one agent to another. */
const startProduct = async ({ lab }: BulkSpec, entry: string): Promise<Carrier> => {
  await lab.balancer("public").setTargets([entry]);
  const tunnel = new TunnelLab(lab, {});
  const nodes = [ownerNode, otherNode];
  const stop = async (): Promise<void> => {
    await Promise.all(
      [() => tunnel.gateway, ...nodes.map((node) => () => tunnel.agent(node))].map((end) =>
        end().close(),
      ),
    );
  };
  await Promise.all([tunnel.startGateway(), ...nodes.map((node) => tunnel.startAgent(node))]);
  const ends = [tunnel.gateway, ...nodes.map((node) => tunnel.agent(node))];
  return { pids: ends.map(({ running }) => running.pid), stop };
};

const startForeign = async ({ lab, wireguardGo }: BulkSpec): Promise<Carrier> => {
  await lab.balancer("public").setTargets([ownerNode]);
  return startForeignTunnel({
    program: wireguardGo,
    seed: lab.namespace("apiserver"),
    node: lab.namespace(ownerNode),
    mtu,
  });
};

const startPlain = async ({ lab }: BulkSpec): Promise<Carrier> => {
  const routes = await preparePlainRoutes({
    site: twoNetworksSite,
    noRoute: "silent",
    seed: [lab.namespace("apiserver")],
    internet: lab.namespace("internet"),
    passage: lab.namespace("balancer"),
    passageAddress: "198.51.100.3",
    passageAddress6: "2001:db8:2::3",
    passageInside: "inside",
  });
  await routes.open();
  return { pids: [], stop: () => routes.close() };
};
