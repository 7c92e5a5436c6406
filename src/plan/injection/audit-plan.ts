/** Finds labelled pods without a gateway, or with an outdated one, and which of them may be made anew now. */

import {
  type AuditedPod,
  type InjectionConfig,
  type PodNamespace,
  type PodOwner,
  type SkipCode,
  TUNNEL_LABEL,
} from "#src/model/injection.ts";
import { isInjected, planInjection } from "./injection-plan.ts";

export type AuditState =
  | "current"
  /** It has a gateway of another configuration. */
  | "outdated"
  /** The injector was down when it was made, or the label came later. */
  | "missing"
  /** Its gateway is there, behind another container that starts first. */
  | "not-first"
  /** It asks for a tunnel and gets none, for a reason of its own. */
  | "excluded";

export interface AuditFinding {
  readonly namespace: string;
  readonly pod: string;
  readonly uid: string;
  readonly tunnel: string;
  readonly state: Exclude<AuditState, "current">;
  /** One sentence: what is wrong and what to do. */
  readonly message: string;
}

export interface AuditPlan {
  /** Labelled pods that run, by state. */
  readonly counts: Readonly<Record<AuditState, number>>;
  readonly findings: readonly AuditFinding[];
  /** Pods to delete now, if their controllers are whole; empty unless the audit is told to. */
  readonly recreate: readonly Recreation[];
}

/** One pod that its controller may make anew. */
export interface Recreation {
  readonly finding: AuditFinding;
  readonly owner: PodOwner;
  /** Pods of the controller that were seen, this one included; all ready. */
  readonly siblings: number;
}

export interface AuditFacts {
  readonly pods: readonly AuditedPod[];
  /** By name; a pod of an unknown namespace waits for it. */
  readonly namespaces: ReadonlyMap<string, PodNamespace>;
  readonly config: InjectionConfig;
  readonly mayRecreate: boolean;
}

/** What one tunnel's pods say, as a condition of its `Tunnel`. */
export interface AuditSummary {
  readonly status: "True" | "False";
  readonly reason: "Injected" | "StalePods";
  readonly message: string;
}

/** Controllers that make a lost pod anew; of a Job it would be a failure. */
const REPLACING_KINDS: ReadonlySet<string> = new Set(["ReplicaSet", "StatefulSet", "DaemonSet"]);
/** Names in a summary; the rest is counted. */
const NAMES_SHOWN = 5;

/** Plans one look at all labelled pods. */
export const planAudit = (facts: AuditFacts): AuditPlan => {
  const counts = { current: 0, outdated: 0, missing: 0, "not-first": 0, excluded: 0 };
  const findings: AuditFinding[] = [];
  for (const audited of facts.pods) {
    const namespace = facts.namespaces.get(audited.namespace);
    if (audited.isEnding || namespace === undefined) continue;
    const judged = judge(audited, namespace, facts.config);
    if (judged === null) continue;
    counts[judged.state] += 1;
    if (judged.state === "current") continue;
    findings.push({
      namespace: audited.namespace,
      pod: audited.pod.name,
      uid: audited.uid,
      tunnel: audited.pod.labels[TUNNEL_LABEL] ?? "",
      state: judged.state,
      message: judged.message,
    });
  }
  return { counts, findings, recreate: facts.mayRecreate ? replaceable(facts, findings) : [] };
};

/** Sums up the findings of one tunnel. */
export const summarizeAudit = (
  plan: AuditPlan,
  tunnel: { readonly namespace: string; readonly name: string },
): AuditSummary => {
  const stale = plan.findings.filter(
    (f) => f.namespace === tunnel.namespace && f.tunnel === tunnel.name && f.state !== "excluded",
  );
  if (stale.length === 0) {
    return { status: "True", reason: "Injected", message: "every pod has the current gateway" };
  }
  const shown = stale.slice(0, NAMES_SHOWN).map(({ pod, state }) => `${pod} (${state})`);
  const more = stale.length > NAMES_SHOWN ? ` and ${stale.length - NAMES_SHOWN} more` : "";
  return {
    status: "False",
    reason: "StalePods",
    message: `restart the workloads of these pods to give them the current gateway: ${shown.join(", ")}${more}`,
  };
};

type Judgement =
  | { readonly state: "current" }
  | { readonly state: Exclude<AuditState, "current">; readonly message: string };

const judge = (
  { pod }: AuditedPod,
  namespace: PodNamespace,
  config: InjectionConfig,
): Judgement | null => {
  const plan = planInjection({ pod, namespace, config });
  switch (plan.kind) {
    case "refuse":
      return { state: "excluded", message: `${plan.code}: ${plan.sentence}` };
    case "skip":
      return judgeSkip(plan.code, plan.sentence);
    case "inject": {
      if (!isInjected(pod)) {
        return {
          state: "missing",
          message:
            "it asks for a tunnel and has no gateway: delete it, and its controller makes it anew with one",
        };
      }
      return plan.patch.length === 1 && plan.patch[0]?.op === "move"
        ? { state: "not-first", message: "a container starts before its gateway: delete the pod" }
        : {
            state: "outdated",
            message: "its gateway has another configuration: restart its workload to renew it",
          };
    }
  }
};

const judgeSkip = (code: SkipCode, sentence: string): Judgement | null => {
  switch (code) {
    case "not-labelled":
    case "own-namespace":
      return null;
    case "already-injected":
      return { state: "current" };
    case "host-network":
    case "own-gateway":
      return { state: "excluded", message: `${code}: ${sentence}` };
  }
};

/**
 * True when a controller has as many ready pods as it wants, and these are the pods that were seen. A StatefulSet makes a lost pod
 * anew only once it is gone: for a moment all that are left are ready, and a second one must not be taken then.
 */
export const isWhole = (owner: unknown, siblings: number): boolean => {
  const spec: Readonly<Record<string, unknown>> = { ...Object(Object(owner)["spec"]) };
  const status: Readonly<Record<string, unknown>> = { ...Object(Object(owner)["status"]) };
  const wanted = spec["replicas"] ?? status["desiredNumberScheduled"];
  const ready = status["readyReplicas"] ?? status["numberReady"];
  return wanted === siblings && ready === siblings;
};

/** One pod of each controller whose pods are all ready, the oldest first: a tunnel's API servers never go together. */
const replaceable = (
  { pods }: AuditFacts,
  findings: readonly AuditFinding[],
): readonly Recreation[] => {
  const stale = new Map(
    findings.filter(({ state }) => state !== "excluded").map((finding) => [finding.uid, finding]),
  );
  const byOwner = Map.groupBy(
    pods.filter(({ owner }) => owner !== null && REPLACING_KINDS.has(owner.kind)),
    ({ owner }) => owner?.uid,
  );
  return [...byOwner.values()].flatMap((siblings) => {
    if (!siblings.every(({ isReady, isEnding }) => isReady && !isEnding)) return [];
    const [oldest] = siblings
      .filter(({ uid }) => stale.has(uid))
      .toSorted((a, b) => a.createdMs - b.createdMs);
    const finding = oldest === undefined ? undefined : stale.get(oldest.uid);
    if (oldest === undefined || oldest.owner === null || finding === undefined) return [];
    return [{ finding, owner: oldest.owner, siblings: siblings.length }];
  });
};
