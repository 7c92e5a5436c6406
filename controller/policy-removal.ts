/** Takes NetworkPolicies of tunnels away: with their Tunnel, or all of them when none are to be kept any more. */

import { parseObservedPolicy } from "#src/codec/network-policy-codec.ts";
import { isOurs } from "#src/plan/policy/policy-drift.ts";
import { CONTROLLER_SUBJECT } from "#src/plan/policy/policy-facts.ts";
import { MANAGED_BY, MANAGED_BY_LABEL, SUBJECT_ANNOTATION } from "#src/plan/policy/policy-plan.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube } from "#src/ports/kube.ts";
import { NETWORK_POLICIES } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import type { RunResult } from "#src/reconcile/loop.ts";

/** Selects policies that may be ours. */
export const OUR_POLICIES = `${MANAGED_BY_LABEL}=${MANAGED_BY}`;

/** Which policies; undefined: those of all. */
export interface PolicyScope {
  readonly namespace: string | undefined;
  readonly tunnel: string | undefined;
}

/**
 * Removes the policies of tunnels within a scope, and nobody else's; answers how many there were. Asks the API server, not
 * a copy that may lag. Throws HostError.
 */
export const removePolicies = async (kube: Kube, scope: PolicyScope): Promise<number> => {
  const objects = await kube.list(NETWORK_POLICIES, {
    ...(scope.namespace === undefined ? {} : { namespace: scope.namespace }),
    labelSelector: OUR_POLICIES,
  });
  let count = 0;
  for (const object of objects) {
    const read = parseObservedPolicy(object);
    if (!read.ok || !isOurs(read.value)) continue;
    const { namespace, name, uid, annotations } = read.value;
    const subject = annotations[SUBJECT_ANNOTATION];
    if (subject === undefined || subject === CONTROLLER_SUBJECT) continue;
    if (scope.tunnel !== undefined && subject !== scope.tunnel) continue;
    await kube.delete(NETWORK_POLICIES, { namespace, name }, { uid });
    count += 1;
  }
  return count;
};

/**
 * One run of a controller that keeps no policies: those of an earlier one would go stale, and they isolate pods. Without
 * the right to look there is nothing to be done: it is told, and no error.
 */
export const removeLeftPolicies = async (
  { kube, log }: { readonly kube: Kube; readonly log: Log },
  scope: PolicyScope,
): Promise<RunResult> => {
  try {
    const count = await removePolicies(kube, scope);
    if (count > 0) log.info({ count }, "NetworkPolicies of tunnels are removed: none are kept");
    return { kind: "reached" };
  } catch (error) {
    if (!isHostError(error) || error.code !== "forbidden") throw error;
    return {
      kind: "rejected",
      problem: `Whether NetworkPolicies of tunnels are left is not known: ${error.message}; give the rights of charts/seed/manifests/controller.yaml, or remove those with the label ${OUR_POLICIES} by hand`,
    };
  }
};
