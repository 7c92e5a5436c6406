/** Who has which agent id: how an agent picks its own, and which of several claims everybody believes. */

import { AGENT_ID_MAX, parseAgentId, type AgentId } from "#src/model/agent-id.ts";
import type { Finding } from "#src/model/finding.ts";
import type { PublicKey } from "#src/model/key.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { AgentClaim } from "#src/model/tunnel.ts";
import { byAge } from "./age.ts";
import { FindingList } from "./finding-list.ts";

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** FNV-1a of 32 bits over the UTF-8 of `text`. */
export const fnv1a = (text: string): number =>
  new TextEncoder()
    .encode(text)
    .reduce((hash, byte) => Math.imul(hash ^ byte, FNV_PRIME) >>> 0, FNV_OFFSET);

/** The id that a node's agent takes when nobody else has it. */
export const preferredAgentId = (nodeName: string): AgentId =>
  valueOf(parseAgentId(1 + (fnv1a(nodeName) % AGENT_ID_MAX)));

/**
 * The id for this node's agent: the one it already holds by right, else its preferred one, else the next free number.
 * When all 65,535 are taken, the preferred one (its claim then loses, which `winningClaims` reports).
 */
export const chooseAgentId = (facts: {
  readonly node: string;
  readonly claims: readonly AgentClaim[];
}): AgentId => {
  const own = facts.claims.find((claim) => claim.node === facts.node);
  if (own !== undefined) {
    const rivals = facts.claims.filter((claim) => claim.agentId === own.agentId);
    if (rivals.toSorted(byAge)[0] === own) return own.agentId;
  }
  const taken = new Set<number>(
    facts.claims.filter((claim) => claim.node !== facts.node).map((claim) => claim.agentId),
  );
  const preferred = preferredAgentId(facts.node);
  for (let step = 0; step < AGENT_ID_MAX; step++) {
    const id = ((preferred - 1 + step) % AGENT_ID_MAX) + 1;
    if (!taken.has(id)) return valueOf(parseAgentId(id));
  }
  return preferred;
};

export interface WinningClaims {
  readonly winners: ReadonlyMap<AgentId, AgentClaim>;
  /** Which claims are ignored, and why; bounded. */
  readonly losers: readonly Finding[];
}

/** Of several claims of one agent id or one public key, the older object wins, then the smaller UID. */
export const winningClaims = (claims: readonly AgentClaim[]): WinningClaims => {
  const winners = new Map<AgentId, AgentClaim>();
  const keys = new Map<PublicKey, AgentClaim>();
  const losers = new FindingList();
  for (const claim of claims.toSorted(byAge)) {
    const idHolder = winners.get(claim.agentId);
    const keyHolder = keys.get(claim.publicKey);
    if (idHolder === undefined && keyHolder === undefined) {
      winners.set(claim.agentId, claim);
      keys.set(claim.publicKey, claim);
    } else {
      losers.add(() => lostClaim({ claim, idHolder, keyHolder }));
    }
  }
  return { winners, losers: losers.all("TunnelAgents") };
};

const lostClaim = (contest: {
  readonly claim: AgentClaim;
  readonly idHolder: AgentClaim | undefined;
  readonly keyHolder: AgentClaim | undefined;
}): Finding => {
  const { claim, idHolder, keyHolder } = contest;
  const object = `TunnelAgent ${claim.node}`;
  if (keyHolder !== undefined) {
    return {
      code: "public-key-taken",
      object,
      message: `${object} has the public key of the older TunnelAgent ${keyHolder.node} and is ignored: delete the key on that node so that its agent makes a new one`,
    };
  }
  return {
    code: "agent-id-taken",
    object,
    message: `${object} claims agent id ${claim.agentId}, which the older TunnelAgent ${idHolder?.node ?? ""} holds, and is ignored until its agent picks another`,
  };
};
