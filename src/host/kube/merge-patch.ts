/** JSON merge patch (RFC 7386). */

type Fields = Readonly<Record<string, unknown>>;

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The target with the patch applied; null removes, lists replace. The arguments stay as they are. */
export const mergePatch = (target: Fields, patch: object): Fields => {
  const result: Record<string, unknown> = { ...target };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else if (isFields(value)) {
      const inner = result[name];
      result[name] = mergePatch(isFields(inner) ? inner : {}, value);
    } else if (value !== undefined) result[name] = structuredClone(value);
  }
  return result;
};
