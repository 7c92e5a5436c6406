/** Prints the declared flows as tables of a page. */

import {
  SEED_FLOWS,
  SHOOT_FLOWS,
  STANDARD_PORTS,
  type DeclaredFlow,
  type FlowParty,
  type FlowPlace,
  type FlowRole,
} from "./flows.ts";

const ROLES: Readonly<Record<FlowRole, string>> = {
  "api-server": "shoot's API server",
  controller: "controller",
  dns: "DNS",
  etcd: "etcd",
  gateway: "gateway (in pods of API servers and Prometheus)",
  prometheus: "Prometheus",
  scraper: "scraper of metrics",
};

const PLACES: Readonly<Record<FlowPlace, string>> = {
  "api-server-clients": "clients of the shoot's API server",
  "seed-api": "seed's API server",
  "seed-nodes": "seed's nodes",
  "tunnel-endpoint": "tunnel's endpoint (the shoot's balancer)",
  agents: "agent",
  "shoot-api": "shoot's API server",
  "shoot-nodes": "shoot's nodes",
  "gateways-through-balancer": "gateway, through the balancer",
};

/** Who a party of a flow is, in words. */
export const partyText = (party: FlowParty): string => {
  switch (party.kind) {
    case "role":
      return ROLES[party.role];
    case "place":
      return PLACES[party.place];
  }
};

/** E.g. `53/UDP, 53/TCP`, with the standard number. */
export const flowPortText = ({ port, protocols }: DeclaredFlow): string =>
  protocols.map((protocol) => `${STANDARD_PORTS[port]}/${protocol}`).join(", ");

/** Both tables in Markdown, with a heading each. */
export const flowTables = (): string =>
  [
    "### In the seed (NetworkPolicies)",
    tableOf(SEED_FLOWS),
    "### In the shoot (firewalls and security groups of nodes; agents use their node's network)",
    tableOf(SHOOT_FLOWS),
  ]
    .map((part) => `\n${part}\n`)
    .join("")
    .concat("\n");

const tableOf = (flows: readonly DeclaredFlow[]): string =>
  [
    "| flow | from | to | port | why |",
    "| --- | --- | --- | --- | --- |",
    ...flows.map(
      (flow) =>
        `| \`${flow.id}\` | ${partyText(flow.from)} | ${partyText(flow.to)} | ${flowPortText(flow)} | ${flow.why} |`,
    ),
  ].join("\n");
