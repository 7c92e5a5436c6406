/** A short hash of plain data that tells configurations apart; no protection against somebody who wants a collision. */

const OFFSET = 0xcbf29ce484222325n;
const PRIME = 0x100000001b3n;
const MASK = 0xffffffffffffffffn;

/** FNV-1a of 64 bits over the JSON text, as 16 hex digits; the order of an object's fields does not count. */
export const contentHash = (value: unknown): string => {
  let hash = OFFSET;
  for (const byte of new TextEncoder().encode(sortedJson(value))) {
    hash = ((hash ^ BigInt(byte)) * PRIME) & MASK;
  }
  return hash.toString(16).padStart(16, "0");
};

const sortedJson = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  ) ?? "";
