/** The status of a Tunnel as the controller writes it: conditions that only move when they must (KEP-1623). */

import type { AddressMap } from "#src/model/address-map.ts";
import type { Finding } from "#src/model/finding.ts";
import type { IpAddress } from "#src/model/ip.ts";
import type { Parsed } from "#src/model/parsed.ts";
import type { Slot } from "#src/model/slot.ts";
import { formatTimestamp, parseTimestamp } from "#src/model/timestamp.ts";
import type { AgentClaim, NodeFacts, Tunnel } from "#src/model/tunnel.ts";
import { winningClaims } from "./agent-id-plan.ts";
import type { Bridging } from "./bridging.ts";
import type { AuditSummary } from "./injection/audit-plan.ts";

export type TunnelConditionType =
  | "Accepted"
  | "Published"
  | "Ready"
  | "Injected"
  | "Bridged"
  | "PoliciesApplied";

export interface TunnelCondition {
  readonly type: TunnelConditionType;
  readonly status: "True" | "False" | "Unknown";
  /** CamelCase word for programs. */
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration: number;
  readonly lastTransitionTime: string;
}

export interface GatewayStatus {
  readonly slot: Slot;
  /** Who holds the slot, as people know it. */
  readonly holder: string;
  readonly address: IpAddress;
}

export interface TunnelStatus {
  readonly observedGeneration: number;
  readonly conditions: readonly TunnelCondition[];
  readonly gateways: readonly GatewayStatus[];
  readonly agents: { readonly ready: number; readonly total: number };
  /** RFC 3339; coarse, so that a busy tunnel is no stream of writes. */
  readonly lastHandshake?: string;
  /** What is dialed instead of which addresses; left out while there is none. */
  readonly addressMaps?: readonly AddressMap[];
}

/** How far the shoot has been told of its gateways. */
export type Publication =
  | { readonly kind: "published" }
  | { readonly kind: "pending"; readonly message: string }
  | { readonly kind: "failed"; readonly message: string }
  /** The Tunnel is being deleted, and the shoot still has to be told. */
  | { readonly kind: "withdrawing"; readonly message: string };

/** The condition PoliciesApplied. */
export interface PoliciesStatus {
  readonly status: "True" | "False" | "Unknown";
  readonly reason: "Applied" | "ApplyFailed" | "FlowsClosed" | "SeedUnknown";
  readonly message: string;
}

export interface TunnelStatusFacts {
  readonly generation: number;
  readonly spec: Parsed<Tunnel>;
  readonly publication: Publication;
  readonly gateways: readonly GatewayStatus[];
  readonly agents: { readonly ready: number; readonly total: number };
  /** What the audit says of the tunnel's pods; null: nothing is injected by this controller. */
  readonly injection: AuditSummary | "not-looked-yet" | null;
  /** How seed and shoot are told apart where they overlap; null: they don't. */
  readonly bridging: Bridging | null;
  readonly maps: readonly AddressMap[];
  /** How the tunnel's NetworkPolicies are; left out: this controller keeps none. */
  readonly policies?: PoliciesStatus;
  /** Milliseconds since 1970; null: none is known. */
  readonly lastHandshakeMs: number | null;
  /** The status that the object has now, as it was read. */
  readonly previous: unknown;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
}

/** `isChanged` false: nothing needs to be written. */
export interface TunnelStatusPlan {
  readonly status: TunnelStatus;
  readonly isChanged: boolean;
}

/** Handshakes come every two minutes; finer steps would only cost writes. */
const HANDSHAKE_STEP_MS = 60_000;
/** What a bad spec means for a tunnel that works already; why it is bad is in the condition Accepted. */
const NOT_TAKEN =
  "the spec is not valid and was not taken: running gateways and agents keep the last valid one";

export const planTunnelStatus = (facts: TunnelStatusFacts): TunnelStatusPlan => {
  const lastHandshake = coarseHandshake(facts);
  const status: TunnelStatus = {
    observedGeneration: facts.generation,
    conditions: [
      accepted(facts),
      published(facts),
      ready(facts),
      ...injected(facts),
      ...bridged(facts),
      ...policiesApplied(facts),
    ].map((wanted) => dated(wanted, facts)),
    gateways: facts.gateways
      .toSorted((a, b) => a.slot - b.slot)
      .map(({ slot, holder, address }) => ({ slot, holder, address })),
    agents: { ready: facts.agents.ready, total: facts.agents.total },
    ...(lastHandshake === null ? {} : { lastHandshake }),
    ...(facts.maps.length === 0 ? {} : { addressMaps: facts.maps }),
  };
  return { status, isChanged: canonicalJson(status) !== canonicalJson(facts.previous) };
};

/** Nodes that are Ready and have a valid TunnelAgent, of all nodes. */
export const countAgents = (facts: {
  readonly nodes: readonly NodeFacts[];
  readonly claims: readonly AgentClaim[];
}): { readonly ready: number; readonly total: number; readonly findings: readonly Finding[] } => {
  const { winners, losers } = winningClaims(facts.claims);
  const claimed = new Set([...winners.values()].map(({ node }) => node));
  const ready = facts.nodes.filter(({ name, isReady }) => isReady && claimed.has(name)).length;
  return { ready, total: facts.nodes.length, findings: losers };
};

type WantedCondition = Pick<TunnelCondition, "type" | "status" | "reason" | "message">;

const accepted = ({ spec }: TunnelStatusFacts): WantedCondition =>
  spec.ok
    ? { type: "Accepted", status: "True", reason: "Valid", message: "the spec is valid" }
    : { type: "Accepted", status: "False", reason: "InvalidSpec", message: spec.problem };

const published = ({ spec, publication }: TunnelStatusFacts): WantedCondition => {
  const type = "Published";
  if (publication.kind === "withdrawing") {
    return { type, status: "Unknown", reason: "Withdrawing", message: publication.message };
  }
  if (!spec.ok) {
    return { type, status: "Unknown", reason: "NotAccepted", message: NOT_TAKEN };
  }
  switch (publication.kind) {
    case "published":
      return { type, status: "True", reason: "Published", message: "the shoot knows its gateways" };
    case "pending":
      return { type, status: "Unknown", reason: "Pending", message: publication.message };
    case "failed":
      return { type, status: "False", reason: "PublishFailed", message: publication.message };
  }
};

const ready = (facts: TunnelStatusFacts): WantedCondition => {
  const no = (reason: string, message: string): WantedCondition => ({
    type: "Ready",
    status: "False",
    reason,
    message,
  });
  if (facts.publication.kind === "withdrawing") {
    return no("Deleting", "the Tunnel is being deleted");
  }
  if (!facts.spec.ok) return no("NotAccepted", NOT_TAKEN);
  if (facts.publication.kind !== "published") {
    return no("NotPublished", "the shoot has not been told of its gateways");
  }
  if (facts.gateways.length === 0) return no("NoGateway", "no gateway holds a slot");
  if (facts.agents.ready === 0) {
    return no(
      "NoAgent",
      "no Ready node has a valid TunnelAgent: is the agents' DaemonSet running?",
    );
  }
  const message = "a gateway holds a slot and an agent is registered on a Ready node";
  return { type: "Ready", status: "True", reason: "Paired", message };
};

/** Says again what it said, while a controller that has just started has not looked at the pods yet. */
const injected = ({ injection, previous }: TunnelStatusFacts): readonly WantedCondition[] => {
  const type = "Injected";
  if (injection === null) return [];
  if (injection !== "not-looked-yet") {
    const { status, reason, message } = injection;
    return [{ type, status, reason, message }];
  }
  const before = conditionBefore(previous, type);
  const [status, reason] = [member(before, "status"), member(before, "reason")];
  const message = member(before, "message");
  if (typeof reason !== "string" || typeof message !== "string") return [];
  return [{ type, status: status === "True" ? "True" : "False", reason, message }];
};

const bridged = ({ bridging }: TunnelStatusFacts): readonly WantedCondition[] =>
  bridging === null ? [] : [{ type: "Bridged", ...bridging }];

const policiesApplied = ({ policies }: TunnelStatusFacts): readonly WantedCondition[] =>
  policies === undefined ? [] : [{ type: "PoliciesApplied", ...policies }];

/** Keeps the time of the last change of `status`; other fields may change without moving it. */
const dated = (wanted: WantedCondition, facts: TunnelStatusFacts): TunnelCondition => {
  const before = conditionBefore(facts.previous, wanted.type);
  const since = member(before, "lastTransitionTime");
  const isSame = member(before, "status") === wanted.status && parseTimestamp(since).ok;
  return {
    ...wanted,
    observedGeneration: facts.generation,
    lastTransitionTime: isSame && typeof since === "string" ? since : formatTimestamp(facts.nowMs),
  };
};

const conditionBefore = (previous: unknown, type: TunnelConditionType): unknown => {
  const conditions = member(previous, "conditions");
  return Array.isArray(conditions)
    ? conditions.find((condition) => member(condition, "type") === type)
    : undefined;
};

/** Null: none is known. Never moves back. */
const coarseHandshake = ({ previous, lastHandshakeMs }: TunnelStatusFacts): string | null => {
  const before = member(previous, "lastHandshake");
  const beforeMs = parseTimestamp(before);
  if (!beforeMs.ok || typeof before !== "string") {
    return lastHandshakeMs === null ? null : formatTimestamp(lastHandshakeMs);
  }
  if (lastHandshakeMs === null || lastHandshakeMs - beforeMs.value < HANDSHAKE_STEP_MS)
    return before;
  return formatTimestamp(lastHandshakeMs);
};

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;

/** JSON with sorted keys: the API server keeps no order. */
const canonicalJson = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  ) ?? "";
