/** Reads foreign objects field by field; the first wrong field ends it with a sentence that names object, field, value and fix. */

import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";

/** A value and where in its object it was found, e.g. `spec.ranges.pods[0]`. */
export interface Field {
  readonly path: string;
  readonly value: unknown;
}

/** Ends a `reading`; never leaves this room. */
export class FieldProblem extends Error {
  readonly suggestion: string | undefined;

  constructor(message: string, suggestion?: string) {
    super(message);
    this.suggestion = suggestion;
  }
}

const NAME_CHARS_MAX = 253;
/** Names of Kubernetes objects (RFC 1123 subdomain). */
const NAME = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;
/** What a UID may look like; its format is the API server's affair, its size is ours. */
const UID = /^[!-~]{1,128}$/;

/** Runs `read` on an object of `kind`; its first problem is said with the object's kind and name. */
export const reading = <T>(
  source: { readonly kind: string; readonly object: unknown },
  read: (root: Field) => T,
): Parsed<T> => {
  try {
    return parsed(read({ path: "", value: source.object }));
  } catch (error) {
    if (!(error instanceof FieldProblem)) throw error;
    return problem(`${objectName(source)}: ${error.message}`, error.suggestion);
  }
};

/** `Tunnel shoot--lab--alpha/alpha`, as far as the object has a name that can be shown. */
const objectName = (source: { readonly kind: string; readonly object: unknown }): string => {
  const metadata = own(source.object, "metadata");
  const [namespace, name] = [own(metadata, "namespace"), own(metadata, "name")];
  const shown = [namespace, name].filter(isName).join("/");
  return shown === "" ? `${source.kind} without a valid name` : `${source.kind} ${shown}`;
};

const isName = (value: unknown): value is string =>
  typeof value === "string" && value.length <= NAME_CHARS_MAX && NAME.test(value);

/** An own property that holds data; never an inherited one, never a getter's answer. */
const own = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;

/** The field `name` of an object; its value is undefined where it is missing. */
export const fieldOf = (parent: Field, name: string): Field => {
  const { value } = parent;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new FieldProblem(`${parent.path || "it"} must be an object, found ${quoted(value)}`);
  }
  const path = parent.path === "" ? name : `${parent.path}.${name}`;
  return { path, value: own(value, name) };
};

/** A field several levels down; every level must be an object. */
export const fieldAt = (root: Field, ...names: readonly string[]): Field =>
  names.reduce(fieldOf, root);

/** Like `fieldAt`, but an absent level gives an absent field. */
export const fieldAtIfPresent = (root: Field, ...names: readonly string[]): Field =>
  names.reduce(
    (field, name) =>
      isAbsent(field) ? { path: `${field.path}.${name}`, value: undefined } : fieldOf(field, name),
    root,
  );

export const isAbsent = (field: Field): boolean =>
  field.value === undefined || field.value === null;

/** The items of a list; an absent list is empty. */
export const itemsOf = (field: Field, bounds: { readonly max: number }): Field[] => {
  if (isAbsent(field)) return [];
  if (!Array.isArray(field.value)) {
    throw new FieldProblem(`${field.path} must be a list, found ${quoted(field.value)}`);
  }
  if (field.value.length > bounds.max) {
    throw new FieldProblem(
      `${field.path} has ${field.value.length} items: at most ${bounds.max} are allowed`,
    );
  }
  return field.value.map((value: unknown, at) => ({ path: `${field.path}[${at}]`, value }));
};

/** Reads a field with a parser of the model. */
export const take = <T>(field: Field, parse: (value: unknown) => Parsed<T>): T => {
  const read = parse(field.value);
  if (read.ok) return read.value;
  const fix = read.suggestion === undefined ? "" : `; write ${quoted(read.suggestion)}`;
  throw new FieldProblem(`${field.path}: ${read.problem}${fix}`, read.suggestion);
};

/** Reads a field, or takes `standard` where it is absent. */
export const takeOr = <T>(options: {
  readonly field: Field;
  readonly parse: (value: unknown) => Parsed<T>;
  readonly standard: T;
}): T => (isAbsent(options.field) ? options.standard : take(options.field, options.parse));

/** Reads all items of a list. */
export const takeAll = <T>(
  field: Field,
  options: { readonly max: number; readonly parse: (value: unknown) => Parsed<T> },
): T[] => itemsOf(field, options).map((item) => take(item, options.parse));

/** A whole number in a range, ends included. */
export const parseWhole =
  (range: { readonly min: number; readonly max: number }) =>
  (value: unknown): Parsed<number> =>
    typeof value === "number" &&
    Number.isSafeInteger(value) &&
    value >= range.min &&
    value <= range.max
      ? parsed(value)
      : problem(`must be a whole number from ${range.min} to ${range.max}, found ${quoted(value)}`);

/** The name of a Kubernetes object. */
export const parseName = (value: unknown): Parsed<string> =>
  isName(value) ? parsed(value) : problem(`must be a Kubernetes name, found ${quoted(value)}`);

export const parseUid = (value: unknown): Parsed<string> =>
  typeof value === "string" && UID.test(value)
    ? parsed(value)
    : problem(`must be a UID, found ${quoted(value)}`);
