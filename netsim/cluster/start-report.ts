/** What `npm start` prints: lines of the main job, and what to try next. */

import type { Cluster } from "./cluster.ts";
import type { CheckResult } from "./main-job.ts";

export interface StartReport {
  readonly without: readonly CheckResult[];
  readonly through: readonly CheckResult[];
  /** From the start of the gateways to ready. */
  readonly readyMs: number;
  /** From the start of the gateways to the first kubectl exec that worked. */
  readonly firstExecMs: number;
  readonly isOk: boolean;
}

const EVIDENCE_CHARACTERS = 110;

/** One line: a mark, the name, how long it took and what was seen. */
export const resultLine = (
  { name, durationMs, outcome }: CheckResult,
  isRight: boolean,
): string => {
  const said = outcome.kind === "passed" ? outcome.evidence : outcome.error;
  const line = said.trim().split("\n").at(-1) ?? "";
  const shown =
    line.length > EVIDENCE_CHARACTERS ? `${line.slice(0, EVIDENCE_CHARACTERS - 1)}…` : line;
  const word = outcome.kind === "passed" ? "passed" : "failed";
  const mark = isRight ? "✔" : "✘";
  return `${mark} ${name.padEnd(26)} ${word} ${(durationMs / 1000).toFixed(2).padStart(6)} s  ${shown}`;
};

/** The commands that a person can try while the lab is up. */
export const invitation = ({ scripts }: Cluster): string =>
  [
    "",
    "The lab is up. In another terminal, as root:",
    `  alias k=${scripts.shoot}      # kubectl beside the shoot's API server, with the admin's kubeconfig inside`,
    "  k get nodes -o wide",
    "  k exec -it web-node2 -- sh",
    "  k logs -f talker",
    "  k top node",
    "  k get tunnelagents -n kube-system",
    `  ${scripts.seed} get tunnels -A`,
    "",
  ].join("\n");
