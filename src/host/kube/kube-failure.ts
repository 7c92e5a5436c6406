/** Maps what an API server answers, or does not, to the codes of the Kube port. */

import { HostError, isHostError } from "#src/ports/host-error.ts";
import type { KubeErrorCode } from "#src/ports/kube.ts";
import type { ReflectorFailure } from "./reflector-machine.ts";

/** A failed call with what the server asked for in Retry-After. */
export class KubeError extends HostError<KubeErrorCode> {
  /** Null: the server did not say. */
  readonly retryAfterMs: number | null;

  constructor(
    code: KubeErrorCode,
    message: string,
    options: { cause?: unknown; retryAfterMs?: number | null } = {},
  ) {
    super(code, message, options.cause === undefined ? {} : { cause: options.cause });
    this.retryAfterMs = options.retryAfterMs ?? null;
  }
}

const CODES: ReadonlySet<string> = new Set<KubeErrorCode>([
  "not-found",
  "already-exists",
  "conflict",
  "invalid",
  "unauthorized",
  "forbidden",
  "gone",
  "too-many-requests",
  "server-error",
  "unreachable",
  "timeout",
  "bad-response",
  "bad-credentials",
]);

const isKubeErrorCode = (code: string): code is KubeErrorCode => CODES.has(code);

/** The code for an HTTP status and the `reason` of its Status object, where there is one. */
export const codeOfStatus = (status: number, reason: string | null): KubeErrorCode => {
  switch (status) {
    case 400:
    case 405:
    case 413:
    case 415:
    case 422:
      return "invalid";
    case 401:
      return "unauthorized";
    case 403:
      return "forbidden";
    case 404:
      return "not-found";
    case 409:
      return reason === "AlreadyExists" ? "already-exists" : "conflict";
    case 410:
      return "gone";
    case 429:
      return "too-many-requests";
    default:
      return status >= 500 ? "server-error" : "bad-response";
  }
};

/** What a reflector needs of an error. */
export const failureOf = (error: unknown): ReflectorFailure => {
  if (isHostError(error) && isKubeErrorCode(error.code)) {
    const retryAfterMs = error instanceof KubeError ? error.retryAfterMs : null;
    return { code: error.code, message: error.message, retryAfterMs };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { code: "bad-response", message, retryAfterMs: null };
};

/** Reads Retry-After, in seconds; dates and nonsense are null (RFC 9110, 10.2.3; API servers send seconds). */
export const parseRetryAfter = (header: string | undefined): number | null =>
  header !== undefined && /^\d{1,6}$/u.test(header) ? Number(header) * 1000 : null;

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";

/** True when the peer closed the connection under a call. */
export const isReset = (error: unknown): boolean =>
  ["ECONNRESET", "EPIPE", "ECONNABORTED"].includes(codeOf(error));

/** Says in words why a connection broke, and what to do where that is clear. */
export const describeBreak = (cause: unknown): string => {
  const code = codeOf(cause);
  switch (code) {
    case "ECONNREFUSED":
      return "the connection was refused; is the API server running, and the address right?";
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "the server's name does not resolve; check the server in the kubeconfig";
    case "ENETUNREACH":
    case "EHOSTUNREACH":
      return "there is no route to the server; check its address in the kubeconfig";
    case "DEPTH_ZERO_SELF_SIGNED_CERT":
    case "SELF_SIGNED_CERT_IN_CHAIN":
    case "UNABLE_TO_VERIFY_LEAF_SIGNATURE":
    case "UNABLE_TO_GET_ISSUER_CERT_LOCALLY":
      return "the server's certificate is not signed by the certificate-authority of the kubeconfig";
    case "ERR_TLS_CERT_ALTNAME_INVALID":
      return "the server's certificate is for another name; set tls-server-name or fix the server";
    case "CERT_HAS_EXPIRED":
      return "the server's certificate has expired";
    case "":
      return `the connection broke (${cause instanceof Error ? cause.message : "unknown"})`;
    default:
      return `the connection broke (${code})`;
  }
};

/** Reads `reason` and `message` of a Status object; null where there is none. */
export const readStatus = (
  text: string,
): { readonly reason: string | null; readonly message: string | null } => {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) return { reason: null, message: null };
    return {
      reason: "reason" in value && typeof value.reason === "string" ? value.reason : null,
      message:
        "message" in value && typeof value.message === "string"
          ? value.message.slice(0, 500)
          : null,
    };
  } catch {
    return { reason: null, message: null };
  }
};
