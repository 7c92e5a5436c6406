/** What an API server asks an admission webhook, and what the webhook says (admission.k8s.io/v1, JSON Patch of RFC 6902). */

/** One operation on a JSON document; `path` and `from` are JSON pointers (RFC 6901). */
export type JsonPatchOperation =
  | { readonly op: "add" | "replace"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string }
  | { readonly op: "move"; readonly from: string; readonly path: string };

export type AdmissionOperation = "CREATE" | "UPDATE" | "DELETE" | "CONNECT";

export interface AdmissionRequest {
  readonly uid: string;
  /** `group/version/Kind`; without the group for core kinds: `v1/Pod`. */
  readonly kind: string;
  readonly operation: AdmissionOperation;
  /** Null for cluster-scoped kinds. */
  readonly namespace: string | null;
  /** Null where the API server makes the name later. */
  readonly name: string | null;
  /** True: nothing may change anywhere because of this request. */
  readonly isDryRun: boolean;
  /** Null at a DELETE. */
  readonly object: unknown;
  /** Null at a CREATE. */
  readonly oldObject: unknown;
}

/** The answer to a request; warnings reach the person at the keyboard. */
export type AdmissionVerdict =
  | {
      readonly kind: "allow";
      /** Empty: the object stays as it is. */
      readonly patch: readonly JsonPatchOperation[];
      readonly warnings: readonly string[];
    }
  /** `code` is an HTTP status, e.g. 403 or 422. */
  | { readonly kind: "deny"; readonly code: number; readonly message: string };
