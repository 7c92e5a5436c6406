/** Deep equality of plain data. */

/** True when both hold the same; the order of an object's keys does not matter, that of lists does. */
export const isDataEqual = (a: unknown, b: unknown): boolean => {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  const [left, right] = [Object.entries(a), new Map(Object.entries(b))];
  return (
    Array.isArray(a) === Array.isArray(b) &&
    left.length === right.size &&
    left.every(([key, value]) => right.has(key) && isDataEqual(value, right.get(key)))
  );
};
