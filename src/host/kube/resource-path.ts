/** Turns a kind, a name and selectors into the path of a REST call (Kubernetes API concepts). */

import type { KubeListOptions, KubeName, KubeResource } from "#src/ports/kube.ts";

const part = encodeURIComponent;

/** Path of a collection; without a namespace: of all namespaces. */
export const collectionPath = (resource: KubeResource, namespace?: string): string => {
  const root =
    resource.group === ""
      ? `/api/${part(resource.version)}`
      : `/apis/${part(resource.group)}/${part(resource.version)}`;
  const scope = namespace === undefined ? "" : `/namespaces/${part(namespace)}`;
  return `${root}${scope}/${part(resource.plural)}`;
};

/** Path of one object, or of its subresource. */
export const objectPath = (
  resource: KubeResource,
  name: KubeName,
  subresource?: "status",
): string =>
  `${collectionPath(resource, name.namespace)}/${part(name.name)}${subresource === undefined ? "" : `/${subresource}`}`;

/** The query of a list or watch; undefined values are left out. */
export const listQuery = (
  options: KubeListOptions,
  more: Readonly<Record<string, string | undefined>>,
): string => {
  const query = new URLSearchParams();
  const values = { fieldSelector: options.fieldSelector, labelSelector: options.labelSelector };
  for (const [name, value] of Object.entries({ ...values, ...more })) {
    if (value !== undefined && value !== "") query.set(name, value);
  }
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
};
