/** `xylem policy diff`: whose traffic changes when policies are applied. */

import type { Command } from "commander";
import { EVERYWHERE } from "#src/codec/policy-query-codec.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { EMPTY_WORLD, type PolicyWorld } from "#src/model/policy.ts";
import { overlaidWorlds, replacedWorlds, type WorldPair } from "#src/plan/policy/world-overlay.ts";
import { diffVerdicts, type VerdictDiff } from "#src/plan/policy/verdict-diff.ts";
import { readCluster } from "./policy-live.ts";
import { readManifests } from "./policy-manifests.ts";
import { addSources, type PolicyOutput, refuse, type SourceFlags } from "./policy-output.ts";
import { diffText } from "./policy-text.ts";

interface DiffFlags extends SourceFlags {
  readonly prune?: boolean;
}

/** Adds `diff` to `xylem policy`. */
export const addDiff = (policy: Command, output: PolicyOutput): void => {
  addSources(
    policy.command("diff"),
    "what is wanted: file or folder; a second -f: what there is now",
  )
    .description(
      "say which flows would be allowed or denied that are not so now, and by which policy",
    )
    .option("--prune", "with --kubeconfig: Xylem's policies that are not wanted are removed too")
    .addHelpText(
      "after",
      "\nExit code: 0 no verdict changes, 1 some do, 2 bad input.\n" +
        "Against files the wanted policies replace all others; against a cluster they are added to its policies.",
    )
    .action(async (flags: DiffFlags) => {
      const worlds = await readWorlds(flags);
      const diff: Parsed<VerdictDiff> = worlds.ok
        ? diffVerdicts({ ...worlds.value, everywhere: EVERYWHERE })
        : worlds;
      if (!diff.ok) {
        refuse(output, diff.problem);
        return;
      }
      const { value } = diff;
      output.out(flags.output === "json" ? JSON.stringify(value, null, 2) : diffText(value));
      output.exit(value.changes.length === 0 ? 0 : 1);
    });
};

const readWorlds = async (flags: DiffFlags): Promise<Parsed<WorldPair>> => {
  const { filename, kubeconfig } = flags;
  const [wantPath, havePath, ...more] = filename;
  if (wantPath === undefined) return problem("say what is wanted: -f FILE");
  if (more.length > 0)
    return problem("-f is given more than twice: what is wanted, and what there is");
  if (havePath !== undefined && kubeconfig !== undefined) {
    return problem("compare with a second -f or with --kubeconfig, not with both");
  }
  const want = await readManifests([wantPath]);
  if (!want.ok) return want;
  const have = await readHave({ havePath, kubeconfig });
  if (!have.ok) return have;
  const pair = { have: have.value, want: want.value };
  return parsed(
    kubeconfig === undefined
      ? replacedWorlds(pair)
      : overlaidWorlds({ ...pair, prune: flags.prune === true }),
  );
};

/** Nothing to compare with is a world without policies. */
const readHave = async (from: {
  readonly havePath: string | undefined;
  readonly kubeconfig: string | undefined;
}): Promise<Parsed<PolicyWorld>> => {
  if (from.havePath !== undefined) return readManifests([from.havePath]);
  return from.kubeconfig === undefined ? parsed(EMPTY_WORLD) : readCluster(from.kubeconfig);
};
