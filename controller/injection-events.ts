/** Events (events.k8s.io/v1) that say why a pod has no gateway: bounded in rate, and not the same one again and again. */

import type { PodOwner, RefusalCode, SkipCode } from "#src/model/injection.ts";
import { formatMicroTimestamp } from "#src/model/timestamp.ts";
import { contentHash } from "#src/plan/injection/content-hash.ts";
import type { Clock } from "#src/ports/clock.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube } from "#src/ports/kube.ts";
import { REPORTED_EVENTS } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";

/** What an Event is about: a pod that may never get a name, so its controller where there is one. */
export interface InjectionNews {
  readonly namespace: string;
  /** The pod's name, or the part of it that is known. */
  readonly pod: string;
  readonly isNamed: boolean;
  readonly owner: PodOwner | null;
  readonly kind: "skip" | "refuse";
  readonly code: SkipCode | RefusalCode;
  readonly sentence: string;
}

export interface InjectionEventsParts {
  readonly kube: Kube;
  readonly clock: Clock;
  readonly log: Log;
  /** Name of this replica: its pod. */
  readonly instance: string;
  readonly onEvent: (outcome: "written" | "failed" | "dropped" | "repeated") => void;
}

/** A ReplicaSet tries a refused pod again and again; people read one Event of it as well as a hundred. */
const REPEAT_MS = 10 * 60_000;
/** Everybody in the pod network can ask for reviews: the API server must not suffer for it. */
const BURST = 25;
const REFILL_MS = 2_000;
const KNOWN_MAX = 1_000;
/** The API's bound on a note is 1,024 bytes. */
const NOTE_CHARS_MAX = 1_000;

export class InjectionEvents {
  readonly #parts: InjectionEventsParts;
  /** When something was said last; the oldest first. */
  readonly #said = new Map<string, number>();
  #tokens = BURST;
  #refilledMs: number;

  constructor(parts: InjectionEventsParts) {
    this.#parts = parts;
    this.#refilledMs = parts.clock.nowMs();
  }

  /** Writes the Event unless it was written a short while ago; never throws, a review must not wait for it. */
  async tell(news: InjectionNews): Promise<void> {
    const { kube, clock, log, onEvent } = this.#parts;
    const nowMs = clock.nowMs();
    const key = `${news.namespace}/${news.owner?.uid ?? news.pod}/${news.code}`;
    const saidMs = this.#said.get(key);
    if (saidMs !== undefined && nowMs - saidMs < REPEAT_MS) return onEvent("repeated");
    if (!this.#takeToken(nowMs)) return onEvent("dropped");
    this.#remember(key, nowMs);
    try {
      await kube.create(REPORTED_EVENTS, eventObject(news, clock.wallMs(), this.#parts.instance));
      onEvent("written");
    } catch (error) {
      if (!isHostError(error)) throw error;
      // Said again at the next occasion.
      this.#said.delete(key);
      onEvent("failed");
      log.warn({ namespace: news.namespace, pod: news.pod, code: error.code }, error.message);
    }
  }

  #takeToken(nowMs: number): boolean {
    const earned = Math.floor((nowMs - this.#refilledMs) / REFILL_MS);
    this.#tokens = Math.min(BURST, this.#tokens + earned);
    this.#refilledMs += earned * REFILL_MS;
    if (this.#tokens === 0) return false;
    this.#tokens -= 1;
    return true;
  }

  #remember(key: string, nowMs: number): void {
    this.#said.delete(key);
    this.#said.set(key, nowMs);
    const [oldest] = this.#said.keys();
    if (this.#said.size > KNOWN_MAX && oldest !== undefined) this.#said.delete(oldest);
  }
}

const eventObject = (news: InjectionNews, wallMs: number, instance: string) => {
  const { namespace, owner } = news;
  const pod = { apiVersion: "v1", kind: "Pod", name: news.pod };
  const regarding = news.isNamed || owner === null ? pod : owner;
  return {
    metadata: {
      namespace,
      name: `xylem-injector.${contentHash({ regarding, code: news.code, wallMs, instance })}`,
      labels: { "app.kubernetes.io/managed-by": "xylem" },
    },
    eventTime: formatMicroTimestamp(wallMs),
    reportingController: "xylem.dev/injector",
    reportingInstance: instance,
    type: "Warning",
    action: "Inject",
    reason: news.kind === "skip" ? "InjectionSkipped" : "InjectionRefused",
    regarding: { ...regarding, namespace },
    note: `${news.code}: ${news.sentence}`.slice(0, NOTE_CHARS_MAX),
  };
};
