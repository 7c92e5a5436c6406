/** The Secret that replicas of the controller share: where the rotation of the webhook's certificates stands. */

import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import type {
  CertificateGeneration,
  CertificateRotation,
} from "#src/model/webhook-certificates.ts";
import { type Field, fieldOf, itemsOf, parseWhole, reading, take, takeOr } from "./fields.ts";

/** Key of the Secret's data that holds the rotation as JSON. */
const ENTRY = "rotation";
const PEM_CHARS_MAX = 16_384;
const NAMES_MAX = 32;

/** Prints `data` of the Secret. */
export const rotationData = (rotation: CertificateRotation): Readonly<Record<string, string>> => ({
  [ENTRY]: new TextEncoder().encode(JSON.stringify(rotation)).toBase64(),
});

/** Reads the Secret; a problem never shows what was in it. */
export const parseRotationSecret = (object: unknown): Parsed<CertificateRotation> => {
  const text = reading({ kind: "Secret", object }, (root) =>
    take(fieldOf(fieldOf(root, "data"), ENTRY), parseBase64),
  );
  if (!text.ok) return text;
  let value: unknown;
  try {
    value = JSON.parse(text.value);
  } catch {
    return problem(
      `data.${ENTRY} of the webhook's Secret is no JSON: the controller makes it anew`,
    );
  }
  const read = reading({ kind: "rotation", object: value }, (root) => rotationOf(root));
  return read.ok
    ? read
    : problem(`data.${ENTRY} of the webhook's Secret can't be read: the controller makes it anew`);
};

const rotationOf = (root: Field): CertificateRotation => {
  const kind = take(fieldOf(root, "kind"), parseKind);
  const generation = (name: string): CertificateGeneration => generationOf(fieldOf(root, name));
  switch (kind) {
    case "none":
      return { kind };
    case "steady":
      return { kind, current: generation("current") };
    case "announcing":
      return {
        kind,
        current: generation("current"),
        next: generation("next"),
        announcedMs: takeOr<number | null>({
          field: fieldOf(root, "announcedMs"),
          parse: parseMs,
          standard: null,
        }),
      };
    case "overlapping":
      return {
        kind,
        previous: generation("previous"),
        current: generation("current"),
        switchedMs: take(fieldOf(root, "switchedMs"), parseMs),
      };
  }
};

const generationOf = (field: Field): CertificateGeneration => ({
  authority: take(fieldOf(field, "authority"), parsePem),
  certificate: take(fieldOf(field, "certificate"), parsePem),
  key: take(fieldOf(field, "key"), parsePem),
  names: itemsOf(fieldOf(field, "names"), { max: NAMES_MAX }).map((name) => take(name, parseHost)),
  notBeforeMs: take(fieldOf(field, "notBeforeMs"), parseMs),
  notAfterMs: take(fieldOf(field, "notAfterMs"), parseMs),
});

const KINDS = ["none", "steady", "announcing", "overlapping"] as const;

const parseKind = (value: unknown): Parsed<CertificateRotation["kind"]> => {
  const found = KINDS.find((kind) => kind === value);
  return found === undefined ? problem("must be a phase of the rotation") : parsed(found);
};

const parseMs = parseWhole({ min: 0, max: Number.MAX_SAFE_INTEGER });

const parsePem = (value: unknown): Parsed<string> =>
  typeof value === "string" && value.length <= PEM_CHARS_MAX && value.startsWith("-----BEGIN ")
    ? parsed(value)
    : problem("must be PEM");

const parseHost = (value: unknown): Parsed<string> =>
  typeof value === "string" && /^[a-z0-9.-]{1,253}$/.test(value)
    ? parsed(value)
    : problem("must be a DNS name");

const parseBase64 = (value: unknown): Parsed<string> => {
  const refuse = (): Parsed<never> => problem("must be base64: the controller makes it anew");
  if (typeof value !== "string") return refuse();
  try {
    return parsed(new TextDecoder().decode(Uint8Array.fromBase64(value)));
  } catch {
    return refuse();
  }
};
