/** The 32-bit index in WireGuard's datagrams, as Xylem fills it: agent id 16 | slot 8 | session 8. */

import { parseAgentId, type AgentId } from "./agent-id.ts";
import type { Brand } from "./brand.ts";
import type { Slot } from "./slot.ts";

/** An unsigned 32-bit number. */
export type SessionIndex = Brand<number, "SessionIndex">;

export interface SessionIndexParts {
  readonly agentId: AgentId;
  readonly slot: Slot;
  /** Which session of the pair, 0 to 255. */
  readonly session: number;
}

export const packSessionIndex = ({ agentId, slot, session }: SessionIndexParts): SessionIndex =>
  ((agentId * 0x10000 + slot * 0x100 + (session & 0xff)) >>> 0) as SessionIndex;

/** Null: the agent id is 0, so the index is a foreign one. */
export const unpackSessionIndex = (index: number): SessionIndexParts | null => {
  const agentId = parseAgentId((index >>> 16) & 0xffff);
  if (!agentId.ok) return null;
  return { agentId: agentId.value, slot: ((index >>> 8) & 0xff) as Slot, session: index & 0xff };
};
