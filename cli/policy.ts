/** `xylem policy`: may FROM reach TO, which policy says so, and what a change of policies would change. */

import { Command } from "commander";
import { parseParty, parsePortText } from "#src/codec/policy-query-codec.ts";
import { problem, type Parsed } from "#src/model/parsed.ts";
import type { PolicyWorld } from "#src/model/policy.ts";
import { explain, type Explanation } from "#src/plan/policy/explain.ts";
import { flowPortText, partyText } from "#src/plan/policy/flow-table.ts";
import { ALL_FLOWS } from "#src/plan/policy/flows.ts";
import { addDiff } from "./policy-diff.ts";
import { readCluster } from "./policy-live.ts";
import { readManifests } from "./policy-manifests.ts";
import {
  addSources,
  endingWithBadInput,
  type PolicyOutput,
  refuse,
  type SourceFlags,
  terminal,
} from "./policy-output.ts";
import { explanationText } from "./policy-text.ts";

/** The command `policy` with its subcommands. */
export const policyCommand = (output: PolicyOutput = terminal): Command => {
  const policy = endingWithBadInput(new Command("policy")).description(
    "network policies: what they allow, why, and what a change would change",
  );
  addExplain(policy, output);
  addDiff(policy, output);
  addFlows(policy, output);
  return policy;
};

const addExplain = (policy: Command, output: PolicyOutput): void => {
  addSources(policy.command("explain"), "file or folder of manifests (repeat for more)")
    .description("say whether FROM may reach TO, and by which policy and rule, in both directions")
    .argument("<from>", "namespace/pod, namespace/label=value, an IP address or a CIDR block")
    .argument("<to>", "the same")
    .argument("<port>", "443, 53/UDP or the name of a port")
    .addHelpText("after", "\nExit code: 0 all allowed, 1 all or a part denied, 2 bad input.")
    .action(async (from: string, to: string, port: string, flags: SourceFlags) => {
      const answer = await answerQuestion({ from, to, port, flags });
      if (!answer.ok) {
        refuse(output, answer.problem);
        return;
      }
      const { value } = answer;
      output.out(flags.output === "json" ? JSON.stringify(value, null, 2) : explanationText(value));
      output.exit(value.verdict === "allowed" ? 0 : 1);
    });
};

const answerQuestion = async (question: {
  readonly from: string;
  readonly to: string;
  readonly port: string;
  readonly flags: SourceFlags;
}): Promise<Parsed<Explanation>> => {
  const from = parseParty(question.from);
  if (!from.ok) return problem(`FROM ${from.problem}`);
  const to = parseParty(question.to);
  if (!to.ok) return problem(`TO ${to.problem}`);
  const port = parsePortText(question.port);
  if (!port.ok) return problem(`PORT ${port.problem}`);
  const world = await readSource(question.flags);
  return world.ok ? explain(world.value, { from: from.value, to: to.value, ...port.value }) : world;
};

const readSource = async ({ filename, kubeconfig }: SourceFlags): Promise<Parsed<PolicyWorld>> => {
  if (filename.length > 0 === (kubeconfig !== undefined)) {
    return problem("say what to look at: -f FILE (manifests) or --kubeconfig FILE (a cluster)");
  }
  return kubeconfig === undefined ? readManifests(filename) : readCluster(kubeconfig);
};

const addFlows = (policy: Command, output: PolicyOutput): void => {
  policy
    .command("flows")
    .description("list the declared flows: who speaks to whom, on which port, and why")
    .option("--json", "print them as JSON")
    .action((flags: { readonly json?: boolean }) => {
      const lines = ALL_FLOWS.map(
        (flow) =>
          `${flow.id}: ${partyText(flow.from)} -> ${partyText(flow.to)} ${flowPortText(flow)}\n  ${flow.why}`,
      );
      output.out(flags.json === true ? JSON.stringify(ALL_FLOWS, null, 2) : lines.join("\n"));
    });
};
