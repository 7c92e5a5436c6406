/** A Kube that tells of every call that wrote or failed, for metrics; it changes nothing. */

import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeResource } from "#src/ports/kube.ts";

export interface KubeCounts {
  /** A write that the API server took, also one that changed nothing. */
  onWrite(call: { readonly verb: string; readonly kind: string }): void;
  /** A call that failed; `code` is the HostError's. Absent objects and lost races are answers, no failures. */
  onError(call: { readonly verb: string; readonly kind: string; readonly code: string }): void;
}

/** What a caller asks about and deals with. */
const ANSWERS: ReadonlySet<string> = new Set(["not-found", "already-exists", "conflict"]);

export const countKube = (kube: Kube, counts: KubeCounts): Kube => {
  const told = async <T>(
    { verb, kind, isWrite }: { verb: string; kind: string; isWrite: boolean },
    call: Promise<T>,
  ): Promise<T> => {
    try {
      const answer = await call;
      if (isWrite) counts.onWrite({ verb, kind });
      return answer;
    } catch (error) {
      if (isHostError(error) && !ANSWERS.has(error.code)) {
        counts.onError({ verb, kind, code: error.code });
      }
      throw error;
    }
  };
  const read = <T>(verb: string, { kind }: KubeResource, call: Promise<T>): Promise<T> =>
    told({ verb, kind, isWrite: false }, call);
  const write = <T>(verb: string, { kind }: KubeResource, call: Promise<T>): Promise<T> =>
    told({ verb, kind, isWrite: true }, call);
  return {
    get: (resource, name) => read("get", resource, kube.get(resource, name)),
    list: (resource, options) => read("list", resource, kube.list(resource, options)),
    create: (resource, object) => write("create", resource, kube.create(resource, object)),
    replace: (resource, object) => write("update", resource, kube.replace(resource, object)),
    replaceStatus: (resource, object) =>
      write("update", resource, kube.replaceStatus(resource, object)),
    patch: (resource, name, patch) => write("patch", resource, kube.patch(resource, name, patch)),
    patchStatus: (resource, name, patch) =>
      write("patch", resource, kube.patchStatus(resource, name, patch)),
    delete: (resource, name, options) =>
      write("delete", resource, kube.delete(resource, name, options)),
    reflect: (resource, options) => kube.reflect(resource, options),
    close: () => kube.close(),
  };
};
