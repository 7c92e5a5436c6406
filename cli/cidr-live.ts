/** Reads what `xylem cidr` needs from a running cluster: never more than lists. */

import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject, KubeResource } from "#src/ports/kube.ts";
import {
  ADDRESS_MAPS,
  CONFIG_MAPS,
  NETWORK_BLOCKS,
  NETWORK_CLAIMS,
  NETWORK_DOMAINS,
  NETWORK_POOLS,
  NODES,
  objectKey,
  SEED_NETWORKS,
  TUNNELS,
} from "#src/ports/kube-resource.ts";
import type { PlacedObject } from "./policy-manifests.ts";

const SERVICE_CIDRS: KubeResource = {
  group: "networking.k8s.io",
  version: "v1",
  plural: "servicecidrs",
  kind: "ServiceCIDR",
  isNamespaced: false,
};
const GARDENER = { group: "core.gardener.cloud", version: "v1beta1" } as const;
const SEEDS: KubeResource = { ...GARDENER, plural: "seeds", kind: "Seed", isNamespaced: false };
const SHOOTS: KubeResource = { ...GARDENER, plural: "shoots", kind: "Shoot", isNamespaced: true };

const ALLOCATION_KINDS = [
  SEED_NETWORKS,
  NETWORK_POOLS,
  NETWORK_CLAIMS,
  NETWORK_BLOCKS,
  NETWORK_DOMAINS,
];
const IMPORT_KINDS = [NODES, SERVICE_CIDRS, SEEDS, SHOOTS];
/** Where kubeadm keeps its ClusterConfiguration. */
const KUBEADM_CONFIG = { namespace: "kube-system", name: "kubeadm-config" } as const;

/** Reads our kinds and closes the client. The problem is one sentence. */
export const readCluster = (kube: Kube): Promise<Parsed<readonly PlacedObject[]>> =>
  asking(kube, async () => {
    const lists = await Promise.all(ALLOCATION_KINDS.map((kind) => listKind(kube, kind)));
    if (lists.every((list) => list === null)) {
      return problem(
        "the cluster has none of Xylem's kinds: install the seed's CRDs, or look at files with -f",
      );
    }
    return parsed(lists.flatMap((list) => list ?? []));
  });

/** Reads our kinds and all that `import` understands, and closes the client. */
export const readClusterToImport = (kube: Kube): Promise<Parsed<readonly PlacedObject[]>> =>
  asking(kube, async () => {
    const kinds = [...ALLOCATION_KINDS, ...IMPORT_KINDS];
    const lists = await Promise.all(kinds.map((kind) => listKind(kube, kind)));
    const kubeadm = await getOptional(kube, CONFIG_MAPS, KUBEADM_CONFIG);
    return parsed([...lists.flatMap((list) => list ?? []), ...kubeadm]);
  });

/** Reads AddressMaps, or where these can't be read the Tunnels, and closes the client. */
export const readMaps = (kube: Kube): Promise<Parsed<readonly PlacedObject[]>> =>
  asking(kube, async () => {
    try {
      const maps = await listKind(kube, ADDRESS_MAPS);
      if (maps !== null) return parsed(maps);
    } catch (error) {
      if (!isHostError(error) || error.code !== "forbidden") throw error;
    }
    const tunnels = await listKind(kube, TUNNELS);
    return tunnels === null
      ? problem("the cluster has neither AddressMaps nor Tunnels: is it a seed?")
      : parsed(tunnels);
  });

const asking = async <T>(kube: Kube, ask: () => Promise<Parsed<T>>): Promise<Parsed<T>> => {
  try {
    return await ask();
  } catch (error) {
    if (isHostError(error)) return problem(error.message);
    throw error;
  } finally {
    kube.close();
  }
};

/** Items of a list say neither version nor kind. Null: the cluster does not have this kind. */
const listKind = async (
  kube: Kube,
  resource: KubeResource,
): Promise<readonly PlacedObject[] | null> => {
  try {
    return (await kube.list(resource)).map((item) => placed(resource, item));
  } catch (error) {
    if (isHostError(error) && error.code === "not-found") return null;
    throw error;
  }
};

const getOptional = async (
  kube: Kube,
  resource: KubeResource,
  name: { readonly namespace: string; readonly name: string },
): Promise<readonly PlacedObject[]> => {
  try {
    return [placed(resource, await kube.get(resource, name))];
  } catch (error) {
    if (isHostError(error) && error.code === "not-found") return [];
    throw error;
  }
};

const placed = (resource: KubeResource, item: KubeObject): PlacedObject => {
  const { group, version, kind } = resource;
  const apiVersion = group === "" ? version : `${group}/${version}`;
  return {
    object: { ...item, apiVersion, kind },
    place: `the cluster's ${kind} ${objectKey(item.metadata)}`,
  };
};
