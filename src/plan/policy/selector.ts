/** Which labels a selector selects (meta/v1 LabelSelector). */

import {
  NAMESPACE_NAME_LABEL,
  type Labels,
  type LabelRequirement,
  type LabelSelector,
  type PolicyNamespace,
} from "#src/model/policy.ts";

/** True when every label and every expression holds; an empty selector selects everything. */
export const isSelected = (selector: LabelSelector, labels: Labels): boolean =>
  Object.entries(selector.matchLabels).every(([key, value]) => labelOf(labels, key) === value) &&
  selector.matchExpressions.every((requirement) => isMet(requirement, labels));

/** NotIn and DoesNotExist hold where the key is absent. */
const isMet = (requirement: LabelRequirement, labels: Labels): boolean => {
  const value = labelOf(labels, requirement.key);
  switch (requirement.operator) {
    case "In":
      return value !== undefined && requirement.values.includes(value);
    case "NotIn":
      return value === undefined || !requirement.values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
  }
};

/** An own label; a key such as `constructor` has no inherited value. */
const labelOf = (labels: Labels, key: string): string | undefined =>
  Object.hasOwn(labels, key) ? labels[key] : undefined;

/** Labels of namespaces by name, with the one that the API server adds; an unknown namespace has only that one. */
export const namespaceLabels = (
  namespaces: readonly PolicyNamespace[],
): ((name: string) => Labels) => {
  const known = new Map(
    namespaces.map(({ name, labels }) => [name, { ...labels, [NAMESPACE_NAME_LABEL]: name }]),
  );
  return (name) => known.get(name) ?? { [NAMESPACE_NAME_LABEL]: name };
};
