/** The tiers of ClusterNetworkPolicy around NetworkPolicy: Admin before it, Baseline after it (policy.networking.k8s.io/v1alpha2). */

import type {
  ClusterNetworkPolicy,
  ClusterPolicyPeer,
  ClusterPolicyPort,
  ClusterPolicyRule,
  ClusterPolicyTier,
  Flow,
  FlowEnd,
  Labels,
  PolicyNode,
  PolicyPod,
  PolicyWorld,
} from "#src/model/policy.ts";
import { hasNamedPort, isInBlock } from "./match.ts";
import { isSelected } from "./selector.ts";
import type { DirectionVerdict, Sight } from "./verdict.ts";

type Decision = Extract<DirectionVerdict, { by: "cluster-policy" }>;

/** Passed on to the next tier, or decided here. */
export type TierVerdict =
  | { readonly kind: "next" }
  | { readonly kind: "decided"; readonly verdict: Decision };

interface Surroundings {
  readonly nodes: readonly PolicyNode[];
  readonly labelsOf: (namespace: string) => Labels;
}

/** Answers for a tier: the first matching rule of the policy with the lowest priority number decides. */
export const clusterTiers = (
  world: PolicyWorld,
  labelsOf: Surroundings["labelsOf"],
): ((tier: ClusterPolicyTier, sight: Sight) => TierVerdict) => {
  const around = { nodes: world.nodes, labelsOf };
  const ordered = world.clusterPolicies.toSorted(
    (a, b) => a.priority - b.priority || (a.name < b.name ? -1 : 1),
  );
  const known = new Map<PolicyPod, readonly ClusterNetworkPolicy[]>();
  return (tier, sight) => {
    const { subject } = sight;
    const about =
      known.get(subject) ??
      ordered.filter(
        (policy) =>
          isSelected(policy.subject.namespaces, labelsOf(subject.namespace)) &&
          isSelected(policy.subject.pods, subject.labels),
      );
    known.set(subject, about);
    return judgeTier(
      about.filter((policy) => policy.tier === tier),
      sight,
      around,
    );
  };
};

const judgeTier = (
  policies: readonly ClusterNetworkPolicy[],
  sight: Sight,
  around: Surroundings,
): TierVerdict => {
  for (const [at, policy] of policies.entries()) {
    const decision = judgePolicy(policy, sight, around);
    if (decision === null) continue;
    const rivals = policies.slice(at + 1).filter(({ priority }) => priority === policy.priority);
    for (const rival of rivals) {
      const other = judgePolicy(rival, sight, around);
      if (other === null || other.action === decision.action) continue;
      sight.note(
        `ClusterNetworkPolicy ${policy.name} (${decision.action}) and ${rival.name} (${other.action}) both have priority ${policy.priority} in tier ${policy.tier}, so either may decide: give them different priorities`,
      );
    }
    return decision.action === "Pass" ? { kind: "next" } : { kind: "decided", verdict: decision };
  }
  return { kind: "next" };
};

/** What the first matching rule says; null: none matches. */
const judgePolicy = (
  policy: ClusterNetworkPolicy,
  sight: Sight,
  around: Surroundings,
): Decision | null => {
  for (const [at, rule] of policy[sight.direction].entries()) {
    const action = actionOf(rule, sight, around);
    if (action === null) continue;
    const { name, tier } = policy;
    return {
      isAllowed: action !== "Deny",
      by: "cluster-policy",
      policy: name,
      tier,
      rule: at,
      ruleName: rule.name,
      action,
    };
  }
  return null;
};

/**
 * What a rule does to the flow; null: nothing. A peer that is not understood fails closed: in an Accept it matches
 * nothing, and a Deny or Pass that holds one denies everything.
 */
const actionOf = (
  rule: ClusterPolicyRule,
  { peer, flow, note }: Sight,
  around: Surroundings,
): ClusterPolicyRule["action"] | null => {
  const unknown = rule.peers.find(({ kind }) => kind === "unknown");
  if (unknown !== undefined && unknown.kind === "unknown") {
    note(
      `a rule with "${unknown.field}" is not understood here: ${rule.action === "Accept" ? "taken as matching nothing" : "taken as denying everything"}`,
    );
    if (rule.action !== "Accept") return "Deny";
  }
  const isMatch =
    rule.peers.some((wanted) => isClusterPeer(wanted, peer, around)) &&
    (rule.ports.length === 0 || rule.ports.some((port) => isClusterPort(port, flow)));
  return isMatch ? rule.action : null;
};

const isClusterPeer = (
  peer: ClusterPolicyPeer,
  end: FlowEnd,
  { nodes, labelsOf }: Surroundings,
): boolean => {
  switch (peer.kind) {
    case "pods":
      return (
        end.kind === "pod" &&
        !end.pod.isHostNetwork &&
        isSelected(peer.namespaces, labelsOf(end.pod.namespace)) &&
        isSelected(peer.pods, end.pod.labels)
      );
    case "networks":
      return peer.cidrs.some((cidr) => isInBlock(cidr, end.address));
    case "nodes": {
      const { address } = end;
      return (
        address !== null &&
        nodes.some(
          ({ labels, addresses }) => addresses.includes(address) && isSelected(peer.nodes, labels),
        )
      );
    }
    case "unknown":
      return false;
  }
};

const isClusterPort = (port: ClusterPolicyPort, flow: Flow): boolean => {
  switch (port.kind) {
    case "named":
      return hasNamedPort(flow, port.name);
    case "range":
      return port.protocol === flow.protocol && flow.port >= port.from && flow.port <= port.to;
  }
};
