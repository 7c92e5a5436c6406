/** Reads what `xylem policy` needs from a running cluster: never more than lists. */

import { realClock } from "#src/host/clock.ts";
import { kubeconfigFile } from "#src/host/kube/kubeconfig.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import { realRandom } from "#src/host/random.ts";
import { version } from "#src/host/version.ts";
import { readWorld } from "#src/codec/policy-world-codec.ts";
import { problem, type Parsed } from "#src/model/parsed.ts";
import type { PolicyWorld } from "#src/model/policy.ts";
import { isHostError } from "#src/ports/host-error.ts";
import { NODES, SERVICES } from "#src/ports/kube-resource.ts";
import type { Kube, KubeObject, KubeResource } from "#src/ports/kube.ts";

const CORE = { group: "", version: "v1" } as const;
const PODS: KubeResource = { ...CORE, plural: "pods", kind: "Pod", isNamespaced: true };
const NAMESPACES: KubeResource = {
  ...CORE,
  plural: "namespaces",
  kind: "Namespace",
  isNamespaced: false,
};
export const NETWORK_POLICIES: KubeResource = {
  group: "networking.k8s.io",
  version: "v1",
  plural: "networkpolicies",
  kind: "NetworkPolicy",
  isNamespaced: true,
};
const CLUSTER_NETWORK_POLICIES: KubeResource = {
  group: "policy.networking.k8s.io",
  version: "v1alpha2",
  plural: "clusternetworkpolicies",
  kind: "ClusterNetworkPolicy",
  isNamespaced: false,
};

const KINDS = [PODS, NAMESPACES, NODES, SERVICES, NETWORK_POLICIES, CLUSTER_NETWORK_POLICIES];

/** Reads the cluster of a kubeconfig. The problem is one sentence. */
export const readCluster = async (kubeconfig: string): Promise<Parsed<PolicyWorld>> => {
  const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const kube = connectKube({
    credentials: kubeconfigFile(kubeconfig),
    clock: realClock,
    random: realRandom,
    log: silent,
    userAgent: `xylem/${version}`,
  });
  try {
    return await readKube(kube);
  } catch (error) {
    if (isHostError(error)) return problem(error.message);
    throw error;
  } finally {
    kube.close();
  }
};

/** Reads a cluster through its client. */
export const readKube = async (kube: Kube): Promise<Parsed<PolicyWorld>> => {
  const lists = await Promise.all(KINDS.map((kind) => listKind(kube, kind)));
  return readWorld(lists.flat(), { withTemplates: false });
};

/** Items of a list say neither version nor kind. A cluster without the kind of cluster policies has none. */
const listKind = async (kube: Kube, resource: KubeResource): Promise<readonly KubeObject[]> => {
  const { group, kind } = resource;
  const apiVersion = group === "" ? resource.version : `${group}/${resource.version}`;
  try {
    const items = await kube.list(resource);
    return items.filter(isAlive).map((item) => ({ ...item, apiVersion, kind }));
  } catch (error) {
    const isOptional = resource === CLUSTER_NETWORK_POLICIES;
    if (isOptional && isHostError(error) && error.code === "not-found") return [];
    throw error;
  }
};

/** A pod that has ended sends nothing, and its address may be another one's by now. */
const isAlive = ({ status }: KubeObject): boolean => {
  const phase =
    typeof status === "object" && status !== null && "phase" in status ? status.phase : null;
  return phase !== "Succeeded" && phase !== "Failed";
};
