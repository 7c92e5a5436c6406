/** A work loop for one key: triggers are coalesced, one run at a time, failures retried with backoff, resync forever. */

import type { Cancel, Clock } from "#src/ports/clock.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";

/** How a run ended. */
export type RunResult =
  /** The desired state is reached; next run at a trigger or at the resync. */
  | { readonly kind: "reached" }
  /** Host or transport failed: runs again after the backoff. */
  | { readonly kind: "retry"; readonly problem: string }
  /** The spec is bad: waits for a trigger, the resync aside. */
  | { readonly kind: "rejected"; readonly problem: string };

/** What a run is told. */
export interface Work {
  /** All triggers up to this one are answered by this run. */
  readonly revision: number;
  /** Distinct reasons since the last run, in order of arrival, at most 16. */
  readonly reasons: readonly string[];
  /** How often in a row the runs before failed. */
  readonly failures: number;
}

/** The end of a run, or of the loop. */
export type Outcome =
  | { readonly revision: number; readonly result: RunResult }
  | { readonly revision: number; readonly result: { readonly kind: "stopped" } };

export interface WorkLoopOptions {
  /** Names the loop in logs, e.g. `host` or `tunnel shoot--lab--alpha/alpha`. */
  readonly name: string;
  /** A HostError that it throws counts as `retry`; anything else is a broken invariant. */
  readonly run: (work: Work) => Promise<RunResult>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Least time between the starts of two runs. */
  readonly intervalMsMin?: number;
  /** Time after a good run until the next one without any trigger, jittered by a tenth. */
  readonly resyncMs?: number;
  readonly backoffMsMin?: number;
  readonly backoffMsMax?: number;
  /** Hears of a broken invariant; the default throws it where nobody catches, which ends the process. */
  readonly onBroken?: (error: unknown) => void;
}

/** Bounds bursts: Kubernetes sends an event per object. */
const INTERVAL_MS_MIN = 100;
/** Finds drift that no event tells, e.g. a flushed ruleset. */
const RESYNC_MS = 60_000;
const BACKOFF_MS_MIN = 500;
/** A repaired host is noticed within this. */
const BACKOFF_MS_MAX = 30_000;
/** More distinct reasons than this tell nobody anything. */
const REASONS_MAX = 16;

/*
 *            trigger                    due                 run ends
 *   waiting ---------> waiting(sooner) -----> running -------------------> waiting(resync | backoff | trigger)
 *      |                                         |
 *      +------------------ stop -----------------+--> stopped (after the run ended)
 */
type State =
  | { readonly kind: "waiting"; readonly dueMs: number; readonly why: Why; readonly cancel: Cancel }
  /** Nothing asked for yet. */
  | { readonly kind: "idle" }
  | { readonly kind: "running" }
  | { readonly kind: "stopped" };

type Why = "trigger" | "resync" | "retry";

interface Waiter {
  readonly revision: number;
  readonly resolve: (outcome: Outcome) => void;
}

export class WorkLoop {
  readonly #options: WorkLoopOptions;
  #state: State = { kind: "idle" };
  #revision = 0;
  #settledRevision = 0;
  #lastResult: RunResult | null = null;
  #reasons: string[] = [];
  #failures = 0;
  #startedMs = Number.NEGATIVE_INFINITY;
  #endedMs = Number.NEGATIVE_INFINITY;
  #waiters: Waiter[] = [];
  /** Ends with the run that started last. */
  #running: Promise<void> = Promise.resolve();

  /** Does nothing until the first trigger. */
  constructor(options: WorkLoopOptions) {
    this.#options = options;
  }

  /** Result of the last run; null: none has ended. */
  get lastResult(): RunResult | null {
    return this.#lastResult;
  }

  /** Asks for a run; many calls before it starts give one run. The returned revision can be awaited. */
  trigger(reason: string): number {
    if (this.#state.kind === "stopped") return this.#revision;
    this.#revision++;
    if (this.#reasons.length < REASONS_MAX && !this.#reasons.includes(reason)) {
      this.#reasons.push(reason);
    }
    if (this.#state.kind !== "running") this.#wait("trigger", this.#triggerDueMs());
    return this.#revision;
  }

  /** Resolves when a run that started after the trigger of this revision has ended, however it ended. */
  settled(revision = this.#revision): Promise<Outcome> {
    if (this.#state.kind === "stopped") return Promise.resolve(stoppedAt(revision));
    if (this.#lastResult !== null && this.#settledRevision >= revision) {
      return Promise.resolve({ revision: this.#settledRevision, result: this.#lastResult });
    }
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    this.#waiters.push({ revision, resolve });
    return promise;
  }

  /** No run starts any more; resolves when the running one has ended. Idempotent. */
  async stop(): Promise<void> {
    const state = this.#state;
    this.#state = { kind: "stopped" };
    if (state.kind === "waiting") state.cancel();
    await this.#running;
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiters) waiter.resolve(stoppedAt(waiter.revision));
  }

  /**
   * A trigger is news, e.g. a dead relay, and does not wait for the backoff of an older failure (T18 has one
   * second in all); the rest after the failed run keeps a flood of triggers from filling a core.
   */
  #triggerDueMs(): number {
    const { intervalMsMin = INTERVAL_MS_MIN } = this.#options;
    const spaced = this.#startedMs + intervalMsMin;
    return this.#failures === 0 ? spaced : Math.max(spaced, this.#endedMs + 2 * intervalMsMin);
  }

  #wait(why: Why, dueMs: number): void {
    const { clock } = this.#options;
    if (this.#state.kind === "waiting") {
      if (this.#state.dueMs <= dueMs) return;
      this.#state.cancel();
    }
    const delayMs = Math.max(0, dueMs - clock.nowMs());
    const cancel = clock.after(delayMs, () => this.#start(why));
    this.#state = { kind: "waiting", dueMs, why, cancel };
  }

  #start(why: Why): void {
    const reasons = this.#reasons.length > 0 ? this.#reasons : [why];
    const work = { revision: this.#revision, reasons, failures: this.#failures };
    this.#reasons = [];
    this.#startedMs = this.#options.clock.nowMs();
    this.#state = { kind: "running" };
    this.#running = this.#run(work);
  }

  async #run(work: Work): Promise<void> {
    const { name, run, log, onBroken = throwUncaught } = this.#options;
    let result: RunResult;
    try {
      result = await run(work);
    } catch (e) {
      if (!isHostError(e)) {
        onBroken(e);
        result = { kind: "retry", problem: "a broken invariant" };
      } else {
        result = { kind: "retry", problem: e.message };
      }
    }
    if (result.kind !== "reached") {
      log.warn({ loop: name, reasons: work.reasons, failures: work.failures }, result.problem);
    }
    this.#end(work, result);
  }

  #end(work: Work, result: RunResult): void {
    this.#endedMs = this.#options.clock.nowMs();
    this.#failures = result.kind === "retry" ? this.#failures + 1 : 0;
    this.#lastResult = result;
    this.#settledRevision = work.revision;
    if (this.#state.kind !== "stopped") {
      this.#state = { kind: "idle" };
      this.#waitForNext(work, result);
    }
    const done = this.#waiters.filter((waiter) => waiter.revision <= work.revision);
    this.#waiters = this.#waiters.filter((waiter) => waiter.revision > work.revision);
    for (const waiter of done) waiter.resolve({ revision: work.revision, result });
  }

  #waitForNext(work: Work, result: RunResult): void {
    if (this.#revision > work.revision) {
      this.#wait("trigger", this.#triggerDueMs());
      return;
    }
    const { resyncMs = RESYNC_MS } = this.#options;
    if (result.kind === "retry") this.#wait("retry", this.#endedMs + this.#backoffMs());
    else this.#wait("resync", this.#endedMs + resyncMs * (0.9 + 0.2 * this.#options.random.unit()));
  }

  /** Doubles with each failure up to the cap; the upper half is chance, so that many ends spread. */
  #backoffMs(): number {
    const { backoffMsMin = BACKOFF_MS_MIN, backoffMsMax = BACKOFF_MS_MAX } = this.#options;
    const fullMs = Math.min(backoffMsMax, backoffMsMin * 2 ** (this.#failures - 1));
    return fullMs * (0.5 + 0.5 * this.#options.random.unit());
  }
}

const stoppedAt = (revision: number): Outcome => ({ revision, result: { kind: "stopped" } });

const throwUncaught = (error: unknown): void => {
  queueMicrotask(() => {
    throw error;
  });
};
