/** Parts that network policies and the objects they select have in common: selectors, labels, ports, blocks (meta/v1). */

import { cidrFromParts, parseCidr, type Cidr } from "#src/model/cidr.ts";
import { bitsOf, isMapped, readIp } from "#src/model/ip.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import {
  POLICY_PROTOCOLS,
  type LabelRequirement,
  type Labels,
  type LabelSelector,
  type PolicyProtocol,
} from "#src/model/policy.ts";
import { quoted } from "#src/model/quoted.ts";
import {
  fieldOf,
  FieldProblem,
  isAbsent,
  itemsOf,
  take,
  takeAll,
  takeOr,
  type Field,
} from "./fields.ts";

/** More than any object of a cluster has: etcd holds 1.5 MiB an object. */
const LABELS_MAX = 1000;
const EXPRESSIONS_MAX = 1000;
const VALUES_MAX = 1000;

/** `prefix/name` or `name`, as label keys are (meta/v1, qualified name). */
const LABEL_KEY =
  /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;
/** IANA service name: up to 15 letters, digits and dashes, with a letter. */
const PORT_NAME = /^(?=.{1,15}$)(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*$/;

export const parseText = (value: unknown): Parsed<string> =>
  typeof value === "string" ? parsed(value) : problem(`must be text, found ${quoted(value)}`);

const parseBoolean = (value: unknown): Parsed<boolean> =>
  typeof value === "boolean"
    ? parsed(value)
    : problem(`must be true or false, found ${quoted(value)}`);

/** An absent field is false. */
export const takeFlag = (field: Field): boolean =>
  takeOr({ field, parse: parseBoolean, standard: false });

export const parseLabelKey = (value: unknown): Parsed<string> =>
  typeof value === "string" && LABEL_KEY.test(value)
    ? parsed(value)
    : problem(`must be a label key, found ${quoted(value)}`);

export const parseLabelValue = (value: unknown): Parsed<string> =>
  typeof value === "string" && LABEL_VALUE.test(value)
    ? parsed(value)
    : problem(
        `must be a label value (text of at most 63 letters, digits, '-', '_', '.'), found ${quoted(value)}`,
      );

/** Labels or annotations; `parse` says what a value may be. An absent map is empty. */
export const takeMap = (field: Field, parse: (value: unknown) => Parsed<string>): Labels => {
  if (isAbsent(field)) return {};
  const { value } = field;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new FieldProblem(`${field.path} must be a map, found ${quoted(value)}`);
  }
  const keys = Object.keys(value);
  if (keys.length > LABELS_MAX) {
    throw new FieldProblem(
      `${field.path} has ${keys.length} entries: at most ${LABELS_MAX} are allowed`,
    );
  }
  return Object.fromEntries(
    keys.map((key) => {
      const path = `${field.path}[${quoted(key)}]`;
      take({ path, value: key }, parseLabelKey);
      return [key, take({ ...fieldOf(field, key), path }, parse)];
    }),
  );
};

/** Refuses a field that the reader does not know: a misspelt one would silently select everything. */
export const refuseUnknownFields = (field: Field, known: readonly string[]): void => {
  const { value, path } = field;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new FieldProblem(`${path} must be an object, found ${quoted(value)}`);
  }
  const unknown = Object.keys(value).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw new FieldProblem(
    `${path} has an unknown field ${quoted(unknown)}: known are ${known.join(", ")}`,
  );
};

/** A selector that is there; an empty one selects everything. */
export const takeSelector = (field: Field): LabelSelector => {
  refuseUnknownFields(field, ["matchLabels", "matchExpressions"]);
  return {
    matchLabels: takeMap(fieldOf(field, "matchLabels"), parseLabelValue),
    matchExpressions: itemsOf(fieldOf(field, "matchExpressions"), { max: EXPRESSIONS_MAX }).map(
      takeRequirement,
    ),
  };
};

const OPERATORS: readonly LabelRequirement["operator"][] = [
  "In",
  "NotIn",
  "Exists",
  "DoesNotExist",
];

const takeRequirement = (field: Field): LabelRequirement => {
  refuseUnknownFields(field, ["key", "operator", "values"]);
  const operator = take(fieldOf(field, "operator"), parseOneOf(OPERATORS));
  const values = takeAll(fieldOf(field, "values"), { max: VALUES_MAX, parse: parseLabelValue });
  const wantsValues = operator === "In" || operator === "NotIn";
  if (wantsValues !== values.length > 0) {
    throw new FieldProblem(
      `${field.path}.values must ${wantsValues ? "hold at least one value" : "be empty"} for operator ${operator}`,
    );
  }
  return { key: take(fieldOf(field, "key"), parseLabelKey), operator, values };
};

export const parseOneOf =
  <T extends string>(allowed: readonly T[]) =>
  (value: unknown): Parsed<T> => {
    const found = allowed.find((word) => word === value);
    return found === undefined
      ? problem(`must be ${allowed.join(" or ")}, found ${quoted(value)}`)
      : parsed(found);
  };

/** TCP where it is absent, as the API server says. */
export const takeProtocol = (field: Field): PolicyProtocol =>
  takeOr({ field, parse: parseOneOf(POLICY_PROTOCOLS), standard: "TCP" });

export const parsePortName = (value: unknown): Parsed<string> =>
  typeof value === "string" && PORT_NAME.test(value)
    ? parsed(value)
    : problem(
        `must be a port's number from 1 to 65535 or its name (at most 15 of a-z, 0-9, '-'), found ${quoted(value)}`,
      );

/** A block as policies may spell it: host bits mean nothing. New objects must not have them, old ones may. */
export const parsePolicyBlock = (value: unknown): Parsed<Cidr> => {
  const strict = parseCidr(value);
  if (strict.ok || typeof value !== "string") return strict;
  const [ipText = "", lengthText = "", ...rest] = value.split("/");
  const ip = readIp(ipText);
  if (typeof ip === "string" || isMapped(ip) || rest.length > 0) return strict;
  if (!/^(0|[1-9][0-9]{0,2})$/.test(lengthText)) return strict;
  const length = Number(lengthText);
  return length > bitsOf(ip.family)
    ? strict
    : parsed(cidrFromParts({ family: ip.family, base: ip.value, length }));
};
