/** Who a caller is and what it may do, asked from the API server (TokenReview, SubjectAccessReview), with a short memory. */

import { createHash } from "node:crypto";
import type { Clock } from "#src/ports/clock.ts";
import type { Kube, KubeResource } from "#src/ports/kube.ts";

/** A caller as Kubernetes knows it. */
export interface Caller {
  readonly user: string;
  readonly groups: readonly string[];
}

/** What a caller wants to do; RBAC decides as if it asked the API server itself. */
export interface Access {
  readonly verb: "get" | "list" | "create" | "delete";
  readonly group: string;
  readonly resource: string;
  /** Absent: cluster-scoped. */
  readonly namespace?: string;
  readonly name?: string;
}

const TOKEN_REVIEWS: KubeResource = {
  group: "authentication.k8s.io",
  version: "v1",
  plural: "tokenreviews",
  kind: "TokenReview",
  isNamespaced: false,
  isQuestion: true,
};
const ACCESS_REVIEWS: KubeResource = {
  group: "authorization.k8s.io",
  version: "v1",
  plural: "subjectaccessreviews",
  kind: "SubjectAccessReview",
  isNamespaced: false,
  isQuestion: true,
};

/** How long an answer is believed: a revoked token works this much longer, as with an API server's own webhook cache. */
const BELIEVED_MS = 10_000;
const ENTRIES_MAX = 1_024;
const TOKEN_CHARS_MAX = 16_384;
export const CALLER_GROUPS_MAX = 256;

/** Answers by key, the oldest forgotten first. */
class Memory<T> {
  readonly #clock: Clock;
  readonly #held = new Map<string, { readonly answer: T; readonly untilMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#held.size;
  }

  async get(key: string, ask: () => Promise<T>): Promise<T> {
    const held = this.#held.get(key);
    if (held !== undefined && held.untilMs > this.#clock.nowMs()) return held.answer;
    const answer = await ask();
    this.#held.delete(key);
    this.#held.set(key, { answer, untilMs: this.#clock.nowMs() + BELIEVED_MS });
    const [oldest] = this.#held.keys();
    if (this.#held.size > ENTRIES_MAX && oldest !== undefined) this.#held.delete(oldest);
    return answer;
  }
}

export class CallerReview {
  readonly #kube: Kube;
  readonly #callers: Memory<Caller | null>;
  readonly #rights: Memory<boolean>;

  constructor(options: { readonly kube: Kube; readonly clock: Clock }) {
    this.#kube = options.kube;
    this.#callers = new Memory(options.clock);
    this.#rights = new Memory(options.clock);
  }

  /** Entries remembered, of both kinds. */
  get size(): number {
    return this.#callers.size + this.#rights.size;
  }

  /** Null: the token is nobody's. Tokens are remembered by their hash only. Throws HostError. */
  async callerOf(token: string): Promise<Caller | null> {
    if (token.length === 0 || token.length > TOKEN_CHARS_MAX) return null;
    const key = createHash("sha256").update(token).digest("base64");
    return await this.#callers.get(key, async () => {
      const review = await this.#kube.create(TOKEN_REVIEWS, {
        metadata: { name: "caller" },
        spec: { token },
      });
      const status = record(review["status"]);
      const user = record(status["user"]);
      if (status["authenticated"] !== true || typeof user["username"] !== "string") return null;
      const groups = Array.isArray(user["groups"]) ? user["groups"] : [];
      return {
        user: user["username"],
        groups: groups.filter((group) => typeof group === "string").slice(0, CALLER_GROUPS_MAX),
      };
    });
  }

  /** True when RBAC lets the caller do this. Throws HostError. */
  async mayAccess(caller: Caller, access: Access): Promise<boolean> {
    const { verb, group, resource, namespace, name } = access;
    const key = JSON.stringify([
      caller.user,
      caller.groups,
      verb,
      group,
      resource,
      namespace,
      name,
    ]);
    return await this.#rights.get(key, async () => {
      const review = await this.#kube.create(ACCESS_REVIEWS, {
        metadata: { name: "caller" },
        spec: {
          user: caller.user,
          groups: caller.groups,
          resourceAttributes: { verb, group, resource, namespace, name },
        },
      });
      return record(review["status"])["allowed"] === true;
    });
  }
}

const record = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? { ...value } : {};
