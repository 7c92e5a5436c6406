/** The 16-bit number that names an agent in its tunnel, and in every datagram's index. */

import type { Brand } from "./brand.ts";
import { parsed, problem, type Parsed } from "./parsed.ts";
import { quoted } from "./quoted.ts";

/** 1 to 65535; 0 is nobody. */
export type AgentId = Brand<number, "AgentId">;

export const AGENT_ID_MAX = 65535;

export const parseAgentId = (value: unknown): Parsed<AgentId> =>
  typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= AGENT_ID_MAX
    ? parsed(value as AgentId)
    : problem(`an agent id is a whole number from 1 to ${AGENT_ID_MAX}, found ${quoted(value)}`);
