/** Renders declared flows as NetworkPolicies, one a flow and direction, for the namespace of a tunnel or of the controller. */

import { containsCidr, overlaps, type Cidr } from "#src/model/cidr.ts";
import type { Finding } from "#src/model/finding.ts";
import {
  ANY_LABELS,
  labelsSelector,
  NAMESPACE_NAME_LABEL,
  type Labels,
  type LabelSelector,
  type NetworkPolicy,
  type PolicyDirection,
  type PolicyOwner,
  type PolicyPeer,
  type PolicyRule,
} from "#src/model/policy.ts";
import { policyName } from "./flow-mark.ts";
import {
  SEED_FLOWS,
  type DeclaredFlow,
  type FlowParty,
  type FlowPlace,
  type FlowPortName,
  type FlowRole,
} from "./flows.ts";

/** Pods of a role: where, and by which labels. */
export interface RoleSelector {
  /** Null: all namespaces. */
  readonly namespace: string | null;
  readonly pods: Labels;
}

/** What the seed is like around a tunnel; everything that declared flows leave open. */
export interface PolicyFacts {
  /** Where policies are made: the namespace of the tunnel, or the controller's. */
  readonly namespace: string;
  /** The tunnel's name, or `controller`: ends every policy's name. */
  readonly subject: string;
  /** The object that the policies go away with; null: none. */
  readonly owner: PolicyOwner | null;
  /** Null: the installation has no such pods, so their flows are left out. */
  readonly roles: Readonly<Record<FlowRole, RoleSelector | null>>;
  /** Addresses of the ends that are no pods; an empty list leaves their flows out. */
  readonly places: Readonly<Partial<Record<FlowPlace, readonly Cidr[]>>>;
  readonly ports: Readonly<Record<FlowPortName, number>>;
  /** More ports of one thing, e.g. 6443 behind the seed API's Service. */
  readonly morePorts?: Readonly<Partial<Record<FlowPortName, readonly number[]>>>;
  /** The seed's pod network: blocks never stand for pods (N54). */
  readonly podRanges: readonly Cidr[];
}

export interface PolicyPlan {
  readonly policies: readonly NetworkPolicy[];
  readonly findings: readonly Finding[];
}

/** What every object of ours is labelled with, and the flow and the subject that a policy is for. */
export const MANAGED_BY_LABEL = "app.kubernetes.io/managed-by";
export const MANAGED_BY = "xylem";
export const FLOW_LABEL = "xylem.dev/flow";
export const SUBJECT_ANNOTATION = "xylem.dev/policies-of";
export const WHY_ANNOTATION = "xylem.dev/why";

/** The longest name of an object (RFC 1123 subdomain, Kubernetes). */
const NAME_CHARS_MAX = 253;

/** Where pods of a tunnel and around it usually are, and their labels. */
export const standardRoles = (where: {
  /** Of the tunnel. */
  readonly namespace: string;
  readonly tunnel: string;
  readonly controllerNamespace: string;
}): PolicyFacts["roles"] => {
  const { namespace, tunnel, controllerNamespace } = where;
  return {
    "api-server": { namespace, pods: { app: "kubernetes", role: "apiserver" } },
    controller: {
      namespace: controllerNamespace,
      pods: { "app.kubernetes.io/name": "xylem-controller" },
    },
    dns: { namespace: "kube-system", pods: { "k8s-app": "kube-dns" } },
    etcd: { namespace, pods: { app: "etcd" } },
    gateway: { namespace, pods: { "xylem.dev/tunnel": tunnel } },
    prometheus: { namespace, pods: { app: "prometheus" } },
    scraper: { namespace, pods: { app: "prometheus" } },
  };
};

/**
 * Plans the policies of a namespace: for each declared flow an egress policy where its sender is a pod of this namespace,
 * and an ingress policy where its receiver is. They allow and never deny, so they are at home under a default-deny policy;
 * but a pod that they select is isolated by that, so they must name everything that it needs.
 */
export const planPolicies = (
  facts: PolicyFacts,
  flows: readonly DeclaredFlow[] = SEED_FLOWS,
): PolicyPlan => {
  const findings: Finding[] = [];
  const policies = flows.flatMap((flow) =>
    (["egress", "ingress"] as const).flatMap((direction) => {
      const policy = planFlow(facts, { flow, direction, findings });
      return policy === null ? [] : [policy];
    }),
  );
  return { policies, findings };
};

const planFlow = (
  facts: PolicyFacts,
  options: {
    readonly flow: DeclaredFlow;
    readonly direction: PolicyDirection;
    readonly findings: Finding[];
  },
): NetworkPolicy | null => {
  const { flow, direction, findings } = options;
  const [subject, peer] = direction === "egress" ? [flow.from, flow.to] : [flow.to, flow.from];
  const pods = selectorOf(facts, subject);
  if (pods === null || pods.namespace !== facts.namespace) return null;
  const name = policyName({ flow: flow.id, direction, subject: facts.subject });
  const object = `NetworkPolicy ${facts.namespace}/${name}`;
  if (name.length > NAME_CHARS_MAX) {
    const message = `${object}: its name is longer than ${NAME_CHARS_MAX} characters, so flow ${flow.id} stays closed under default-deny: give the tunnel a shorter name`;
    findings.push({ code: "policy-name-too-long", object, message });
    return null;
  }
  const { peers, refused } = peersOf(facts, peer);
  for (const cidr of refused) {
    const message = `${object}: ${cidr} is in the seed's pod network, and a block of addresses must not stand for pods: select them by labels`;
    findings.push({ code: "ip-block-for-pods", object, message });
  }
  if (peers.length === 0) return null;
  const rule: PolicyRule = { peers, ports: portsOf(facts, flow) };
  return {
    namespace: facts.namespace,
    name,
    labels: { [MANAGED_BY_LABEL]: MANAGED_BY, [FLOW_LABEL]: flow.id },
    annotations: { [SUBJECT_ANNOTATION]: facts.subject, [WHY_ANNOTATION]: flow.why },
    owner: facts.owner,
    pods: labelsSelector(pods.pods),
    ingress: direction === "ingress" ? [rule] : null,
    egress: direction === "egress" ? [rule] : null,
  };
};

const selectorOf = (facts: PolicyFacts, party: FlowParty): RoleSelector | null =>
  party.kind === "role" ? facts.roles[party.role] : null;

/** Pods by labels, everything else by blocks without the seed's pods. */
const peersOf = (
  facts: PolicyFacts,
  party: FlowParty,
): { readonly peers: readonly PolicyPeer[]; readonly refused: readonly Cidr[] } => {
  switch (party.kind) {
    case "role": {
      const selector = facts.roles[party.role];
      if (selector === null) return { peers: [], refused: [] };
      const namespaces = namespacesOf(facts, selector);
      return {
        peers: [{ kind: "pods", namespaces, pods: labelsSelector(selector.pods) }],
        refused: [],
      };
    }
    case "place": {
      const cidrs = facts.places[party.place] ?? [];
      const isOfPods = (inner: Cidr): boolean =>
        facts.podRanges.some((outer) => containsCidr({ outer, inner }));
      return {
        peers: cidrs
          .filter((cidr) => !isOfPods(cidr))
          .map((cidr) => ({
            kind: "block",
            cidr,
            except: facts.podRanges.filter((range) => overlaps(range, cidr)),
          })),
        refused: cidrs.filter(isOfPods),
      };
    }
  }
};

/** Null: the policy's own namespace. */
const namespacesOf = (facts: PolicyFacts, { namespace }: RoleSelector): LabelSelector | null => {
  if (namespace === facts.namespace) return null;
  return namespace === null ? ANY_LABELS : labelsSelector({ [NAMESPACE_NAME_LABEL]: namespace });
};

const portsOf = (facts: PolicyFacts, flow: DeclaredFlow): PolicyRule["ports"] => {
  const numbers = new Set([facts.ports[flow.port], ...(facts.morePorts?.[flow.port] ?? [])]);
  return [...numbers].flatMap((port) =>
    flow.protocols.map((protocol) => ({ protocol, port, endPort: null })),
  );
};
