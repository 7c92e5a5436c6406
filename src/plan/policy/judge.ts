/** Judges flows by the policies of a world: egress of the sender, then ingress of the receiver. */

import type {
  Flow,
  FlowEnd,
  NetworkPolicy,
  PolicyDirection,
  PolicyPod,
  PolicyWorld,
} from "#src/model/policy.ts";
import { clusterTiers, type TierVerdict } from "./cluster-tier.ts";
import { isPeer, isPort } from "./match.ts";
import { isSelected, namespaceLabels } from "./selector.ts";
import type { DirectionVerdict, FlowVerdict, Sight } from "./verdict.ts";

export type Judge = (flow: Flow) => FlowVerdict;

/** Prepares a world for many questions; what selects a pod is found out once a pod. */
export const judgeOf = (world: PolicyWorld): Judge => {
  const labelsOf = namespaceLabels(world.namespaces);
  const tiers = clusterTiers(world, labelsOf);
  const selecting = policiesByPod(world.policies);
  const judgeEnd = (sight: Sight): DirectionVerdict => {
    const admin = tiers("Admin", sight);
    if (admin.kind === "decided") return admin.verdict;
    const policies = selecting(sight.subject, sight.direction);
    if (policies.length > 0) return judgePolicies({ policies, sight, labelsOf });
    const baseline: TierVerdict = tiers("Baseline", sight);
    return baseline.kind === "decided" ? baseline.verdict : { isAllowed: true, by: "no-policy" };
  };
  return (flow) => {
    const notes = new Set<string>();
    const note = (sentence: string) => void notes.add(sentence);
    const { from, to } = flow;
    const egress =
      exemption(from, to) ??
      judgeEnd({ direction: "egress", subject: podOf(from), peer: to, flow, note });
    const ingress =
      exemption(to, from) ??
      judgeEnd({ direction: "ingress", subject: podOf(to), peer: from, flow, note });
    const isAllowed = egress.isAllowed && ingress.isAllowed;
    return { isAllowed, egress, ingress, notes: [...notes] };
  };
};

/** Why no policy is asked about `subject`; null: policies are asked. */
const exemption = (subject: FlowEnd, peer: FlowEnd): DirectionVerdict | null => {
  if (subject.kind === "address" || subject.pod.isHostNetwork) {
    return { isAllowed: true, by: "outside" };
  }
  const { pod } = subject;
  if (peer.kind === "pod" && isSamePod(pod, peer.pod)) return { isAllowed: true, by: "itself" };
  const isNode = peer.kind === "address" || peer.pod.isHostNetwork;
  return isNode && peer.address !== null && pod.nodeAddresses.includes(peer.address)
    ? { isAllowed: true, by: "own-node" }
    : null;
};

const isSamePod = (a: PolicyPod, b: PolicyPod): boolean =>
  !a.isTemplate && !b.isTemplate && a.namespace === b.namespace && a.name === b.name;

const podOf = (end: FlowEnd): PolicyPod => {
  if (end.kind === "pod") return end.pod;
  throw new Error("policies were asked about an address");
};

const policiesByPod = (policies: readonly NetworkPolicy[]) => {
  const known = new Map<PolicyPod, Record<PolicyDirection, readonly NetworkPolicy[]>>();
  return (pod: PolicyPod, direction: PolicyDirection): readonly NetworkPolicy[] => {
    let found = known.get(pod);
    if (found === undefined) {
      const all = policies.filter(
        ({ namespace, pods }) => namespace === pod.namespace && isSelected(pods, pod.labels),
      );
      found = {
        ingress: all.filter(({ ingress }) => ingress !== null),
        egress: all.filter(({ egress }) => egress !== null),
      };
      known.set(pod, found);
    }
    return found[direction];
  };
};

/** The policies add up: one rule that matches peer and port is enough. */
const judgePolicies = (options: {
  readonly policies: readonly NetworkPolicy[];
  readonly sight: Sight;
  readonly labelsOf: (namespace: string) => Readonly<Record<string, string>>;
}): DirectionVerdict => {
  const { policies, sight, labelsOf } = options;
  const otherPorts: { policy: string; rule: number }[] = [];
  let byBlock: Extract<DirectionVerdict, { by: "policy" }> | null = null;
  for (const policy of policies) {
    for (const [at, rule] of (policy[sight.direction] ?? []).entries()) {
      const matching = rule.peers.filter((peer) =>
        isPeer({ peer, end: sight.peer, namespace: policy.namespace, labelsOf }),
      );
      if (rule.peers.length > 0 && matching.length === 0) continue;
      if (rule.ports.length > 0 && !rule.ports.some((port) => isPort(port, sight.flow))) {
        otherPorts.push({ policy: policy.name, rule: at });
        continue;
      }
      const verdict = {
        isAllowed: true,
        by: "policy",
        namespace: policy.namespace,
        policy: policy.name,
        rule: at,
      } as const;
      if (!isPodByBlock(sight.peer, matching)) return verdict;
      byBlock ??= verdict;
    }
  }
  if (byBlock !== null) {
    sight.note(
      `NetworkPolicy ${byBlock.namespace}/${byBlock.policy} ${sight.direction}[${byBlock.rule}] matches a pod only by an ipBlock, which some network plugins never do: select pods by labels`,
    );
    return byBlock;
  }
  if (isBlockUnasked(policies, sight)) {
    sight.note(
      `an ipBlock of the policies for ${sight.direction} could match, but the address of the other end is not known: give its status, or ask about the address`,
    );
  }
  return {
    isAllowed: false,
    by: "isolation",
    namespace: sight.subject.namespace,
    policies: policies.map(({ name }) => name),
    otherPorts,
  };
};

/** True when a pod was matched by its address alone (N54). */
const isPodByBlock = (end: FlowEnd, matching: readonly { readonly kind: string }[]): boolean =>
  end.kind === "pod" &&
  !end.pod.isHostNetwork &&
  matching.length > 0 &&
  matching.every(({ kind }) => kind === "block");

/** True when a rule for the flow's port has a block that an unknown address might be in. */
const isBlockUnasked = (policies: readonly NetworkPolicy[], sight: Sight): boolean =>
  sight.peer.address === null &&
  policies
    .flatMap((policy) => policy[sight.direction] ?? [])
    .some(
      ({ peers, ports }) =>
        peers.some(({ kind }) => kind === "block") &&
        (ports.length === 0 || ports.some((port) => isPort(port, sight.flow))),
    );
