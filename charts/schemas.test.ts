/** The schemas of address ranges say why a CIDR is refused with one expression, the same everywhere (docs/decisions/cidr-schemas.md). */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { parse } from "yaml";
import { RESERVED_RANGES } from "#src/model/cidr-reserved.ts";

const schemas = ["networkclaims", "networkpools", "seednetworks"];

interface Rule {
  readonly rule: string;
  readonly message?: string;
  readonly messageExpression?: string;
}

const isRule = (value: unknown): value is Rule =>
  typeof value === "object" && value !== null && "rule" in value;

/** All rules of a schema, wherever they stand. */
const rulesIn = (value: unknown): readonly Rule[] =>
  typeof value !== "object" || value === null
    ? []
    : [...(isRule(value) ? [value] : []), ...Object.values(value).flatMap(rulesIn)];

const rulesOf = (name: string): readonly Rule[] =>
  rulesIn(
    parse(readFileSync(join(import.meta.dirname, `seed/schemas/${name}.yaml`), "utf8"), {
      maxAliasCount: -1,
    }),
  );

void t.test("every CIDR is refused with the same expression", (t) => {
  for (const [what, want] of [
    ["must be a canonical CIDR", 13],
    ["overlaps a range that is reserved", 12],
  ] as const) {
    const rules = schemas.flatMap(rulesOf).filter(({ message }) => message?.startsWith(what));
    t.equal(rules.length, want, what);
    t.equal(new Set(rules.map(({ messageExpression }) => messageExpression)).size, 1, what);
    t.not(rules[0]?.messageExpression, undefined, what);
  }
  t.end();
});

void t.test("the expression knows the reserved ranges of the model", (t) => {
  const rule = schemas
    .flatMap(rulesOf)
    .find(({ message }) => message?.startsWith("overlaps a range that is reserved"));
  for (const { cidr, purpose } of RESERVED_RANGES) {
    // The canonical rule refuses mapped IPv6 before.
    if (purpose === "IPv4-mapped IPv6") continue;
    t.match(rule?.messageExpression, `'${cidr}, which is reserved (${purpose})'`);
    t.match(rule?.rule, `'${cidr}'`);
  }
  t.end();
});
