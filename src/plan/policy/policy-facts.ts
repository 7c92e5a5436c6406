/** From a Tunnel and an installation to the facts that policies are planned from. */

import { hostCidr, type Cidr } from "#src/model/cidr.ts";
import type { Endpoint } from "#src/model/endpoint.ts";
import type { Finding } from "#src/model/finding.ts";
import type { Labels, PolicyOwner } from "#src/model/policy.ts";
import type { Tunnel } from "#src/model/tunnel.ts";
import { FLOW_ROLES, STANDARD_PORTS, type FlowPortName, type FlowRole } from "./flows.ts";
import { standardRoles, type PolicyFacts, type RoleSelector } from "./policy-plan.ts";

/** Pods of a role by other labels than the standard ones. */
export interface RolePods {
  /** Left out: where such pods usually are. Null: all namespaces. */
  readonly namespace?: string | null;
  readonly pods: Labels;
}

/** What all tunnels of a seed have in common. */
export interface PolicyInstallation {
  readonly controllerNamespace: string;
  /** Where the seed's API server is reached: its Service's address and those behind it. */
  readonly seedApi: readonly Endpoint[];
  /** Addresses of the seed's nodes: kubelets probe from there. */
  readonly seedNodes: readonly Cidr[];
  /** The seed's pod network, which blocks never stand for (N54). */
  readonly podRanges: readonly Cidr[];
  /** From where agents, kubelets and people reach shoots' API servers. */
  readonly apiServerClients: readonly Cidr[];
  /** Where pods differ from `standardRoles`; null: there are none. */
  readonly roles: Readonly<Partial<Record<FlowRole, RolePods | null>>>;
  /** Where ports differ from `STANDARD_PORTS`. */
  readonly ports: Readonly<Partial<Record<FlowPortName, number>>>;
}

/** Ends the names of the policies of the controller's namespace. */
export const CONTROLLER_SUBJECT = "controller";

/** Facts of a tunnel's namespace. `endpoints`: where its agents are reached now; none closes that flow, which is found. */
export const tunnelPolicyFacts = (options: {
  readonly tunnel: Tunnel;
  /** Of the Tunnel object, which its policies go away with. */
  readonly uid: string;
  readonly endpoints: readonly Endpoint[];
  readonly installation: PolicyInstallation;
}): { readonly facts: PolicyFacts; readonly findings: readonly Finding[] } => {
  const { tunnel, uid, endpoints, installation } = options;
  const { namespace, name } = tunnel;
  const object = `Tunnel ${namespace}/${name}`;
  const facts: PolicyFacts = {
    ...sharedFacts(installation, { namespace, tunnel: name }),
    namespace,
    subject: name,
    owner: { apiVersion: "xylem.dev/v1alpha1", kind: "Tunnel", name, uid } satisfies PolicyOwner,
    places: {
      ...sharedPlaces(installation),
      "tunnel-endpoint": uniqueBlocks(endpoints),
    },
    ...portFacts(installation, endpoints),
  };
  if (endpoints.length > 0) return { facts, findings: [] };
  const message = `${object}: no address of its endpoint is known, so under default-deny its gateways can't send anything: wait for the agents' balancer, or set spec.endpoint`;
  return { facts, findings: [{ code: "policy-endpoint-unknown", object, message }] };
};

/** Facts of the controller's own namespace. */
export const controllerPolicyFacts = (installation: PolicyInstallation): PolicyFacts => {
  const namespace = installation.controllerNamespace;
  const shared = sharedFacts(installation, { namespace, tunnel: CONTROLLER_SUBJECT });
  const { controller, dns, scraper } = shared.roles;
  const apiServer = shared.roles["api-server"];
  return {
    podRanges: shared.podRanges,
    namespace,
    subject: CONTROLLER_SUBJECT,
    owner: null,
    roles: {
      // Tunnels have namespaces of their own, and come and go.
      "api-server": apiServer === null ? null : { ...apiServer, namespace: null },
      controller,
      dns,
      etcd: null,
      gateway: null,
      prometheus: null,
      // The standard one is in a tunnel's namespace.
      scraper: (installation.roles.scraper ?? null) === null ? null : scraper,
    },
    places: sharedPlaces(installation),
    ...portFacts(installation, []),
  };
};

const sharedFacts = (
  installation: PolicyInstallation,
  where: { readonly namespace: string; readonly tunnel: string },
): Pick<PolicyFacts, "roles" | "podRanges"> => {
  const { controllerNamespace, podRanges } = installation;
  const roles = { ...standardRoles({ ...where, controllerNamespace }) };
  for (const role of FLOW_ROLES) {
    const other = installation.roles[role];
    if (other !== undefined) roles[role] = placed(other, roles[role]);
  }
  return { roles, podRanges };
};

const placed = (other: RolePods | null, standard: RoleSelector | null): RoleSelector | null =>
  other === null ? null : { namespace: standard?.namespace ?? null, ...other };

const sharedPlaces = (installation: PolicyInstallation): PolicyFacts["places"] => ({
  "seed-api": uniqueBlocks(installation.seedApi),
  "seed-nodes": installation.seedNodes,
  "api-server-clients": installation.apiServerClients,
});

const uniqueBlocks = (endpoints: readonly Endpoint[]): Cidr[] => [
  ...new Set(endpoints.map(({ address }) => hostCidr(address))),
];

/** The first endpoint says the port; others are added. */
const portFacts = (
  { seedApi, ports }: PolicyInstallation,
  endpoints: readonly Endpoint[],
): Required<Pick<PolicyFacts, "ports" | "morePorts">> => {
  const [seedPort, ...moreSeedPorts] = seedApi.map(({ port }) => port);
  const [endpointPort, ...moreEndpointPorts] = endpoints.map(({ port }) => port);
  return {
    ports: {
      ...STANDARD_PORTS,
      ...(seedPort === undefined ? {} : { "seed-api": seedPort }),
      ...(endpointPort === undefined ? {} : { "tunnel-endpoint": endpointPort }),
      ...ports,
    },
    morePorts: { "seed-api": moreSeedPorts, "tunnel-endpoint": moreEndpointPorts },
  };
};
