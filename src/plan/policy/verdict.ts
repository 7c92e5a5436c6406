/** What network policies say about one flow, and which of them says so (NetworkPolicy v1, ClusterNetworkPolicy v1alpha2). */

import type {
  ClusterPolicyAction,
  ClusterPolicyTier,
  Flow,
  FlowEnd,
  PolicyDirection,
  PolicyPod,
} from "#src/model/policy.ts";

/** Allowed or denied in one direction, and by what. */
export type DirectionVerdict =
  /** This end is no pod, or a pod that shares its node's network: no policy is about it. */
  | { readonly isAllowed: true; readonly by: "outside" }
  /** A pod can't be kept from reaching itself. */
  | { readonly isAllowed: true; readonly by: "itself" }
  /** A pod and its own node always reach each other. */
  | { readonly isAllowed: true; readonly by: "own-node" }
  | {
      readonly isAllowed: boolean;
      readonly by: "cluster-policy";
      readonly policy: string;
      readonly tier: ClusterPolicyTier;
      readonly rule: number;
      readonly ruleName: string;
      readonly action: ClusterPolicyAction;
    }
  | {
      readonly isAllowed: true;
      readonly by: "policy";
      readonly namespace: string;
      readonly policy: string;
      readonly rule: number;
    }
  /** Policies select the pod, so that only what a rule of theirs allows passes, and none does. */
  | {
      readonly isAllowed: false;
      readonly by: "isolation";
      readonly namespace: string;
      readonly policies: readonly string[];
      /** Rules for this peer that name other ports. */
      readonly otherPorts: readonly { readonly policy: string; readonly rule: number }[];
    }
  /** No policy selects the pod in this direction. */
  | { readonly isAllowed: true; readonly by: "no-policy" };

export interface FlowVerdict {
  readonly isAllowed: boolean;
  readonly egress: DirectionVerdict;
  readonly ingress: DirectionVerdict;
  /** Sentences about what the verdict rests on, such as behaviour that network plugins do not share. */
  readonly notes: readonly string[];
}

/** A flow as seen from the pod whose policies are asked. */
export interface Sight {
  readonly direction: PolicyDirection;
  readonly subject: PolicyPod;
  readonly peer: FlowEnd;
  readonly flow: Flow;
  readonly note: (sentence: string) => void;
}
