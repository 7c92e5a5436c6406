/** Names of policies that say which declared flow they allow, for which tunnel. */

import type { PolicyDirection } from "#src/model/policy.ts";
import { ALL_FLOWS, type DeclaredFlow } from "./flows.ts";

const PREFIX = "xylem";

export interface FlowMark {
  readonly flow: string;
  readonly direction: PolicyDirection;
  /** The tunnel, or what else the policies are for. */
  readonly subject: string;
}

/**
 * `xylem.<flow>.<direction>.<subject>`. Injective: neither of the first three parts has a dot, so the rest is the
 * subject, dots and all.
 */
export const policyName = ({ flow, direction, subject }: FlowMark): string =>
  `${PREFIX}.${flow}.${direction}.${subject}`;

/** What `policyName` made the name of; null: it did not. */
export const flowMark = (name: string): FlowMark | null => {
  const [prefix, flow = "", direction, ...rest] = name.split(".");
  if (prefix !== PREFIX || rest.length === 0) return null;
  if (direction !== "ingress" && direction !== "egress") return null;
  return { flow, direction, subject: rest.join(".") };
};

/** The declared flow that a policy of this name allows; null: it is none of ours. */
export const flowOfPolicy = (name: string): DeclaredFlow | null => {
  const mark = flowMark(name);
  return mark === null ? null : (ALL_FLOWS.find(({ id }) => id === mark.flow) ?? null);
};

/** Why a policy of ours is there; null: it is none of ours. */
export const flowReason = (name: string): string | null => flowOfPolicy(name)?.why ?? null;
