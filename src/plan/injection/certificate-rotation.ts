/** Decides the rotation of the webhook's certificates, so that no API server ever meets a leaf that its caBundle does not know. */

import type {
  CertificateGeneration,
  CertificateRotation,
} from "#src/model/webhook-certificates.ts";

/** A leaf and its authority are good for this long. */
export const VALID_MS = 90 * 86_400_000;
/** API servers watch webhook configurations and see a change within seconds; a slow one has this long. */
export const ANNOUNCE_MS = 5 * 60_000;
/** Replicas watch the Secret; one that has not heard of the switch after half of this takes itself out of service. */
export const OVERLAP_MS = 30 * 60_000;

export interface RotationFacts {
  /** DNS names that API servers call the webhook by. */
  readonly names: readonly string[];
  /** True when every webhook configuration that is there has just the bundle that goes with the state. */
  readonly isBundlePublished: boolean;
  /** What this replica serves, should the Secret be gone; null: nothing yet. */
  readonly held: CertificateGeneration | null;
}

export type RotationEffect =
  /** Wait until `atMs` or the next fact. */
  | { readonly kind: "wait"; readonly atMs: number; readonly reason: string }
  /** Write this state, if nobody else was quicker. */
  | { readonly kind: "save"; readonly rotation: CertificateRotation; readonly reason: string }
  /** Make a generation for these names, and save what `withGeneration` makes of it. */
  | { readonly kind: "make"; readonly names: readonly string[]; readonly reason: string };

/** One step from a state that was just read. */
export const stepCertificates = (
  rotation: CertificateRotation,
  facts: RotationFacts,
  nowMs: number,
): RotationEffect => {
  const names = facts.names.toSorted();
  switch (rotation.kind) {
    case "none":
      return facts.held !== null && isUsable(facts.held, names, nowMs)
        ? save({ kind: "steady", current: facts.held }, "the Secret is gone: what is served stays")
        : { kind: "make", names, reason: "there is no certificate yet" };
    case "steady":
      return stepSteady(rotation.current, names, nowMs);
    case "announcing":
      return stepAnnouncing(rotation, facts, nowMs);
    case "overlapping": {
      if (!isUsable(rotation.current, names, nowMs)) {
        return stepSteady(rotation.current, names, nowMs);
      }
      const atMs = rotation.switchedMs + OVERLAP_MS;
      return nowMs >= atMs
        ? save({ kind: "steady", current: rotation.current }, "every replica has switched")
        : wait(atMs, "replicas may still serve the certificate before");
    }
  }
};

/** What a new generation makes of the state. */
export const withGeneration = (
  rotation: CertificateRotation,
  made: CertificateGeneration,
  nowMs: number,
): CertificateRotation => {
  switch (rotation.kind) {
    case "none":
      return { kind: "steady", current: made };
    case "steady":
    case "announcing":
    case "overlapping": {
      const { current } = rotation;
      return isUsable(current, made.names, nowMs)
        ? { kind: "announcing", current, next: made, announcedMs: null }
        : // Nothing that works is lost by a switch at once.
          { kind: "overlapping", previous: current, current: made, switchedMs: nowMs };
    }
  }
};

/** The authorities that API servers must trust, the oldest first; null: none yet. */
export const bundleOf = (rotation: CertificateRotation): string | null => {
  switch (rotation.kind) {
    case "none":
      return null;
    case "steady":
      return rotation.current.authority;
    case "announcing":
      return rotation.current.authority + rotation.next.authority;
    case "overlapping":
      return rotation.previous.authority + rotation.current.authority;
  }
};

/** What every replica serves; null: nothing yet. */
export const servingOf = (rotation: CertificateRotation): CertificateGeneration | null =>
  rotation.kind === "none" ? null : rotation.current;

const stepSteady = (
  current: CertificateGeneration,
  names: readonly string[],
  nowMs: number,
): RotationEffect => {
  // Both names during a rename: two releases of the controller must not undo each other's work.
  const all = [...new Set([...current.names, ...names])].toSorted();
  if (!covers(current, names)) return { kind: "make", names: all, reason: "a name is missing" };
  if (nowMs >= current.notAfterMs) return { kind: "make", names, reason: "it has expired" };
  const atMs = renewalMs(current);
  return nowMs >= atMs
    ? { kind: "make", names, reason: "its renewal is due" }
    : wait(atMs, "renewal");
};

const stepAnnouncing = (
  rotation: CertificateRotation & { readonly kind: "announcing" },
  facts: RotationFacts,
  nowMs: number,
): RotationEffect => {
  const { current, next, announcedMs } = rotation;
  const names = facts.names.toSorted();
  if (!isUsable(next, names, nowMs)) return stepSteady(next, names, nowMs);
  const switched = {
    kind: "overlapping",
    previous: current,
    current: next,
    switchedMs: nowMs,
  } as const;
  if (!isUsable(current, names, nowMs))
    return save(switched, "the current certificate is of no use");
  if (!facts.isBundlePublished) {
    return announcedMs === null
      ? wait(nowMs + ANNOUNCE_MS, "webhook configurations lack the new authority")
      : save({ ...rotation, announcedMs: null }, "a webhook configuration lost the new authority");
  }
  if (announcedMs === null) {
    return save(
      { ...rotation, announcedMs: nowMs },
      "every webhook configuration has the new authority",
    );
  }
  const atMs = announcedMs + ANNOUNCE_MS;
  return nowMs >= atMs
    ? save(switched, "every API server knows the new authority")
    : wait(atMs, "API servers hear of the new authority");
};

/** Two thirds of its life: a month is left when something keeps the renewal from happening. */
const renewalMs = ({ notBeforeMs, notAfterMs }: CertificateGeneration): number =>
  notBeforeMs + Math.floor(((notAfterMs - notBeforeMs) * 2) / 3);

const covers = (generation: CertificateGeneration, names: readonly string[]): boolean =>
  names.every((name) => generation.names.includes(name));

const isUsable = (
  generation: CertificateGeneration,
  names: readonly string[],
  nowMs: number,
): boolean => covers(generation, names) && nowMs < generation.notAfterMs;

const save = (rotation: CertificateRotation, reason: string): RotationEffect => ({
  kind: "save",
  rotation,
  reason,
});

const wait = (atMs: number, reason: string): RotationEffect => ({ kind: "wait", atMs, reason });
