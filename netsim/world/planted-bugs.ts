/** Bugs that an allocator could have: each makes the API that it sees a little wrong, and exploring must find it. */

import { HostError } from "#src/ports/host-error.ts";
import { NETWORK_CLAIMS, NETWORK_DOMAINS, objectKey } from "#src/ports/kube-resource.ts";
import type { Kube } from "#src/ports/kube.ts";
import type { AllocationWorldOptions } from "./allocation-world.ts";

export interface PlantedBug {
  /** What such an allocator does. */
  readonly name: string;
  /** What is broken then. */
  readonly want: RegExp;
  readonly spoil: NonNullable<AllocationWorldOptions["spoil"]>;
}

export const plantedBugs: readonly PlantedBug[] = [
  {
    name: "skips the check of the domain's revision",
    want: /overlaps|twice/u,
    spoil: (kube) =>
      spoiled(kube, {
        replace: (resource, object) => {
          if (resource !== NETWORK_DOMAINS) return kube.replace(resource, object);
          const { resourceVersion: _, ...metadata } = object.metadata;
          return kube.replace(resource, {
            ...object,
            metadata: { ...metadata, name: object.metadata.name },
          });
        },
      }),
  },
  {
    name: "believes its watch that an owner is gone (A13)",
    want: /was freed, but its owner/u,
    spoil: (kube, seen) =>
      spoiled(kube, {
        get: async (resource, name) => {
          if (resource !== NETWORK_CLAIMS) return await kube.get(resource, name);
          const object = seen().claims?.get(objectKey(name));
          if (object === undefined) throw new HostError("not-found", "not in the cache");
          return object;
        },
      }),
  },
  {
    name: "reads the domain from its watch and swaps it unconditionally",
    want: /overlaps|twice|was freed|has not|has nothing|come to rest/u,
    spoil: (kube, seen) =>
      spoiled(kube, {
        get: async (resource, name) =>
          (resource === NETWORK_DOMAINS ? seen().domains?.get(objectKey(name)) : undefined) ??
          (await kube.get(resource, name)),
        replace: (resource, object) => {
          const { resourceVersion: _, ...metadata } = object.metadata;
          return kube.replace(resource, {
            ...object,
            metadata: { ...metadata, name: object.metadata.name },
          });
        },
      }),
  },
];

const spoiled = (kube: Kube, change: Partial<Kube>): Kube => ({
  get: (resource, name) => kube.get(resource, name),
  list: (resource, options) => kube.list(resource, options),
  create: (resource, object) => kube.create(resource, object),
  replace: (resource, object) => kube.replace(resource, object),
  replaceStatus: (resource, object) => kube.replaceStatus(resource, object),
  patch: (resource, name, patch) => kube.patch(resource, name, patch),
  patchStatus: (resource, name, patch) => kube.patchStatus(resource, name, patch),
  delete: (resource, name, options) => kube.delete(resource, name, options),
  reflect: (resource, options) => kube.reflect(resource, options),
  close: () => {
    kube.close();
  },
  ...change,
});
