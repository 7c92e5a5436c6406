/** Checks values against the part of JSON Schema (draft 7) that our charts use; a keyword beyond it is refused, not passed over. */

/** Sentences that name the field, in the schema's order; empty: the values are valid. */
export const schemaProblems = (schema: unknown, value: unknown, at = ""): readonly string[] => {
  const rules = fieldsOf(schema);
  for (const keyword of Object.keys(rules)) {
    if (!KEYWORDS.has(keyword))
      throw new Error(`the schema's keyword ${keyword} is not known here`);
  }
  const place = at === "" ? "values" : at;
  const types = [rules["type"] ?? []].flat().map(String);
  if (types.length > 0 && !types.includes(typeOf(value))) {
    return [`${place}: must be ${types.join(" or ")}, found ${typeOf(value)}`];
  }
  const choices = rules["enum"];
  if (Array.isArray(choices) && !choices.includes(value)) {
    return [`${place}: must be one of ${choices.map(String).join(", ")}`];
  }
  if (typeof value === "string") return textProblems(rules, value, place);
  if (typeof value === "number") return numberProblems(rules, value, place);
  if (Array.isArray(value)) {
    const few = typeof rules["minItems"] === "number" && value.length < rules["minItems"];
    const inside = value.flatMap((item: unknown, index) =>
      schemaProblems(rules["items"] ?? {}, item, `${at}[${index}]`),
    );
    return few
      ? [`${place}: must have at least ${String(rules["minItems"])} items`, ...inside]
      : inside;
  }
  return typeof value === "object" && value !== null ? objectProblems(rules, value, at) : [];
};

type Fields = Readonly<Record<string, unknown>>;

const KEYWORDS: ReadonlySet<string> = new Set([
  ...["$schema", "title", "type", "enum", "properties", "required", "additionalProperties"],
  ...["pattern", "minLength", "maxLength", "minimum", "maximum", "items", "minItems"],
]);

const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : {};

const typeOf = (value: unknown): string => {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
};

const textProblems = (rules: Fields, value: string, place: string): readonly string[] => {
  const { pattern, minLength, maxLength } = rules;
  if (typeof pattern === "string" && !new RegExp(pattern, "u").test(value)) {
    return [`${place}: ${JSON.stringify(value)} does not match ${pattern}`];
  }
  if (typeof minLength === "number" && value.length < minLength) {
    return [`${place}: must not be empty`];
  }
  return typeof maxLength === "number" && value.length > maxLength
    ? [`${place}: must have at most ${maxLength} characters`]
    : [];
};

const numberProblems = (rules: Fields, value: number, place: string): readonly string[] => {
  const { minimum, maximum } = rules;
  if (typeof minimum === "number" && value < minimum)
    return [`${place}: must be at least ${minimum}`];
  return typeof maximum === "number" && value > maximum
    ? [`${place}: must be at most ${maximum}`]
    : [];
};

const objectProblems = (rules: Fields, value: object, at: string): readonly string[] => {
  const known = fieldsOf(rules["properties"]);
  const others = rules["additionalProperties"];
  const required = Array.isArray(rules["required"]) ? rules["required"].map(String) : [];
  const path = (name: string): string => (at === "" ? name : `${at}.${name}`);
  return [
    ...required
      .filter((name) => !Object.hasOwn(value, name))
      .map((name) => `${path(name)}: is missing`),
    ...Object.entries(value).flatMap(([name, inner]: readonly [string, unknown]) => {
      if (Object.hasOwn(known, name)) return schemaProblems(known[name], inner, path(name));
      if (others === false) {
        return [
          `${path(name)}: there is no such value; there are ${Object.keys(known).join(", ")}`,
        ];
      }
      return schemaProblems(others ?? {}, inner, path(name));
    }),
  ];
};
