/** Blocks in objects of other projects: read as strictly as ours, but put right where it is clear what was meant. */

import type { RangeKind } from "#src/model/allocation.ts";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { fieldAtIfPresent, FieldProblem, isAbsent, itemsOf, take, type Field } from "./fields.ts";

export interface ImportedRange {
  readonly use: RangeKind | "reserved";
  readonly cidr: Cidr;
}

/** What one foreign object says of a cluster's ranges. */
export interface ImportedRanges {
  readonly ranges: readonly ImportedRange[];
  /** What a person should know, one sentence each. */
  readonly notes: readonly string[];
}

const LIST_MAX = 64;
/** A list with commas is two CIDRs and some white space. */
const LIST_CHARS_MAX = 1000;

/** Collects ranges and notes of one object. */
export class RangeReader {
  readonly ranges: ImportedRange[] = [];
  readonly notes: string[] = [];
  readonly #object: string;

  /** `object` is what a person calls it, e.g. `Seed eu-1`. */
  constructor(object: string) {
    this.#object = object;
  }

  note(text: string): void {
    this.notes.push(`${this.#object}: ${text}`);
  }

  has(use: ImportedRange["use"]): boolean {
    return this.ranges.some((range) => range.use === use);
  }

  /** A field with one block; an absent or empty one is nothing. */
  one(use: ImportedRange["use"], field: Field): void {
    if (isAbsent(field) || field.value === "") return;
    this.#add(use, field);
  }

  /** A field with a list of blocks. */
  list(use: ImportedRange["use"], field: Field): void {
    for (const item of itemsOf(field, { max: LIST_MAX })) this.#add(use, item);
  }

  /** Text with blocks between commas, as flags of Kubernetes have them. */
  commas(use: ImportedRange["use"], field: Field): void {
    if (isAbsent(field) || field.value === "") return;
    if (typeof field.value !== "string" || field.value.length > LIST_CHARS_MAX) {
      throw new FieldProblem(`${field.path} must be a text of CIDRs with commas`);
    }
    for (const [at, value] of field.value.split(",").entries()) {
      this.#add(use, { path: `${field.path} (${at + 1}.)`, value: value.trim() });
    }
  }

  #add(use: ImportedRange["use"], field: Field): void {
    const read = parseCidr(field.value);
    if (!read.ok && read.suggestion !== undefined) {
      const meant = take({ path: field.path, value: read.suggestion }, parseCidr);
      this.note(`${field.path}: ${read.problem}; ${meant} is taken`);
      this.#keep(use, meant);
      return;
    }
    this.#keep(use, take(field, parseCidr));
  }

  #keep(use: ImportedRange["use"], cidr: Cidr): void {
    if (!this.ranges.some((range) => range.use === use && range.cidr === cidr)) {
      this.ranges.push({ use, cidr });
    }
  }
}

/** The text of a field several levels down; null: it is absent or no text. */
export const textAt = (root: Field, ...names: readonly string[]): string | null => {
  const { value } = fieldAtIfPresent(root, ...names);
  return typeof value === "string" && value !== "" ? value : null;
};
