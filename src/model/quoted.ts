/** Shows a foreign value inside a sentence: bounded, on one line, in printable ASCII. */

const SHOWN_CHARS_MAX = 64;

/** Returns `value` as JSON-like text of at most about 70 characters; never throws. */
export const quoted = (value: unknown): string => {
  if (typeof value === "string") {
    const isLong = value.length > SHOWN_CHARS_MAX;
    const shown = JSON.stringify(isLong ? value.slice(0, SHOWN_CHARS_MAX) : value).replace(
      /[^\x20-\x7e]/g,
      (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
    return isLong ? `${shown.slice(0, -1)}..."` : shown;
  }
  if (value === null || value === undefined) return "missing";
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") {
    return String(value);
  }
  return Array.isArray(value) ? "a list" : `an ${typeof value}`.replace("an f", "a f");
};
