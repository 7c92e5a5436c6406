/** Runs a reflector's decisions: the calls, the timer, the local copy and the one-per-burst notice. */

import type { Cancel, Clock } from "#src/ports/clock.ts";
import { HostError } from "#src/ports/host-error.ts";
import type { KubeErrorCode, KubeObject, Reflector, ReflectorState } from "#src/ports/kube.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import { failureOf } from "./kube-failure.ts";
import { ObjectStore, pruneManagedFields } from "./object-store.ts";
import type { Prune } from "./object-store.ts";
import { newReflectorMachine, reflectorDeadline, stepReflector } from "./reflector-machine.ts";
import type { ReflectorEffect, ReflectorEvent } from "./reflector-machine.ts";
import type { WatchEvent } from "./watch-stream.ts";

export interface ListPage {
  readonly items: readonly KubeObject[];
  readonly resourceVersion: string;
  readonly next: string | null;
}

export interface WatchHandlers {
  readonly onOpen: () => void;
  readonly onEvent: (event: WatchEvent) => void;
}

/** Where a reflector's objects come from: one page or one watch at a time; both end at once when `signal` aborts. */
export interface ReflectorSource {
  page(next: string | null, signal: AbortSignal): Promise<ListPage>;
  /** Resolves when the server ended the watch, rejects with HostError<KubeErrorCode> otherwise. */
  watch(
    want: { readonly resourceVersion: string; readonly timeoutSeconds: number },
    handlers: WatchHandlers,
    signal: AbortSignal,
  ): Promise<void>;
}

export interface ReflectorOptions {
  readonly source: ReflectorSource;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** What is reflected, for messages: `nodes of https://10.0.0.1:6443`. */
  readonly subject: string;
  readonly onChange: () => void;
  readonly onRemove?: (object: KubeObject) => void;
  readonly prune?: Prune;
  /** The first list starts somewhere in this time, so that a fleet that restarts at once spreads; 0: at once. */
  readonly startJitterMs?: number;
  /** Longest wait after a failure; default 30 s. */
  readonly backoffMsMax?: number;
  /** Hears once that the reflector was stopped. */
  readonly onStop?: () => void;
}

export class SourceReflector implements Reflector {
  readonly #options: ReflectorOptions;
  readonly #store = new ObjectStore();
  readonly #synced = Promise.withResolvers<void>();
  #machine = newReflectorMachine();
  #hasSynced = false;
  #lastWarning: string | null = null;
  #call: AbortController | null = null;
  #cancelTimer: Cancel | null = null;
  #cancelNotice: Cancel | null = null;

  constructor(options: ReflectorOptions) {
    this.#options = options;
    // A caller that never awaits `synced` must not turn a stop into an unhandled rejection.
    this.#synced.promise.catch(() => undefined);
  }

  /** Begins to list and watch; a second start changes nothing. */
  start(): this {
    const jitterMs = this.#options.startJitterMs ?? 0;
    if (jitterMs === 0 || this.#machine.phase.kind !== "idle") this.#step({ kind: "start" });
    else if (this.#cancelTimer === null) {
      this.#cancelTimer = this.#options.clock.after(this.#options.random.unit() * jitterMs, () => {
        this.#step({ kind: "start" });
      });
    }
    return this;
  }

  get state(): ReflectorState {
    return this.#machine.health;
  }

  get items(): ReadonlyMap<string, KubeObject> | null {
    return this.#hasSynced ? this.#store.items : null;
  }

  /** Rejects with HostError `unreachable` when the reflector is stopped before its first list. */
  synced(): Promise<void> {
    return this.#synced.promise;
  }

  stop(): void {
    if (this.state.kind === "stopped") return;
    this.#step({ kind: "stop" });
    this.#options.onStop?.();
    this.#cancelNotice?.();
    this.#cancelNotice = null;
    this.#synced.reject(
      new HostError<KubeErrorCode>(
        "unreachable",
        `Reflecting ${this.#options.subject} was stopped before the first list.`,
      ),
    );
  }

  #step(event: ReflectorEvent): void {
    const nowMs = this.#options.clock.nowMs();
    const { random, backoffMsMax } = this.#options;
    const moment = {
      nowMs,
      unit: random.unit(),
      ...(backoffMsMax === undefined ? {} : { backoffMsMax }),
    };
    const step = stepReflector(this.#machine, event, moment);
    this.#machine = step.machine;
    if (this.state.kind === "live") this.#lastWarning = null;
    for (const effect of step.effects) this.#run(effect);
    this.#setTimer(nowMs);
  }

  #setTimer(nowMs: number): void {
    this.#cancelTimer?.();
    const deadline = reflectorDeadline(this.#machine);
    this.#cancelTimer =
      deadline === null
        ? null
        : this.#options.clock.after(Math.max(0, deadline.atMs - nowMs), () => {
            this.#step({ kind: "tick" });
          });
  }

  #run(effect: ReflectorEffect): void {
    switch (effect.kind) {
      case "list":
        return this.#list(effect.call, effect.next);
      case "watch":
        return this.#watch(effect);
      case "abandon":
        this.#call?.abort();
        this.#call = null;
        return;
      case "replace": {
        const hasChanged = this.#store.replace(effect.items);
        if (hasChanged || !this.#hasSynced) this.#notice();
        this.#hasSynced = true;
        this.#synced.resolve();
        return;
      }
      case "upsert":
        if (this.#store.upsert(this.#prune(effect.object))) this.#notice();
        return;
      case "remove":
        if (!this.#store.remove(effect.object)) return;
        this.#options.onRemove?.(this.#prune(effect.object));
        this.#notice();
        return;
      case "warn":
        this.#warn(effect);
    }
  }

  /** A problem that lasts is a warning once, and detail after that. */
  #warn(effect: ReflectorEffect & { kind: "warn" }): void {
    const { log, subject } = this.#options;
    const level = this.#lastWarning === effect.message ? "debug" : "warn";
    this.#lastWarning = effect.message;
    log[level]({ subject, code: effect.code }, `Reflecting ${subject}: ${effect.message}`);
  }

  #prune(object: KubeObject): KubeObject {
    const { prune } = this.#options;
    return prune === undefined ? pruneManagedFields(object) : prune(object);
  }

  #list(call: number, next: string | null): void {
    const controller = new AbortController();
    this.#call = controller;
    this.#options.source.page(next, controller.signal).then(
      (page) => {
        const items = page.items.map((item) => this.#prune(item));
        this.#step({ kind: "page", call, ...page, items });
      },
      (error: unknown) => {
        this.#step({ kind: "failed", call, failure: failureOf(error) });
      },
    );
  }

  #watch(effect: ReflectorEffect & { kind: "watch" }): void {
    const call = effect.call;
    const controller = new AbortController();
    this.#call = controller;
    const handlers: WatchHandlers = {
      onOpen: () => {
        this.#step({ kind: "opened", call });
      },
      onEvent: (event) => {
        this.#step({ kind: "watched", call, event });
      },
    };
    this.#options.source.watch(effect, handlers, controller.signal).then(
      () => {
        this.#step({ kind: "ended", call });
      },
      (error: unknown) => {
        this.#step({ kind: "failed", call, failure: failureOf(error) });
      },
    );
  }

  #notice(): void {
    this.#cancelNotice ??= this.#options.clock.after(0, () => {
      this.#cancelNotice = null;
      try {
        this.#options.onChange();
      } catch (error) {
        this.#options.log.error(
          { subject: this.#options.subject, error },
          `A handler of changes of ${this.#options.subject} failed; the reflector goes on`,
        );
      }
    });
  }
}
