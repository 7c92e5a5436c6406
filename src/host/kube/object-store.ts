/** The local copy of a list: tells whether a change was one, and never takes an older object for a newer. */

import type { KubeObject } from "#src/ports/kube.ts";
import { objectKey } from "#src/ports/kube-resource.ts";

/** Takes from an object what nobody here reads, so that thousands of them fit. */
export type Prune = (object: KubeObject) => KubeObject;

/** Drops managedFields: often the bigger half of an object, and an update without them keeps them. */
export const pruneManagedFields: Prune = (object) => {
  if (object.metadata["managedFields"] === undefined) return object;
  const metadata = Object.fromEntries(
    Object.entries(object.metadata).filter(([name]) => name !== "managedFields"),
  );
  return { ...object, metadata: { ...metadata, name: object.metadata.name } };
};

const pick = (value: unknown, names: readonly string[]): Record<string, unknown> =>
  typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).filter(([name]) => names.includes(name)))
    : {};

/** Who an object is and how old it is: what every decoder asks of its metadata. */
const IDENTITY = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

/** Keeps who an object is and how old it is: what the store itself needs. */
export const pruneToIdentity: Prune = ({ metadata }) => {
  const { name, namespace, uid, resourceVersion } = metadata;
  return {
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    },
  };
};

/** Keeps of a `Node` what planning reads: its list of images alone may be 30 KiB, its conditions 2 KiB. */
export const pruneNode: Prune = (object) => {
  const { addresses, conditions } = pick(object["status"], ["addresses", "conditions"]);
  const ready = Array.isArray(conditions)
    ? conditions
        .map((condition: unknown) => pick(condition, ["type", "status"]))
        .filter(({ type }) => type === "Ready")
    : conditions;
  return {
    ...pick(object, ["apiVersion", "kind"]),
    metadata: { ...pick(object.metadata, IDENTITY), name: object.metadata.name },
    spec: pick(object["spec"], ["podCIDR", "podCIDRs"]),
    status: {
      ...(addresses === undefined ? {} : { addresses }),
      ...(ready === undefined ? {} : { conditions: ready }),
    },
  };
};

const DECIMAL = /^[1-9]\d*$/u;

/** True when both versions are numbers, as those of every Kubernetes API server are, and the first is not newer. */
export const isNotNewer = (incoming: string | undefined, held: string | undefined): boolean => {
  if (incoming === undefined || held === undefined) return false;
  if (incoming === held) return true;
  if (!DECIMAL.test(incoming) || !DECIMAL.test(held)) return false;
  return incoming.length === held.length ? incoming < held : incoming.length < held.length;
};

export class ObjectStore {
  readonly #items = new Map<string, KubeObject>();

  get items(): ReadonlyMap<string, KubeObject> {
    return this.#items;
  }

  /** Takes a complete list; true when something differs from before. */
  replace(objects: readonly KubeObject[]): boolean {
    let hasChanged = false;
    const seen = new Set<string>();
    for (const object of objects) {
      const key = objectKey(object.metadata);
      const held = this.#items.get(key)?.metadata;
      seen.add(key);
      if (
        held === undefined ||
        held.resourceVersion === undefined ||
        held.resourceVersion !== object.metadata.resourceVersion ||
        held.uid !== object.metadata.uid
      ) {
        this.#items.set(key, object);
        hasChanged = true;
      }
    }
    for (const key of this.#items.keys()) {
      if (!seen.has(key)) {
        this.#items.delete(key);
        hasChanged = true;
      }
    }
    return hasChanged;
  }

  /** False: this version or a newer one is held already, so the event was a repetition. */
  upsert(object: KubeObject): boolean {
    const key = objectKey(object.metadata);
    const held = this.#items.get(key);
    if (isNotNewer(object.metadata.resourceVersion, held?.metadata.resourceVersion)) return false;
    this.#items.set(key, object);
    return true;
  }

  /** False: absent already, or the object here was made after that deletion. */
  remove(object: KubeObject): boolean {
    const key = objectKey(object.metadata);
    const held = this.#items.get(key);
    if (held === undefined) return false;
    const isOlder =
      held.metadata.resourceVersion !== object.metadata.resourceVersion &&
      isNotNewer(object.metadata.resourceVersion, held.metadata.resourceVersion);
    return isOlder ? false : this.#items.delete(key);
  }
}
