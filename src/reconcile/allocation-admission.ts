/**
 * Judges the allocator's objects at admission. It is early news for a person, not the guarantee: that is the allocator's,
 * which decides again with a revision in its hand.
 */

import { parseNetworkBlock } from "#src/codec/network-block-codec.ts";
import { parseNetworkClaim } from "#src/codec/network-claim-codec.ts";
import { parseNetworkDomain } from "#src/codec/network-domain-codec.ts";
import { parseNetworkPool } from "#src/codec/network-pool-codec.ts";
import { parseSeedNetwork } from "#src/codec/seed-network-codec.ts";
import type { AdmissionRequest, AdmissionVerdict } from "#src/model/admission.ts";
import type { ClaimRef, NetworkClaim } from "#src/model/allocation.ts";
import { planClaim } from "#src/plan/allocation/claim-plan.ts";
import { checkSeedNetwork } from "#src/plan/allocation/seed-check.ts";
import type { AllocationFacts } from "./allocation-facts.ts";

export interface AllocationAdmissionFacts {
  /** What is known now. */
  readonly facts: AllocationFacts;
  /** Asks the API server whether a claim is gone. */
  readonly isGone: (owner: ClaimRef) => Promise<boolean>;
}

/** What is wrong with an object, worst first; warnings are told and change nothing. */
interface Judgement {
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

const GROUP_VERSION = "xylem.dev/v1alpha1/";
const UNPROCESSABLE = 422;
const FORBIDDEN = 403;
/** Of an object that is being made; its real UID comes later. */
const UID_UNKNOWN = "not-known-yet";

/**
 * Decides one request. Only what a change makes worse is refused: an object that is wrong already can be changed in
 * other fields, and be deleted.
 */
export const admitAllocation = async (
  request: AdmissionRequest,
  world: AllocationAdmissionFacts,
): Promise<AdmissionVerdict> => {
  const kind = request.kind.startsWith(GROUP_VERSION)
    ? request.kind.slice(GROUP_VERSION.length)
    : "";
  switch (request.operation) {
    case "CONNECT":
      return allowed([]);
    case "DELETE":
      return kind === "NetworkBlock" ? await admitFreeing(request.oldObject, world) : allowed([]);
    case "CREATE":
      return verdictOf(judge(kind, request.object, world.facts), null);
    case "UPDATE": {
      if (isLeaving(request.object) || hasSameSpec(request)) return allowed([]);
      const before = judge(kind, request.oldObject, world.facts);
      return verdictOf(judge(kind, request.object, world.facts), before);
    }
  }
};

const judge = (kind: string, object: unknown, facts: AllocationFacts): Judgement => {
  switch (kind) {
    case "NetworkClaim":
      return judgeClaim(object, facts);
    case "SeedNetwork":
      return judgeSeed(object, facts);
    case "NetworkPool":
      return judgeParsed(parseNetworkPool(object));
    case "NetworkBlock":
      return judgeParsed(parseNetworkBlock(withMetadata(object)));
    case "NetworkDomain":
      return judgeParsed(parseNetworkDomain(withMetadata(object)));
  }
  return FINE;
};

const FINE: Judgement = { problems: [], warnings: [] };

const judgeParsed = (read: { readonly ok: true } | { readonly ok: false; problem: string }) =>
  read.ok ? FINE : { problems: [read.problem], warnings: [] };

const judgeClaim = (object: unknown, facts: AllocationFacts): Judgement => {
  const read = parseNetworkClaim(withMetadata(object));
  if (!read.ok) return { problems: [read.problem], warnings: [] };
  const { ledger, unsynced } = facts;
  const verdict = planClaim({ claim: read.value, ledger, domain: null, unsynced });
  switch (verdict.kind) {
    case "granted":
      return FINE;
    case "waiting":
      return { problems: [], warnings: [verdict.reason] };
    case "refused":
      return { problems: [verdict.reason], warnings: [] };
  }
};

const judgeSeed = (object: unknown, facts: AllocationFacts): Judgement => {
  const read = parseSeedNetwork(object);
  if (!read.ok) return { problems: [read.problem], warnings: [] };
  const conflicts = checkSeedNetwork({
    seed: read.value,
    claims: claimsOf(facts),
    ledger: facts.ledger,
  });
  return { problems: conflicts.map(({ reason }) => reason), warnings: [] };
};

function* claimsOf(facts: AllocationFacts): Generator<NetworkClaim> {
  for (const { read } of facts.claims.values()) if (read.ok) yield read.value;
}

/** What was wrong before is only told. */
const verdictOf = (now: Judgement, before: Judgement | null): AdmissionVerdict => {
  const old = new Set(before?.problems ?? []);
  const worse = now.problems.find((problem) => !old.has(problem));
  if (worse !== undefined) return { kind: "deny", code: UNPROCESSABLE, message: worse };
  return allowed([...now.problems, ...now.warnings]);
};

/** A block is freed by the allocator when its claim is gone; whoever deletes it before takes a cluster's addresses away. */
const admitFreeing = async (
  object: unknown,
  { isGone }: AllocationAdmissionFacts,
): Promise<AdmissionVerdict> => {
  const read = parseNetworkBlock(object);
  if (!read.ok || (await isGone(read.value.owner))) return allowed([]);
  const { name, owner } = read.value;
  return {
    kind: "deny",
    code: FORBIDDEN,
    message: `NetworkBlock ${name} belongs to NetworkClaim ${owner.namespace}/${owner.name}: delete the claim, and it is freed by itself`,
  };
};

const allowed = (warnings: readonly string[]): AdmissionVerdict => ({
  kind: "allow",
  patch: [],
  warnings,
});

const isLeaving = (object: unknown): boolean =>
  typeof member(member(object, "metadata"), "deletionTimestamp") === "string";

/** API servers print fields in one order, so equal specs are equal text. */
const hasSameSpec = ({ object, oldObject }: AdmissionRequest): boolean =>
  JSON.stringify(member(object, "spec")) === JSON.stringify(member(oldObject, "spec"));

/** Fields that the API server fills in later may be missing here. */
const withMetadata = (object: unknown): unknown => {
  const metadata = member(object, "metadata");
  if (typeof object !== "object" || object === null || typeof metadata !== "object") return object;
  const standard = {
    uid: UID_UNKNOWN,
    resourceVersion: "0",
    creationTimestamp: "1970-01-01T00:00:00Z",
  };
  return { ...object, metadata: { ...standard, ...definedOnly(metadata ?? {}) } };
};

const definedOnly = (fields: object): object =>
  Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== null),
  );

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;
