/** Selectors on labels and fields (equality, and presence of a label), as far as Xylem uses them (Kubernetes API concepts). */

import type { KubeListOptions, KubeObject } from "#src/ports/kube.ts";

/** A value of null asks for presence only. */
const requirements = (
  selector: string | undefined,
): readonly (readonly [string, string | null])[] =>
  (selector ?? "")
    .split(",")
    .filter((term) => term !== "")
    .map((term) => {
      const [name = "", value] = term.split(/==?/u);
      return [name.trim(), value === undefined ? null : value.trim()] as const;
    });

const fieldAt = (object: KubeObject, path: string): unknown =>
  path.split(".").reduce<unknown>((value, name) => {
    if (typeof value !== "object" || value === null) return undefined;
    return Object.getOwnPropertyDescriptor(value, name)?.value;
  }, object);

/** True when the object is in the namespace and has every label and field that is asked for. */
export const matchesSelectors = (object: KubeObject, options: KubeListOptions): boolean =>
  (options.namespace === undefined || object.metadata.namespace === options.namespace) &&
  requirements(options.labelSelector).every(([name, value]) =>
    value === null
      ? object.metadata.labels?.[name] !== undefined
      : object.metadata.labels?.[name] === value,
  ) &&
  requirements(options.fieldSelector).every(([path, value]) => fieldAt(object, path) === value);
