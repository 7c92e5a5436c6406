/** Logging through pino as JSON lines, with a second net against secrets; and a log that tests can read. */

import pino from "pino";
import type { Log } from "#src/ports/log.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";

export interface LogOptions {
  readonly level: LogLevel;
  /** The program's name, e.g. `xylem-gateway`. */
  readonly name: string;
  /** Where lines go; default: standard output. */
  readonly write?: (line: string) => void;
}

/** Field names whose values never leave the process, whoever put them into a field. */
const SECRET_FIELDS =
  /^(privateKey|token|tokenData|password|master|authorization|secret|clientKey|data)$/iu;

/** Nested fields are followed this deep; what lies deeper is left out. */
const FIELD_DEPTH_MAX = 6;
const FIELD_ITEMS_MAX = 100;

const BEARER = /\b(Bearer\s+)\S+/giu;
const JWT = /\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/gu;
const PEM_KEY =
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/gu;

const redactText = (text: string): string =>
  text.replace(BEARER, "$1[redacted]").replace(JWT, "[redacted]").replace(PEM_KEY, "[redacted]");

const redactError = (error: Error, depth: number): object => ({
  name: error.name,
  message: redactText(error.message),
  ...("code" in error && typeof error.code === "string" ? { code: error.code } : {}),
  ...(error.stack === undefined ? {} : { stack: redactText(error.stack) }),
  ...(error.cause === undefined ? {} : { cause: redactValue(error.cause, depth + 1) }),
});

const redactValue = (value: unknown, depth: number): unknown => {
  if (typeof value === "string") return redactText(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || value === null) return value;
  if (depth >= FIELD_DEPTH_MAX) return "[too deep]";
  if (value instanceof Error) return redactError(value, depth);
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (Array.isArray(value)) {
    return value.slice(0, FIELD_ITEMS_MAX).map((item) => redactValue(item, depth + 1));
  }
  if ("toJSON" in value && typeof value.toJSON === "function") {
    const json: unknown = value.toJSON();
    return redactValue(json, depth + 1);
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      SECRET_FIELDS.test(name) ? "[redacted]" : redactValue(inner, depth + 1),
    ]),
  );
};

/** Copies log fields without secrets: by field name, and tokens and keys inside texts. */
export const redactFields = (fields: object): object => {
  const clean = redactValue(fields instanceof Error ? { error: fields } : fields, 0);
  return typeof clean === "object" && clean !== null ? clean : { fields: clean };
};

/** Opens the program's log: one JSON object a line. */
export const openLog = (options: LogOptions): Log => {
  const write = options.write;
  const settings = { level: options.level, name: options.name };
  const logger =
    write === undefined ? pino(settings) : pino(settings, { write: (line: string) => write(line) });
  return {
    debug: (fields, message) => {
      if (logger.isLevelEnabled("debug")) logger.debug(redactFields(fields), redactText(message));
    },
    info: (fields, message) => {
      if (logger.isLevelEnabled("info")) logger.info(redactFields(fields), redactText(message));
    },
    warn: (fields, message) => {
      logger.warn(redactFields(fields), redactText(message));
    },
    error: (fields, message) => {
      logger.error(redactFields(fields), redactText(message));
    },
  };
};
