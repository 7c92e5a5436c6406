/** `xylem cidr plan`: what claims would get, without asking for it. */

import type { Command } from "commander";
import { RANGE_KINDS, type BlockGrant } from "#src/model/allocation.ts";
import { describePlace } from "#src/plan/allocation/sentence.ts";
import { dryRun, type DryRun, type PlannedClaim } from "#src/plan/cidr-dry-run.ts";
import { readSource, type CidrSource } from "./cidr-source.ts";
import {
  addSources,
  EXIT_FINE,
  EXIT_FOUND,
  jsonText,
  refuse,
  type CidrWorld,
  type SourceFlags,
} from "./cidr-world.ts";

/** Adds `plan` to `xylem cidr`. */
export const addPlan = (cidr: Command, world: CidrWorld): void => {
  addSources(cidr.command("plan"))
    .description("dry run: what each NetworkClaim would get, or why not and what would fit")
    .addHelpText(
      "after",
      `
Claims in files are planned after those of the cluster, in the order of the files. A SeedNetwork or NetworkPool in a
file stands for the cluster's of the same name. Where a file has claims, only these are shown.

Examples:
  xylem cidr plan -f claim.yaml --kubeconfig seed.kubeconfig
  xylem cidr plan -f seeds.yaml -f pools.yaml -f claims/
  xylem cidr plan --kubeconfig seed.kubeconfig -o json    # claims of the cluster that wait, and why

Exit code: 0 every claim has or gets its ranges, 1 one does not, or a seed overlaps a claim, 2 bad input.`,
    )
    .action(async (flags: SourceFlags) => {
      const source = await readSource(flags, world);
      if (!source.ok) {
        refuse(world, source.problem);
        return;
      }
      const shown = shownOf(dryRun(source.value.facts), source.value);
      if (shown.claims.length === 0 && shown.seeds.length === 0) {
        refuse(world, "there is no NetworkClaim to plan: name a file that has one with -f");
        return;
      }
      world.out(flags.output === "json" ? jsonText(planJson(shown)) : planText(shown));
      const isFine =
        shown.seeds.length === 0 && shown.claims.every(({ verdict }) => verdict.kind === "granted");
      world.exit(isFine ? EXIT_FINE : EXIT_FOUND);
    });
};

/** What a person asked about: what is in files, where there is something in files. */
const shownOf = (run: DryRun, { claimsInFiles, seedsInFiles }: CidrSource): DryRun => {
  const isAboutFiles = claimsInFiles.size > 0 || seedsInFiles.size > 0;
  if (!isAboutFiles) return run;
  return {
    claims:
      claimsInFiles.size === 0
        ? []
        : run.claims.filter(({ claim }) => claimsInFiles.has(claim.uid)),
    seeds: run.seeds.filter(({ seed }) => seedsInFiles.has(seed.name)),
  };
};

const planText = ({ claims, seeds }: DryRun): string => {
  const counts = (["granted", "waiting", "refused"] as const).map(
    (kind) => `${claims.filter(({ verdict }) => verdict.kind === kind).length} ${kind}`,
  );
  return [
    ...seeds.flatMap(({ conflicts }) => conflicts.map(({ reason }) => `conflict: ${reason}`)),
    ...claims.map(claimText),
    `${claims.length} ${claims.length === 1 ? "claim" : "claims"}: ${counts.join(", ")}`,
  ].join("\n");
};

const claimText = ({ claim, verdict }: PlannedClaim): string => {
  const name = `NetworkClaim ${claim.namespace}/${claim.name} (VPC ${claim.vpc})`;
  switch (verdict.kind) {
    case "granted":
      return [
        `granted: ${name}`,
        ...rangeLines(verdict.held, "has it"),
        ...rangeLines(verdict.create, "new"),
        ...verdict.bridged.map(
          ({ asked, other }) =>
            `  ${asked.cidr} overlaps ${describePlace(other)}: it needs an address map or proxy mode`,
        ),
      ].join("\n");
    case "waiting":
      return [
        `waiting: ${name}`,
        `  ${verdict.reason}`,
        ...rangeLines(verdict.held, "has it"),
      ].join("\n");
    case "refused":
      return [
        `refused: ${name}`,
        `  ${verdict.reason}`,
        ...rangeLines(verdict.held, "has it"),
      ].join("\n");
  }
};

const rangeLines = (grants: readonly BlockGrant[], state: string): string[] =>
  RANGE_KINDS.flatMap((use) =>
    grants
      .filter(({ kind }) => kind === use)
      .map(({ cidr }) => `  ${use.padEnd(8)} ${cidr} (${state})`),
  );

const planJson = ({ claims, seeds }: DryRun) => ({
  claims: claims.map(({ claim, verdict }) => ({
    namespace: claim.namespace,
    name: claim.name,
    vpc: claim.vpc,
    verdict: verdict.kind,
    held: verdict.held.map(rangeJson),
    create: verdict.kind === "granted" ? verdict.create.map(rangeJson) : [],
    bridged:
      verdict.kind === "granted"
        ? verdict.bridged.map(({ asked, other }) => ({
            cidr: asked.cidr,
            overlaps: describePlace(other),
          }))
        : [],
    ...(verdict.kind === "granted" ? {} : { reason: verdict.reason }),
    ...(verdict.kind === "waiting" ? { whatWouldFit: verdict.whatWouldFit } : {}),
  })),
  seeds: seeds.map(({ seed, conflicts }) => ({
    name: seed.name,
    conflicts: conflicts.map(({ reason }) => reason),
  })),
});

const rangeJson = ({ kind, cidr }: BlockGrant) => ({ kind, cidr });
