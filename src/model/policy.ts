/** Network policies and whom they are about, as plain data (networking.k8s.io/v1, policy.networking.k8s.io/v1alpha2). */

import type { Cidr } from "./cidr.ts";
import type { IpAddress } from "./ip.ts";

export type Labels = Readonly<Record<string, string>>;

export type PolicyProtocol = "TCP" | "UDP" | "SCTP";
export const POLICY_PROTOCOLS: readonly PolicyProtocol[] = ["TCP", "UDP", "SCTP"];

export type PolicyDirection = "ingress" | "egress";

/** The label that every API server puts on every namespace. */
export const NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name";

export interface LabelRequirement {
  readonly key: string;
  readonly operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
  /** Not empty for In and NotIn, else empty. */
  readonly values: readonly string[];
}

/** All must hold; an empty selector selects everything. */
export interface LabelSelector {
  readonly matchLabels: Labels;
  readonly matchExpressions: readonly LabelRequirement[];
}

/** Pods by selectors; `namespaces` null: the policy's own namespace. */
export interface PodsPeer {
  readonly kind: "pods";
  readonly namespaces: LabelSelector | null;
  readonly pods: LabelSelector;
}

export interface BlockPeer {
  readonly kind: "block";
  readonly cidr: Cidr;
  readonly except: readonly Cidr[];
}

export type PolicyPeer = PodsPeer | BlockPeer;

export interface PolicyPort {
  readonly protocol: PolicyProtocol;
  /** A number, the name of a port of the destination's containers, or null: every port. */
  readonly port: number | string | null;
  /** The last port of a range that begins with `port`; null: no range. */
  readonly endPort: number | null;
}

export interface PolicyRule {
  /** Empty: everybody. */
  readonly peers: readonly PolicyPeer[];
  /** Empty: every port of every protocol. */
  readonly ports: readonly PolicyPort[];
}

/** Who garbage collection removes an object with. */
export interface PolicyOwner {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

/** A NetworkPolicy after the API server's defaulting. */
export interface NetworkPolicy {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
  readonly annotations: Labels;
  readonly owner: PolicyOwner | null;
  readonly pods: LabelSelector;
  /** Null: the policy does not isolate this direction. Empty: it isolates it and allows nothing. */
  readonly ingress: readonly PolicyRule[] | null;
  readonly egress: readonly PolicyRule[] | null;
}

/** A NetworkPolicy as the API server has it. */
export interface ObservedPolicy {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
  readonly annotations: Labels;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Null: it can't be read, so it is not what we wrote. */
  readonly policy: NetworkPolicy | null;
}

export type ClusterPolicyTier = "Admin" | "Baseline";
export type ClusterPolicyAction = "Accept" | "Deny" | "Pass";

export type ClusterPolicyPeer =
  | { readonly kind: "pods"; readonly namespaces: LabelSelector; readonly pods: LabelSelector }
  | { readonly kind: "nodes"; readonly nodes: LabelSelector }
  | { readonly kind: "networks"; readonly cidrs: readonly Cidr[] }
  /** A peer outside of the subset that is understood; it fails closed, as the API asks for. */
  | { readonly kind: "unknown"; readonly field: string };

/** Numbers, ends included, of one protocol, or the name of a port of the destination's containers. */
export type ClusterPolicyPort =
  | {
      readonly kind: "range";
      readonly protocol: PolicyProtocol;
      readonly from: number;
      readonly to: number;
    }
  | { readonly kind: "named"; readonly name: string };

export interface ClusterPolicyRule {
  /** Empty: it has none. */
  readonly name: string;
  readonly action: ClusterPolicyAction;
  readonly peers: readonly ClusterPolicyPeer[];
  /** Empty: every port of every protocol. */
  readonly ports: readonly ClusterPolicyPort[];
}

export interface ClusterNetworkPolicy {
  readonly name: string;
  readonly tier: ClusterPolicyTier;
  /** 0 to 1000; the lower one is asked first. */
  readonly priority: number;
  readonly subject: { readonly namespaces: LabelSelector; readonly pods: LabelSelector };
  readonly ingress: readonly ClusterPolicyRule[];
  readonly egress: readonly ClusterPolicyRule[];
}

export interface PolicyPodPort {
  readonly name: string;
  readonly port: number;
  readonly protocol: PolicyProtocol;
}

/** A pod, or the pods that a workload would make, which have no addresses yet. */
export interface PolicyPod {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
  /** Empty: not known. */
  readonly addresses: readonly IpAddress[];
  /** Addresses of the node it runs on; empty: not known. */
  readonly nodeAddresses: readonly IpAddress[];
  /** It is its node to the network: no policy selects it. */
  readonly isHostNetwork: boolean;
  /** It stands for any number of pods of a workload, so "itself" may be another one. */
  readonly isTemplate: boolean;
  readonly ports: readonly PolicyPodPort[];
}

export interface PolicyNamespace {
  readonly name: string;
  readonly labels: Labels;
}

export interface PolicyNode {
  readonly name: string;
  readonly labels: Labels;
  readonly addresses: readonly IpAddress[];
}

/** A Service, for whoever asks about its cluster address. */
export interface PolicyService {
  readonly namespace: string;
  readonly name: string;
  readonly addresses: readonly IpAddress[];
  /** Null: its endpoints are not chosen by labels. */
  readonly selector: Labels | null;
  readonly ports: readonly {
    readonly port: number;
    readonly protocol: PolicyProtocol;
    readonly target: number | string;
  }[];
}

/** All that verdicts depend on. */
export interface PolicyWorld {
  readonly namespaces: readonly PolicyNamespace[];
  readonly nodes: readonly PolicyNode[];
  readonly pods: readonly PolicyPod[];
  readonly services: readonly PolicyService[];
  readonly policies: readonly NetworkPolicy[];
  readonly clusterPolicies: readonly ClusterNetworkPolicy[];
}

export const EMPTY_WORLD: PolicyWorld = {
  namespaces: [],
  nodes: [],
  pods: [],
  services: [],
  policies: [],
  clusterPolicies: [],
};

/** One end of a flow: a pod, or an address that is no pod's. */
export type FlowEnd =
  | {
      readonly kind: "pod";
      readonly pod: PolicyPod;
      /** The address in use; null: not known, so no block of addresses matches it. */
      readonly address: IpAddress | null;
    }
  | { readonly kind: "address"; readonly address: IpAddress };

export interface Flow {
  readonly from: FlowEnd;
  readonly to: FlowEnd;
  readonly protocol: PolicyProtocol;
  readonly port: number;
}

export const ANY_LABELS: LabelSelector = { matchLabels: {}, matchExpressions: [] };

/** A selector of exactly these labels. */
export const labelsSelector = (matchLabels: Labels): LabelSelector => ({
  matchLabels,
  matchExpressions: [],
});
