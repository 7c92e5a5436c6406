/** What must be done so that a namespace holds exactly the wanted policies of ours, and nobody else's is touched. */

import type { Finding } from "#src/model/finding.ts";
import type { NetworkPolicy, ObservedPolicy } from "#src/model/policy.ts";
import { isDataEqual } from "./data-equal.ts";
import { flowMark } from "./flow-mark.ts";
import { MANAGED_BY, MANAGED_BY_LABEL, SUBJECT_ANNOTATION } from "./policy-plan.ts";

export type PolicyChange =
  | { readonly kind: "create"; readonly policy: NetworkPolicy; readonly reason: string }
  /** Put back; `resourceVersion` guards against a change in between. */
  | {
      readonly kind: "replace";
      readonly policy: NetworkPolicy;
      readonly uid: string;
      readonly resourceVersion: string;
      readonly reason: string;
    }
  | {
      readonly kind: "remove";
      readonly namespace: string;
      readonly name: string;
      readonly uid: string;
      readonly reason: string;
    };

export interface PolicyDrift {
  /** In the order to apply: what allows comes before what no longer does. */
  readonly changes: readonly PolicyChange[];
  readonly findings: readonly Finding[];
}

/**
 * Compares what is wanted for one subject with what is there (N57). `observed` may hold all policies of the namespace:
 * only those with our label and this subject are ever replaced or removed. No drift, no change.
 */
export const planPolicyDrift = (options: {
  readonly subject: string;
  readonly wanted: readonly NetworkPolicy[];
  readonly observed: readonly ObservedPolicy[];
  /** Flows of which it is not known what their policies should say: what is there of them stays. */
  readonly keep?: readonly string[];
}): PolicyDrift => {
  const { subject, wanted, observed, keep = [] } = options;
  const found = new Map(observed.map((policy) => [keyOf(policy), policy]));
  const findings: Finding[] = [];
  const creates: PolicyChange[] = [];
  const replaces: PolicyChange[] = [];
  for (const policy of wanted) {
    const there = found.get(keyOf(policy));
    if (there === undefined) {
      creates.push({ kind: "create", policy, reason: `NetworkPolicy ${keyOf(policy)} is missing` });
      continue;
    }
    if (!isOurs(there)) {
      findings.push(takenName(policy));
      continue;
    }
    const difference = differenceOf(policy, there);
    if (difference === null) continue;
    const { uid, resourceVersion } = there;
    const reason = `NetworkPolicy ${keyOf(policy)}: ${difference}`;
    replaces.push({ kind: "replace", policy, uid, resourceVersion, reason });
  }
  const names = new Set(wanted.map(keyOf));
  const removes = observed
    .filter((policy) => isOurs(policy) && policy.annotations[SUBJECT_ANNOTATION] === subject)
    .filter((policy) => !names.has(keyOf(policy)))
    .filter(({ name }) => !keep.includes(flowMark(name)?.flow ?? ""))
    .map(({ namespace, name, uid }): PolicyChange => ({
      kind: "remove",
      namespace,
      name,
      uid,
      reason: `NetworkPolicy ${namespace}/${name} is no longer wanted`,
    }));
  return { changes: [...creates, ...replaces, ...removes], findings };
};

const keyOf = ({ namespace, name }: { readonly namespace: string; readonly name: string }) =>
  `${namespace}/${name}`;

/** Whether a policy may be changed or removed by us. */
export const isOurs = ({ labels }: ObservedPolicy): boolean =>
  labels[MANAGED_BY_LABEL] === MANAGED_BY;

/** The finding that somebody else's policy has a name of ours. */
export const takenName = (policy: NetworkPolicy): Finding => {
  const object = `NetworkPolicy ${keyOf(policy)}`;
  return {
    code: "policy-name-taken",
    object,
    message: `${object} is not Xylem's (no label ${MANAGED_BY_LABEL}: ${MANAGED_BY}) and is left alone, so its flow may be closed: rename it, or give it the label to have it replaced`,
  };
};

/** What differs, in words; null: nothing. Labels and annotations of others may stay. */
const differenceOf = (wanted: NetworkPolicy, there: ObservedPolicy): string | null => {
  const { policy } = there;
  if (policy === null) return "it can't be read";
  if (!isDataEqual(wanted.pods, policy.pods)) return "the pods it selects were changed";
  if (!isDataEqual(wanted.ingress, policy.ingress)) return "its ingress rules were changed";
  if (!isDataEqual(wanted.egress, policy.egress)) return "its egress rules were changed";
  if (!holdsAll(wanted.labels, there.labels)) return "its labels were changed";
  if (!holdsAll(wanted.annotations, there.annotations)) return "its annotations were changed";
  return wanted.owner === null || isDataEqual(wanted.owner, policy.owner)
    ? null
    : "its owner was changed";
};

const holdsAll = (
  wanted: Readonly<Record<string, string>>,
  there: Readonly<Record<string, string>>,
): boolean => Object.entries(wanted).every(([key, value]) => there[key] === value);
