/** For tests: a slow judge of flows, written from the API's sentences over raw objects, that shares no code with the real one. */

export interface RawSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: { key: string; operator: string; values?: string[] }[];
}

export interface RawPeer {
  podSelector?: RawSelector;
  namespaceSelector?: RawSelector;
  ipBlock?: { cidr: string; except?: string[] };
}

export interface RawRule {
  from?: RawPeer[];
  to?: RawPeer[];
  ports?: { protocol?: string; port?: number | string; endPort?: number }[];
}

export interface RawPolicy {
  apiVersion: string;
  kind: string;
  metadata: { namespace: string; name: string };
  spec: {
    podSelector: RawSelector;
    policyTypes?: string[];
    ingress?: RawRule[];
    egress?: RawRule[];
  };
}

export interface RawClusterRule {
  action: string;
  from?: RawClusterPeer[];
  to?: RawClusterPeer[];
  protocols?: Record<string, unknown>[];
}

export interface RawClusterPeer {
  namespaces?: RawSelector;
  pods?: { namespaceSelector: RawSelector; podSelector: RawSelector };
  networks?: string[];
  nodes?: RawSelector;
  domainNames?: string[];
}

export interface RawClusterPolicy {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
  spec: {
    tier: string;
    priority: number;
    subject: RawClusterPeer;
    ingress?: RawClusterRule[];
    egress?: RawClusterRule[];
  };
}

export interface RawPod {
  apiVersion: string;
  kind: string;
  metadata: { namespace: string; name: string; labels: Record<string, string> };
  spec: {
    hostNetwork?: boolean;
    containers: { ports: { name: string; containerPort: number; protocol: string }[] }[];
  };
  status: { podIP: string; hostIP: string };
}

export interface RawNamespace {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels: Record<string, string> };
}

export interface RawWorld {
  namespaces: RawNamespace[];
  nodes: {
    metadata: { name: string; labels: Record<string, string> };
    status: { addresses: { type: string; address: string }[] };
  }[];
  pods: RawPod[];
  policies: RawPolicy[];
  clusterPolicies: RawClusterPolicy[];
}

/** A pod or, where it is none, a plain address. */
export type RawEnd = RawPod | string;

export interface RawFlow {
  from: RawEnd;
  to: RawEnd;
  protocol: string;
  port: number;
}

type Side = "ingress" | "egress";

/** True when both ends let the flow pass: "for a connection to be allowed, both the egress policy on the source pod and the ingress policy on the destination pod need to allow it". */
export const oracleAllows = (world: RawWorld, flow: RawFlow): boolean =>
  endAllows(world, flow, "egress") && endAllows(world, flow, "ingress");

/** What one end alone says. */
export const endAllows = (world: RawWorld, flow: RawFlow, side: Side): boolean => {
  const subject = side === "egress" ? flow.from : flow.to;
  const peer = side === "egress" ? flow.to : flow.from;
  // Policies are about pods; "host-networked pods are not included in subject selection".
  if (typeof subject === "string" || subject.spec.hostNetwork === true) return true;
  // "A pod can't block access to itself."
  if (peer === subject) return true;
  // "Traffic to and from the node where a pod is running is always allowed."
  const isPlain = typeof peer === "string" || peer.spec.hostNetwork === true;
  if (isPlain && addressOf(peer) === subject.status.hostIP) return true;
  const admin = clusterSays(world, { flow, side, tier: "Admin", subject, peer });
  if (admin !== "nothing") return admin === "Accept";
  // "NetworkPolicy always makes a final decision for selected pods."
  const isolating = world.policies.filter(
    (policy) =>
      policy.metadata.namespace === subject.metadata.namespace &&
      selects(policy.spec.podSelector, subject.metadata.labels) &&
      typesOf(policy).includes(side === "ingress" ? "Ingress" : "Egress"),
  );
  if (isolating.length > 0) {
    // "The effects of those lists combine additively."
    return isolating.some((policy) =>
      (policy.spec[side] ?? []).some(
        (rule) =>
          peersMatch(world, { policy, peers: rule.from ?? rule.to ?? [], peer }) &&
          portsMatch(rule, flow),
      ),
    );
  }
  const baseline = clusterSays(world, { flow, side, tier: "Baseline", subject, peer });
  // "All pods can communicate with each other" where nothing decided.
  return baseline === "nothing" || baseline === "Accept";
};

/** "All policies are assumed to affect ingress"; "policies that contain an egress section are assumed to affect egress". */
const typesOf = ({ spec }: RawPolicy): string[] => {
  if (spec.policyTypes !== undefined && spec.policyTypes.length > 0) return spec.policyTypes;
  return spec.egress !== undefined && spec.egress.length > 0 ? ["Ingress", "Egress"] : ["Ingress"];
};

/** "An empty label selector matches all objects"; expressions and labels are ANDed. */
const selects = (selector: RawSelector, labels: Record<string, string>): boolean => {
  for (const key of Object.keys(selector.matchLabels ?? {})) {
    if (labels[key] !== selector.matchLabels?.[key]) return false;
  }
  for (const { key, operator, values } of selector.matchExpressions ?? []) {
    const value = labels[key];
    const isListed = value !== undefined && (values ?? []).indexOf(value) >= 0;
    if (operator === "In" && !isListed) return false;
    if (operator === "NotIn" && isListed) return false;
    if (operator === "Exists" && value === undefined) return false;
    if (operator === "DoesNotExist" && value !== undefined) return false;
  }
  return true;
};

const labelsOfNamespace = (world: RawWorld, name: string): Record<string, string> => ({
  ...world.namespaces.find(({ metadata }) => metadata.name === name)?.metadata.labels,
  "kubernetes.io/metadata.name": name,
});

/** "If this field is empty or missing, this rule matches all sources." */
const peersMatch = (
  world: RawWorld,
  options: { policy: RawPolicy; peers: RawPeer[]; peer: RawEnd },
): boolean => {
  const { policy, peers, peer } = options;
  if (peers.length === 0) return true;
  for (const wanted of peers) {
    if (wanted.ipBlock !== undefined) {
      const address = addressOf(peer);
      const isExcepted = (wanted.ipBlock.except ?? []).some((cidr) => inBlock(cidr, address));
      if (inBlock(wanted.ipBlock.cidr, address) && !isExcepted) return true;
      continue;
    }
    if (typeof peer === "string" || peer.spec.hostNetwork === true) continue;
    // Without a namespaceSelector: pods "in the policy's own namespace".
    const isThere =
      wanted.namespaceSelector === undefined
        ? peer.metadata.namespace === policy.metadata.namespace
        : selects(wanted.namespaceSelector, labelsOfNamespace(world, peer.metadata.namespace));
    if (isThere && selects(wanted.podSelector ?? {}, peer.metadata.labels)) return true;
  }
  return false;
};

/** "If this field is empty or missing, this rule matches all ports"; the protocol "defaults to TCP". */
const portsMatch = (rule: RawRule, flow: RawFlow): boolean => {
  if (rule.ports === undefined || rule.ports.length === 0) return true;
  for (const { protocol, port, endPort } of rule.ports) {
    if ((protocol ?? "TCP") !== flow.protocol) continue;
    if (port === undefined) return true;
    if (typeof port === "string") {
      if (isNamed(port, flow)) return true;
    } else if (endPort === undefined) {
      if (flow.port === port) return true;
    } else if (flow.port >= port && flow.port <= endPort) return true;
  }
  return false;
};

const isNamed = (name: string, { to, port, protocol }: RawFlow): boolean => {
  if (typeof to === "string" || to.spec.hostNetwork === true) return false;
  const ports = to.spec.containers.flatMap((container) => container.ports);
  return ports.some(
    (known) => known.name === name && known.containerPort === port && known.protocol === protocol,
  );
};

const addressOf = (end: RawEnd): string => (typeof end === "string" ? end : end.status.podIP);

const toNumber = (ip: string): number =>
  ip.split(".").reduce((sum, octet) => sum * 256 + Number(octet), 0);

const inBlock = (cidr: string, ip: string): boolean => {
  const [base = "", length = ""] = cidr.split("/");
  const size = 2 ** (32 - Number(length));
  return Math.floor(toNumber(base) / size) === Math.floor(toNumber(ip) / size);
};

/** The first matching rule in the order of priorities; Pass and no match leave it to the next tier. */
const clusterSays = (
  world: RawWorld,
  options: { flow: RawFlow; side: Side; tier: string; subject: RawPod; peer: RawEnd },
): "Accept" | "Deny" | "nothing" => {
  const { flow, side, tier, subject, peer } = options;
  const policies = world.clusterPolicies
    .filter(({ spec }) => spec.tier === tier && clusterPeerMatches(world, spec.subject, subject))
    .sort((a, b) => a.spec.priority - b.spec.priority);
  for (const { spec } of policies) {
    for (const rule of spec[side] ?? []) {
      const peers = rule.from ?? rule.to ?? [];
      const isUnknown = peers.some(({ domainNames }) => domainNames !== undefined);
      // "For Deny and Pass rules, fail closed means: treat the rule as a 'Deny all' rule."
      if (isUnknown && rule.action !== "Accept") return "Deny";
      if (!peers.some((wanted) => clusterPeerMatches(world, wanted, peer))) continue;
      if (!clusterPortsMatch(rule, flow)) continue;
      if (rule.action === "Pass") return "nothing";
      return rule.action === "Accept" ? "Accept" : "Deny";
    }
  }
  return "nothing";
};

const clusterPeerMatches = (world: RawWorld, wanted: RawClusterPeer, end: RawEnd): boolean => {
  if (wanted.networks !== undefined) {
    return wanted.networks.some((cidr) => inBlock(cidr, addressOf(end)));
  }
  if (wanted.nodes !== undefined) {
    const { nodes } = wanted;
    return world.nodes
      .filter(({ metadata }) => selects(nodes, metadata.labels))
      .some(({ status }) => status.addresses.some(({ address }) => address === addressOf(end)));
  }
  if (typeof end === "string" || end.spec.hostNetwork === true) return false;
  const labels = labelsOfNamespace(world, end.metadata.namespace);
  if (wanted.namespaces !== undefined) return selects(wanted.namespaces, labels);
  if (wanted.pods === undefined) return false;
  return (
    selects(wanted.pods.namespaceSelector, labels) &&
    selects(wanted.pods.podSelector, end.metadata.labels)
  );
};

const clusterPortsMatch = ({ protocols }: RawClusterRule, flow: RawFlow): boolean => {
  if (protocols === undefined) return true;
  return protocols.some((entry) => {
    const name = entry["destinationNamedPort"];
    if (typeof name === "string") return isNamed(name, flow);
    const wanted = entry[flow.protocol.toLowerCase()] as
      | { destinationPort: { number?: number; range?: { start: number; end: number } } }
      | undefined;
    if (wanted === undefined) return false;
    const { number, range } = wanted.destinationPort;
    if (number !== undefined) return flow.port === number;
    return range !== undefined && flow.port >= range.start && flow.port <= range.end;
  });
};
