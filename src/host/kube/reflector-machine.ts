/** The decisions of a reflector: when to list, watch, resume, wait and give up on a watch; pure, time is an argument. */

import type { KubeErrorCode, KubeObject, ReflectorState } from "#src/ports/kube.ts";
import type { WatchEvent } from "./watch-stream.ts";

/** First wait is 0..1 s, then twice that, at most 0..30 s: full jitter, so that 5,000 clients spread (T26). */
export const BACKOFF_MS_BASE = 1_000;
export const BACKOFF_MS_MAX = 30_000;
/** Longest Retry-After that is believed. */
export const RETRY_AFTER_MS_MAX = 60_000;
/** API servers send a bookmark about once a minute; a check at 45 s leaves time to notice a stall within 60 s (K2). */
export const SILENCE_MS_MAX = 45_000;
/** A check is a short watch: a healthy server ends it by itself after this time, with a bookmark before. */
export const CHECK_SECONDS = 5;
/** A check without any byte or end for this long: the server has stalled. */
export const CHECK_MS_MAX = 12_000;
/** Response headers of a watch come at once; this long without them is a failure. */
export const OPEN_MS_MAX = 10_000;
/** A watch that ends sooner without an event counts as failed, or a broken server would be asked in a tight loop. */
export const WATCH_MS_MIN = 1_000;
/** Watches that fail this often in a row are followed by a new list. */
export const WATCH_FAILURES_MAX = 3;
/** More objects than any supported cluster has; a server that lists more is refused. */
export const ITEMS_MAX = 20_000;

export interface ReflectorFailure {
  readonly code: KubeErrorCode;
  readonly message: string;
  /** What the server asked for; null: nothing. */
  readonly retryAfterMs: number | null;
}

/** `long`: 240..300 s. `check`: the watch before was silent. */
export type WatchMode = "long" | "check";

/*
 *  idle -start-> listing -last page-> opening -headers-> watching
 *                  ^ |                  ^ |                | |
 *                  | failed        resume failed      end, | | 410
 *                  | v                  | v          error | |
 *                  waiting(list)        waiting(watch) <---+ |
 *                  ^-----------------------------------------+
 *  watching(long)  -45 s silent-> opening(check) -12 s silent-> listing
 *  any -stop-> stopped
 */
export type ReflectorPhase =
  | { readonly kind: "idle" }
  | {
      readonly kind: "listing";
      readonly call: number;
      readonly items: readonly KubeObject[];
    }
  | {
      readonly kind: "opening" | "watching";
      readonly call: number;
      readonly mode: WatchMode;
      readonly resourceVersion: string;
      readonly openedMs: number;
      readonly heardMs: number;
      readonly hasHeard: boolean;
    }
  | {
      readonly kind: "waiting";
      readonly untilMs: number;
      /** Null: list anew. */
      readonly resourceVersion: string | null;
    }
  | { readonly kind: "stopped" };

export interface ReflectorMachine {
  readonly phase: ReflectorPhase;
  readonly health: ReflectorState;
  /** Number of the latest call; answers of older calls are ignored. */
  readonly calls: number;
  /** Failures since a watch was last seen healthy; drives the backoff. */
  readonly failures: number;
  /** Failed watches since the last list. */
  readonly watchFailures: number;
}

export type ReflectorEvent =
  | { readonly kind: "start" }
  | {
      readonly kind: "page";
      readonly call: number;
      readonly items: readonly KubeObject[];
      readonly resourceVersion: string;
      /** Token of the next page; null: this was the last. */
      readonly next: string | null;
    }
  | { readonly kind: "failed"; readonly call: number; readonly failure: ReflectorFailure }
  | { readonly kind: "opened"; readonly call: number }
  | { readonly kind: "watched"; readonly call: number; readonly event: WatchEvent }
  | { readonly kind: "ended"; readonly call: number }
  | { readonly kind: "tick" }
  | { readonly kind: "stop" };

export type ReflectorEffect =
  | { readonly kind: "list"; readonly call: number; readonly next: string | null }
  | {
      readonly kind: "watch";
      readonly call: number;
      readonly resourceVersion: string;
      readonly timeoutSeconds: number;
    }
  | { readonly kind: "abandon"; readonly call: number }
  | { readonly kind: "replace"; readonly items: readonly KubeObject[] }
  | { readonly kind: "upsert"; readonly object: KubeObject }
  | { readonly kind: "remove"; readonly object: KubeObject }
  | { readonly kind: "warn"; readonly code: KubeErrorCode; readonly message: string };

export interface ReflectorStep {
  readonly machine: ReflectorMachine;
  readonly effects: readonly ReflectorEffect[];
}

/** What a step may look at besides its event: the time, and one random number in [0, 1). */
export interface ReflectorMoment {
  readonly nowMs: number;
  readonly unit: number;
  /** Longest wait after a failure; default BACKOFF_MS_MAX. */
  readonly backoffMsMax?: number;
}

export const newReflectorMachine = (): ReflectorMachine => ({
  phase: { kind: "idle" },
  health: { kind: "starting" },
  calls: 0,
  failures: 0,
  watchFailures: 0,
});

/** When `tick` must come at the latest, and why; null: no need. */
export const reflectorDeadline = (
  machine: ReflectorMachine,
): { readonly atMs: number; readonly reason: string } | null => {
  const phase = machine.phase;
  switch (phase.kind) {
    case "idle":
    case "listing":
    case "stopped":
      return null;
    case "waiting":
      return { atMs: phase.untilMs, reason: "retry" };
    case "opening":
      return { atMs: phase.openedMs + OPEN_MS_MAX, reason: "no answer to the watch" };
    case "watching":
      return phase.mode === "check" && !phase.hasHeard
        ? { atMs: phase.openedMs + CHECK_MS_MAX, reason: "no answer to the check" }
        : { atMs: phase.heardMs + SILENCE_MS_MAX, reason: "silence" };
  }
};

const abandonment = (machine: ReflectorMachine): readonly ReflectorEffect[] => {
  const phase = machine.phase;
  return phase.kind === "listing" || phase.kind === "opening" || phase.kind === "watching"
    ? [{ kind: "abandon", call: phase.call }]
    : [];
};

const list = (machine: ReflectorMachine): ReflectorStep => {
  const call = machine.calls + 1;
  return {
    machine: { ...machine, calls: call, phase: { kind: "listing", call, items: [] } },
    effects: [{ kind: "list", call, next: null }],
  };
};

const watch = (
  machine: ReflectorMachine,
  want: { readonly resourceVersion: string; readonly mode: WatchMode },
  moment: ReflectorMoment,
): ReflectorStep => {
  const call = machine.calls + 1;
  const timeoutSeconds = want.mode === "check" ? CHECK_SECONDS : 240 + Math.floor(moment.unit * 61);
  return {
    machine: {
      ...machine,
      calls: call,
      phase: {
        kind: "opening",
        call,
        ...want,
        openedMs: moment.nowMs,
        heardMs: moment.nowMs,
        hasHeard: false,
      },
    },
    effects: [{ kind: "watch", call, resourceVersion: want.resourceVersion, timeoutSeconds }],
  };
};

/** Stale from the first failure on, also before the first list: whoever waits for it wants the reason. */
const staleHealth = (health: ReflectorState, problem: string, nowMs: number): ReflectorState => ({
  kind: "stale",
  sinceMs: health.kind === "stale" ? health.sinceMs : nowMs,
  problem,
});

const backoffMs = (
  failures: number,
  failure: ReflectorFailure,
  { unit, backoffMsMax = BACKOFF_MS_MAX }: ReflectorMoment,
): number => {
  const window = Math.min(backoffMsMax, BACKOFF_MS_BASE * 2 ** Math.min(failures, 10));
  if (failure.retryAfterMs === null) return unit * window;
  return Math.min(RETRY_AFTER_MS_MAX, failure.retryAfterMs) + unit * BACKOFF_MS_BASE;
};

/** A call failed: wait, then resume from `resourceVersion`, or list anew where that can't help. */
const fail = (
  machine: ReflectorMachine,
  failure: ReflectorFailure,
  resourceVersion: string | null,
  moment: ReflectorMoment,
): ReflectorStep => {
  const watchFailures = resourceVersion === null ? 0 : machine.watchFailures + 1;
  const mustList =
    resourceVersion === null || failure.code === "gone" || watchFailures >= WATCH_FAILURES_MAX;
  const wait = backoffMs(machine.failures, failure, moment);
  const isExpiry = failure.code === "gone";
  return {
    machine: {
      ...machine,
      failures: machine.failures + 1,
      watchFailures,
      health: isExpiry
        ? machine.health
        : staleHealth(machine.health, failure.message, moment.nowMs),
      phase: {
        kind: "waiting",
        untilMs: moment.nowMs + wait,
        resourceVersion: mustList ? null : resourceVersion,
      },
    },
    effects: [
      ...abandonment(machine),
      ...(isExpiry
        ? []
        : [{ kind: "warn" as const, code: failure.code, message: failure.message }]),
    ],
  };
};

const onPage = (
  machine: ReflectorMachine,
  phase: ReflectorPhase & { kind: "listing" },
  page: ReflectorEvent & { kind: "page" },
  moment: ReflectorMoment,
): ReflectorStep => {
  const items = [...phase.items, ...page.items];
  if (items.length > ITEMS_MAX || (page.next !== null && page.items.length === 0)) {
    const message = `the server lists more than ${ITEMS_MAX} objects or pages without end`;
    return fail(machine, { code: "bad-response", message, retryAfterMs: null }, null, moment);
  }
  if (page.next !== null) {
    const call = machine.calls + 1;
    return {
      machine: { ...machine, calls: call, phase: { kind: "listing", call, items } },
      effects: [{ kind: "list", call, next: page.next }],
    };
  }
  const listed = { ...machine, watchFailures: 0, health: { kind: "live" } as const };
  const next = watch(listed, { resourceVersion: page.resourceVersion, mode: "long" }, moment);
  return { machine: next.machine, effects: [{ kind: "replace", items }, ...next.effects] };
};

const failureOfStream = (event: WatchEvent & { kind: "error" }): ReflectorFailure => {
  const message = `the watch ended with error ${event.code}: ${event.message}`;
  const code =
    event.code === 410 ? "gone" : event.code === 429 ? "too-many-requests" : "server-error";
  return { code, message, retryAfterMs: null };
};

const onWatched = (
  machine: ReflectorMachine,
  phase: ReflectorPhase & { kind: "opening" | "watching" },
  event: WatchEvent,
  moment: ReflectorMoment,
): ReflectorStep => {
  if (event.kind === "error")
    return fail(machine, failureOfStream(event), phase.resourceVersion, moment);
  const version =
    event.kind === "bookmark" ? event.resourceVersion : event.object.metadata.resourceVersion;
  const heard: ReflectorMachine = {
    ...machine,
    failures: 0,
    watchFailures: 0,
    health: { kind: "live" },
    phase: {
      ...phase,
      kind: "watching",
      resourceVersion: version ?? phase.resourceVersion,
      heardMs: moment.nowMs,
      hasHeard: true,
    },
  };
  switch (event.kind) {
    case "bookmark":
      return { machine: heard, effects: [] };
    case "upsert":
      return { machine: heard, effects: [{ kind: "upsert", object: event.object }] };
    case "delete":
      return { machine: heard, effects: [{ kind: "remove", object: event.object }] };
  }
};

const onEnded = (
  machine: ReflectorMachine,
  phase: ReflectorPhase & { kind: "opening" | "watching" },
  moment: ReflectorMoment,
): ReflectorStep => {
  if (!phase.hasHeard && moment.nowMs - phase.openedMs < WATCH_MS_MIN) {
    const message = "the server ended the watch at once";
    const failure = { code: "unreachable", message, retryAfterMs: null } as const;
    return fail(machine, failure, phase.resourceVersion, moment);
  }
  const healthy = { ...machine, failures: 0, watchFailures: 0, health: { kind: "live" } as const };
  return watch(healthy, { resourceVersion: phase.resourceVersion, mode: "long" }, moment);
};

const onDeadline = (machine: ReflectorMachine, moment: ReflectorMoment): ReflectorStep => {
  const deadline = reflectorDeadline(machine);
  const phase = machine.phase;
  if (deadline === null || moment.nowMs < deadline.atMs) return { machine, effects: [] };
  if (phase.kind === "waiting") {
    return phase.resourceVersion === null
      ? list(machine)
      : watch(machine, { resourceVersion: phase.resourceVersion, mode: "long" }, moment);
  }
  if (phase.kind !== "opening" && phase.kind !== "watching") return { machine, effects: [] };
  const abandon = abandonment(machine);
  if (phase.kind === "opening") {
    const message = `the server did not answer a watch within ${OPEN_MS_MAX / 1000} s`;
    const failure = { code: "timeout", message, retryAfterMs: null } as const;
    return fail(machine, failure, phase.resourceVersion, moment);
  }
  if (phase.mode === "check" && !phase.hasHeard) {
    const message = "the watch has stalled: not a byte and no end; listing anew";
    const health = staleHealth(machine.health, message, moment.nowMs);
    const next = list({ ...machine, health, failures: machine.failures + 1 });
    return {
      machine: next.machine,
      effects: [...abandon, { kind: "warn", code: "timeout", message }, ...next.effects],
    };
  }
  const check = watch(machine, { resourceVersion: phase.resourceVersion, mode: "check" }, moment);
  return { machine: check.machine, effects: [...abandon, ...check.effects] };
};

/** The next state and what to do; events of abandoned calls and after the stop change nothing. */
export const stepReflector = (
  machine: ReflectorMachine,
  event: ReflectorEvent,
  moment: ReflectorMoment,
): ReflectorStep => {
  const same: ReflectorStep = { machine, effects: [] };
  const phase = machine.phase;
  if (phase.kind === "stopped") return same;
  switch (event.kind) {
    case "start":
      return phase.kind === "idle" ? list(machine) : same;
    case "stop":
      return {
        machine: { ...machine, phase: { kind: "stopped" }, health: { kind: "stopped" } },
        effects: abandonment(machine),
      };
    case "tick":
      return onDeadline(machine, moment);
    case "page":
      if (phase.kind !== "listing" || phase.call !== event.call) return same;
      return onPage(machine, phase, event, moment);
    case "failed":
      if (phase.kind === "listing" && phase.call === event.call) {
        return fail(machine, event.failure, null, moment);
      }
      if (phase.kind !== "opening" && phase.kind !== "watching") return same;
      if (phase.call !== event.call) return same;
      return fail(machine, event.failure, phase.resourceVersion, moment);
    case "opened":
      if (phase.kind !== "opening" || phase.call !== event.call) return same;
      return {
        machine: {
          ...machine,
          health: { kind: "live" },
          phase: { ...phase, kind: "watching", heardMs: moment.nowMs },
        },
        effects: [],
      };
    case "watched":
      if (phase.kind !== "opening" && phase.kind !== "watching") return same;
      return phase.call === event.call ? onWatched(machine, phase, event.event, moment) : same;
    case "ended":
      if (phase.kind !== "opening" && phase.kind !== "watching") return same;
      return phase.call === event.call ? onEnded(machine, phase, moment) : same;
  }
};
