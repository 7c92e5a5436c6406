/** Makes the two worlds of a comparison: what there is, and what there will be once the wanted objects are applied. */

import type { NetworkPolicy, PolicyWorld } from "#src/model/policy.ts";
import { MANAGED_BY, MANAGED_BY_LABEL } from "./policy-plan.ts";

export interface WorldPair {
  readonly have: PolicyWorld;
  readonly want: PolicyWorld;
}

/** The wanted policies are all there will be. */
export const replacedWorlds = ({ have, want }: WorldPair): WorldPair => {
  const ground = groundOf({ have, want });
  const { policies, clusterPolicies } = want;
  return { have: { ...ground.have }, want: { ...ground.want, policies, clusterPolicies } };
};

/** The wanted policies are applied on those that are there; `prune`: ours that are not wanted go, in namespaces of wanted ones. */
export const overlaidWorlds = (options: WorldPair & { readonly prune: boolean }): WorldPair => {
  const { have, want, prune } = options;
  const ground = groundOf({ have, want });
  const namespaces = new Set(want.policies.map(({ namespace }) => namespace));
  const stays = ({ namespace, labels }: NetworkPolicy): boolean =>
    !prune || labels[MANAGED_BY_LABEL] !== MANAGED_BY || !namespaces.has(namespace);
  return {
    have: ground.have,
    want: {
      ...ground.want,
      policies: overlaid(have.policies.filter(stays), want.policies),
      clusterPolicies: overlaid(have.clusterPolicies, want.clusterPolicies),
    },
  };
};

/** Both with the same pods, nodes and services: what is there is better known than what is written. */
const groundOf = ({ have, want }: WorldPair): WorldPair => {
  const shared = {
    pods: overlaid(want.pods, have.pods),
    nodes: overlaid(want.nodes, have.nodes),
    services: overlaid(want.services, have.services),
  };
  return {
    have: { ...have, ...shared },
    want: { ...want, ...shared, namespaces: overlaid(have.namespaces, want.namespaces) },
  };
};

/** Items of both, of two with one name the upper one. */
const overlaid = <T extends { readonly namespace?: string; readonly name: string }>(
  lower: readonly T[],
  upper: readonly T[],
): T[] => [
  ...new Map(
    [...lower, ...upper].map((item) => [`${item.namespace ?? ""}/${item.name}`, item]),
  ).values(),
];
