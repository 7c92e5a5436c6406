/** Equality selectors on labels and fields, as far as Xylem uses them (Kubernetes API concepts). */

import type { KubeListOptions, KubeObject } from "#src/ports/kube.ts";

const requirements = (selector: string | undefined): readonly (readonly [string, string])[] =>
  (selector ?? "")
    .split(",")
    .filter((term) => term !== "")
    .map((term) => {
      const [name = "", value = ""] = term.split(/==?/u);
      return [name.trim(), value.trim()] as const;
    });

const fieldAt = (object: KubeObject, path: string): unknown =>
  path.split(".").reduce<unknown>((value, name) => {
    if (typeof value !== "object" || value === null) return undefined;
    return Object.getOwnPropertyDescriptor(value, name)?.value;
  }, object);

/** True when the object is in the namespace and has every label and field that is asked for. */
export const matchesSelectors = (object: KubeObject, options: KubeListOptions): boolean =>
  (options.namespace === undefined || object.metadata.namespace === options.namespace) &&
  requirements(options.labelSelector).every(
    ([name, value]) => object.metadata.labels?.[name] === value,
  ) &&
  requirements(options.fieldSelector).every(([path, value]) => fieldAt(object, path) === value);
