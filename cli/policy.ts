/** `xylem policy`: may FROM reach TO, which policy says so, and what a change of policies would change. */

import { type Command, Option } from "commander";
import { parseParty, parsePortText } from "#src/codec/policy-query-codec.ts";
import { problem, type Parsed } from "#src/model/parsed.ts";
import type { PolicyWorld } from "#src/model/policy.ts";
import { explain, type Explanation } from "#src/plan/policy/explain.ts";
import { readCluster } from "./policy-live.ts";
import { readManifests } from "./policy-manifests.ts";
import { explanationText } from "./policy-text.ts";

/** Exit codes of `explain` and `diff`; other ends of the program are commander's. */
const EXIT_BAD_INPUT = 2;

interface SourceFlags {
  readonly filename: readonly string[];
  readonly kubeconfig?: string;
  readonly output: "text" | "json";
}

/** Where answers go; a test has its own. */
export interface PolicyOutput {
  readonly out: (text: string) => void;
  readonly error: (text: string) => void;
  readonly exit: (code: number) => void;
}

const terminal: PolicyOutput = {
  out: (text) => void process.stdout.write(`${text}\n`),
  error: (text) => void process.stderr.write(`${text}\n`),
  exit: (code) => {
    process.exitCode = code;
  },
};

/** Adds `policy` and its subcommands to a program. */
export const addPolicyCommand = (program: Command, output: PolicyOutput = terminal): void => {
  const policy = program
    .command("policy")
    .description("network policies: what they allow, why, and what a change would change");
  addExplain(policy, output);
};

const addSources = (command: Command): Command =>
  command
    .option(
      "-f, --filename <path>",
      "file or folder of manifests (repeat for more)",
      (path: string, before: readonly string[]) => [...before, path],
      [],
    )
    .option("--kubeconfig <file>", "ask the cluster of this kubeconfig")
    .addOption(
      new Option("-o, --output <format>", "how to print").choices(["text", "json"]).default("text"),
    );

const addExplain = (policy: Command, output: PolicyOutput): void => {
  addSources(policy.command("explain"))
    .description("say whether FROM may reach TO, and by which policy and rule, in both directions")
    .argument("<from>", "namespace/pod, namespace/label=value, an IP address or a CIDR block")
    .argument("<to>", "the same")
    .argument("<port>", "443, 53/UDP or the name of a port")
    .addHelpText("after", "\nExit code: 0 all allowed, 1 all or a part denied, 2 bad input.")
    .action(async (from: string, to: string, port: string, flags: SourceFlags) => {
      const answer = await answerQuestion({ from, to, port, flags });
      if (!answer.ok) {
        output.error(answer.problem);
        output.exit(EXIT_BAD_INPUT);
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
