/** Reads and prints `AdmissionReview` (admission.k8s.io/v1), the talk between an API server and a webhook. */

import type {
  AdmissionOperation,
  AdmissionRequest,
  AdmissionVerdict,
} from "#src/model/admission.ts";
import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import { type Field, fieldOf, isAbsent, parseUid, reading, take } from "./fields.ts";

const API_VERSION = "admission.k8s.io/v1";
const OPERATIONS = ["CREATE", "UPDATE", "DELETE", "CONNECT"] as const;
/** An API server cuts warnings: 256 characters each, 4,096 in all (KEP-1693). */
const WARNING_CHARS_MAX = 256;
const WARNINGS_MAX = 16;
const MESSAGE_CHARS_MAX = 2048;

/** Reads the request of a review; another API version is a problem. */
export const parseAdmissionReview = (body: unknown): Parsed<AdmissionRequest> =>
  reading({ kind: "AdmissionReview", object: body }, (root) => {
    take(fieldOf(root, "apiVersion"), (value) =>
      value === API_VERSION
        ? parsed(value)
        : problem(`must be ${API_VERSION}, found ${quoted(value)}`),
    );
    const request = fieldOf(root, "request");
    return {
      uid: take(fieldOf(request, "uid"), parseUid),
      kind: kindOf(fieldOf(request, "kind")),
      operation: take(fieldOf(request, "operation"), parseOperation),
      namespace: textOrNull(fieldOf(request, "namespace")),
      name: textOrNull(fieldOf(request, "name")),
      isDryRun: fieldOf(request, "dryRun").value === true,
      object: fieldOf(request, "object").value ?? null,
      oldObject: fieldOf(request, "oldObject").value ?? null,
    };
  });

/** Prints the answer to the request with this uid. */
export const admissionResponse = (uid: string, verdict: AdmissionVerdict): object => ({
  apiVersion: API_VERSION,
  kind: "AdmissionReview",
  response: { uid, ...responseOf(verdict) },
});

const responseOf = (verdict: AdmissionVerdict): object => {
  switch (verdict.kind) {
    case "deny": {
      const message = verdict.message.slice(0, MESSAGE_CHARS_MAX);
      return { allowed: false, status: { code: verdict.code, message } };
    }
    case "allow": {
      const warnings = verdict.warnings
        .slice(0, WARNINGS_MAX)
        .map((text) => text.slice(0, WARNING_CHARS_MAX));
      const patch = new TextEncoder().encode(JSON.stringify(verdict.patch)).toBase64();
      return {
        allowed: true,
        ...(warnings.length === 0 ? {} : { warnings }),
        ...(verdict.patch.length === 0 ? {} : { patchType: "JSONPatch", patch }),
      };
    }
  }
};

const kindOf = (field: Field): string => {
  const [group, version, kind] = ["group", "version", "kind"].map((name) =>
    textOrNull(fieldOf(field, name)),
  );
  return [group, version, kind].filter((part) => part !== null).join("/");
};

const textOrNull = (field: Field): string | null => {
  if (isAbsent(field) || field.value === "") return null;
  return take(field, (value) =>
    typeof value === "string" && value.length <= 512
      ? parsed(value)
      : problem(`must be a short text, found ${quoted(value)}`),
  );
};

const parseOperation = (value: unknown): Parsed<AdmissionOperation> => {
  const found = OPERATIONS.find((operation) => operation === value);
  return found === undefined
    ? problem(`must be one of ${OPERATIONS.join(", ")}, found ${quoted(value)}`)
    : parsed(found);
};
