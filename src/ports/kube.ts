/** One Kubernetes API server: typed verbs, and a reflector that never lies about being stale. */

/** A kind as its REST path needs it. */
export interface KubeResource {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly isNamespaced: boolean;
  /** A question that is answered and not stored, whose metadata must be empty (SubjectAccessReview). */
  readonly isQuestion?: boolean;
}

export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly generation?: number;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly ownerReferences?: readonly unknown[];
    readonly [key: string]: unknown;
  };
  readonly [key: string]: unknown;
}

/** `namespace` is left out for cluster-scoped kinds. */
export interface KubeName {
  readonly namespace?: string;
  readonly name: string;
}

export type KubeErrorCode =
  | "not-found"
  | "already-exists"
  | "conflict"
  | "invalid"
  | "unauthorized"
  | "forbidden"
  | "gone"
  | "too-many-requests"
  | "server-error"
  | "unreachable"
  | "timeout"
  | "bad-response"
  | "bad-credentials";

/** Every call throws HostError<KubeErrorCode> whose message names the server, the verb and the object. */
export interface Kube {
  get(resource: KubeResource, name: KubeName): Promise<KubeObject>;
  /** All pages. */
  list(resource: KubeResource, options?: KubeListOptions): Promise<readonly KubeObject[]>;
  create(resource: KubeResource, object: KubeObject): Promise<KubeObject>;
  /** Replaces; fails with `conflict` when resourceVersion is set and old. */
  replace(resource: KubeResource, object: KubeObject): Promise<KubeObject>;
  replaceStatus(resource: KubeResource, object: KubeObject): Promise<KubeObject>;
  /** JSON merge patch. */
  patch(resource: KubeResource, name: KubeName, patch: object): Promise<KubeObject>;
  patchStatus(resource: KubeResource, name: KubeName, patch: object): Promise<KubeObject>;
  /** Absent is success. A precondition that fails is `conflict`. */
  delete(
    resource: KubeResource,
    name: KubeName,
    options?: { uid?: string; resourceVersion?: string },
  ): Promise<void>;
  /** Starts at once; see Reflector. */
  reflect(resource: KubeResource, options: ReflectOptions): Reflector;
  close(): void;
}

export interface KubeListOptions {
  readonly namespace?: string;
  readonly fieldSelector?: string;
  readonly labelSelector?: string;
}

export interface ReflectOptions extends KubeListOptions {
  /** Runs after every change of the set, at most once per burst. A throw is logged and changes nothing. */
  readonly onChange: () => void;
  /**
   * Hears of each object that went, as its last version was, before `onChange`: changes of a burst are one, and the last
   * one may matter. Not of those that a list lacks after the watch was broken.
   */
  readonly onRemove?: (object: KubeObject) => void;
  /** Takes from every object what the caller does not read; metadata's name, namespace, uid and versions must stay. */
  readonly prune?: (object: KubeObject) => KubeObject;
}

export type ReflectorState =
  | { readonly kind: "starting" }
  | { readonly kind: "live" }
  /** The items may be old, or not there at all yet: since when, and why. */
  | { readonly kind: "stale"; readonly sinceMs: number; readonly problem: string }
  | { readonly kind: "stopped" };

/** A local copy of one list, kept up to date by one watch. */
export interface Reflector {
  readonly state: ReflectorState;
  /** Null until the first list succeeded; keyed by `namespace/name` or `name`. */
  readonly items: ReadonlyMap<string, KubeObject> | null;
  /** Resolves after the first successful list. */
  synced(): Promise<void>;
  stop(): void;
}
