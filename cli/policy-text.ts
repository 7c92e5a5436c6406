/** Says verdicts of network policies in words. */

import type { ExplainedFlow, Explanation } from "#src/plan/policy/explain.ts";
import { flowReason } from "#src/plan/policy/flow-mark.ts";
import { rangesText } from "#src/plan/policy/port-atoms.ts";
import type { DirectionVerdict, FlowVerdict } from "#src/plan/policy/verdict.ts";
import type { VerdictChange, VerdictDiff } from "#src/plan/policy/verdict-diff.ts";

/** What a person reads: one paragraph a flow. */
export const explanationText = ({ flows, verdict }: Explanation): string => {
  const paragraphs = flows.map(flowText);
  if (flows.length > 1) {
    const allowed = flows.filter(({ isAllowed }) => isAllowed).length;
    paragraphs.push(`${verdict}: ${allowed} of ${flows.length} flows are allowed`);
  }
  return paragraphs.join("\n");
};

const flowText = (flow: ExplainedFlow): string =>
  [
    `${flow.isAllowed ? "allowed" : "denied"}: ${flow.from} -> ${flow.to} ${flow.port}/${flow.protocol}`,
    `  egress of ${flow.from}: ${directionText(flow.egress, "egress")}`,
    `  ingress of ${flow.to}: ${directionText(flow.ingress, "ingress")}`,
    ...flow.notes.map((note) => `  note: ${note}`),
  ].join("\n");

/** One direction's verdict and what says so. */
export const directionText = (
  verdict: DirectionVerdict,
  direction: "ingress" | "egress",
): string => {
  switch (verdict.by) {
    case "outside":
      return "allowed, it is no pod of the pod network, so no policy is about it";
    case "itself":
      return "allowed, a pod can always reach itself";
    case "own-node":
      return "allowed, a pod and its own node always reach each other";
    case "no-policy":
      return "allowed, no policy selects the pod";
    case "cluster-policy": {
      const name = verdict.ruleName === "" ? "" : ` "${verdict.ruleName}"`;
      return `${verdict.isAllowed ? "allowed" : "denied"} by ClusterNetworkPolicy ${verdict.policy} (${verdict.tier}) ${direction}[${verdict.rule}]${name}: ${verdict.action}`;
    }
    case "policy": {
      const why = flowReason(verdict.policy);
      return `allowed by NetworkPolicy ${verdict.namespace}/${verdict.policy} ${direction}[${verdict.rule}]${why === null ? "" : ` (${why})`}`;
    }
    case "isolation": {
      const policies = verdict.policies.map((name) => `${verdict.namespace}/${name}`).join(", ");
      const other = verdict.otherPorts.map(
        ({ policy, rule }) => `${verdict.namespace}/${policy} ${direction}[${rule}]`,
      );
      const near = other.length === 0 ? "" : `; for other ports: ${other.join(", ")}`;
      return `denied, selected by ${policies}, and no rule there matches${near}`;
    }
  }
};

const SHOWN_MEMBERS_MAX = 3;
/** More than anybody reads; JSON has them all. */
const SHOWN_CHANGES_MAX = 500;

/** What a person reads of a comparison: policies by name, then every change of a verdict. */
export const diffText = ({ policies, changes }: VerdictDiff): string => {
  const names = (["added", "changed", "removed"] as const).flatMap((what) =>
    policies[what].map((name) => `policy ${what}: ${name}`),
  );
  const shown = changes.slice(0, SHOWN_CHANGES_MAX).map(changeText);
  const left = changes.length - shown.length;
  const more = left > 0 ? [`... and ${left} more; -o json prints all`] : [];
  const end =
    changes.length === 0
      ? "no verdict changes"
      : `${changes.length} ${changes.length === 1 ? "change" : "changes"} of verdicts`;
  return [...names, ...shown, ...more, end].join("\n");
};

const changeText = ({ becomes, from, to, ports, before, after }: VerdictChange): string => {
  const was = becomes === "allowed" ? "denied" : "allowed";
  return [
    `${was} -> ${becomes}: ${membersText(from)} -> ${membersText(to)} ${rangesText(ports)}`,
    ...deciding(becomes === "denied" ? after : before, becomes === "denied" ? "now" : "so far"),
  ].join("\n");
};

/** The direction that denies, which is what makes the difference. */
const deciding = ({ egress, ingress }: FlowVerdict, when: string): string[] => [
  ...(egress.isAllowed ? [] : [`  egress ${when}: ${directionText(egress, "egress")}`]),
  ...(ingress.isAllowed ? [] : [`  ingress ${when}: ${directionText(ingress, "ingress")}`]),
];

const membersText = (members: readonly string[]): string => {
  const more = members.length - SHOWN_MEMBERS_MAX;
  const shown = members.slice(0, SHOWN_MEMBERS_MAX).join(", ");
  return more > 0 ? `${shown} and ${more} more` : shown;
};
