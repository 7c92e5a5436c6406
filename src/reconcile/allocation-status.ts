/** The status of a NetworkClaim: what it has, and in one condition why it has no more (docs/objects.md). */

import { claimStatusRanges } from "#src/codec/network-claim-codec.ts";
import type { BlockGrant } from "#src/model/allocation.ts";
import { formatTimestamp } from "#src/model/timestamp.ts";
import type { ClaimVerdict } from "#src/plan/allocation/claim-plan.ts";
import { explainOverlap } from "#src/plan/allocation/sentence.ts";

/** A claim whose spec can't be read gets the sentence that says why. */
export type ClaimOutcome =
  | ClaimVerdict
  | { readonly kind: "invalid"; readonly reason: string; readonly held: readonly BlockGrant[] };

const CONDITION = "Allocated";
/** How many overlaps with seeds a sentence names. */
const BRIDGED_MAX = 4;

export interface ClaimCondition {
  readonly status: "True" | "False";
  /** CamelCase word for programs. */
  readonly reason: string;
  readonly message: string;
}

/** Says an outcome in a word and a sentence; the sentence is the one that CLI, REST and webhook say. */
export const conditionOf = (outcome: ClaimOutcome): ClaimCondition => {
  switch (outcome.kind) {
    case "granted":
      return outcome.bridged.length === 0
        ? { status: "True", reason: "Allocated", message: "it has all that it asks for" }
        : { status: "True", reason: "Bridged", message: bridgedMessage(outcome.bridged) };
    case "waiting":
      return { status: "False", reason: waitReason(outcome.wait.kind), message: outcome.reason };
    case "refused":
      return {
        status: "False",
        reason: outcome.refusal.kind === "overlap" ? "Overlap" : "Changed",
        message: outcome.reason,
      };
    case "invalid":
      return { status: "False", reason: "InvalidSpec", message: outcome.reason };
  }
};

type WaitKind = (ClaimVerdict & { kind: "waiting" })["wait"]["kind"];

const waitReason = (kind: WaitKind): string => {
  switch (kind) {
    case "not-synced":
      return "NotSynced";
    case "deleting":
      return "Deleting";
    case "unknown-seed":
      return "UnknownSeed";
    case "no-pool":
      return "NoPool";
    case "no-space":
      return "NoSpace";
  }
};

const bridgedMessage = (bridged: (ClaimVerdict & { kind: "granted" })["bridged"]): string => {
  const named = bridged
    .slice(0, BRIDGED_MAX)
    .map(({ asked, other }) => explainOverlap(asked, other))
    .join("; ");
  const more = bridged.length > BRIDGED_MAX ? ` and ${bridged.length - BRIDGED_MAX} more` : "";
  return `it has all that it asks for, but ${named}${more}: an address map or proxy mode is needed there`;
};

/** All blocks that the claim has after this outcome. */
export const heldAfter = (outcome: ClaimOutcome): readonly BlockGrant[] =>
  outcome.kind === "granted" ? [...outcome.held, ...outcome.create] : outcome.held;

export interface ClaimStatusPlan {
  readonly status: object;
  /**
   * How it differs from what the object says: not at all, in its sentence alone (another range that would fit, another
   * neighbour that is named first), or in what it means.
   */
  readonly change: "none" | "words" | "meaning";
}

/** Plans the status; conditions of others stay. */
export const planClaimStatus = (facts: {
  readonly outcome: ClaimOutcome;
  readonly generation: number;
  /** The status that the object has now, as it was read. */
  readonly previous: unknown;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
}): ClaimStatusPlan => {
  const { outcome, generation, previous, nowMs } = facts;
  const wanted = conditionOf(outcome);
  const conditions = listOf(member(previous, "conditions"));
  const before = conditions.find((condition) => member(condition, "type") === CONDITION);
  const since = member(before, "lastTransitionTime");
  const isSteady = member(before, "status") === wanted.status && typeof since === "string";
  const condition = {
    type: CONDITION,
    ...wanted,
    observedGeneration: generation,
    lastTransitionTime: isSteady ? since : formatTimestamp(nowMs),
  };
  const status = {
    observedGeneration: generation,
    conditions: [...conditions.filter((one) => one !== before), condition],
    ...claimStatusRanges(heldAfter(outcome)),
  };
  const isSame = isSteady && said(previous, before) === said(status, condition);
  if (!isSame) return { status, change: "meaning" };
  return { status, change: member(before, "message") === wanted.message ? "none" : "words" };
};

/** What a status means, in an order of our own: API servers sort fields. */
const said = (status: unknown, condition: unknown): string =>
  JSON.stringify([
    ...["observedGeneration", "nodes", "pods", "services", "blocks"].map((name) =>
      member(status, name),
    ),
    ...["status", "reason", "observedGeneration"].map((name) => member(condition, name)),
  ]);

/** Names of the blocks that a status speaks of. */
export const blocksIn = (status: unknown): readonly string[] =>
  listOf(member(status, "blocks")).filter((name) => typeof name === "string");

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;
