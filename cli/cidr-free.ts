/** `xylem cidr free`: what is left in each pool. */

import type { Command } from "commander";
import { problem, type Parsed } from "#src/model/parsed.ts";
import type { CidrFacts } from "#src/plan/cidr-facts.ts";
import { freeSpace, vpcsOf, type FreeSpace } from "#src/plan/cidr-free.ts";
import { readSource } from "./cidr-source.ts";
import { countText, percentText } from "#src/plan/cidr-map-words.ts";
import {
  addSources,
  EXIT_FINE,
  jsonText,
  refuse,
  type CidrWorld,
  type SourceFlags,
} from "./cidr-world.ts";

interface FreeFlags extends SourceFlags {
  readonly vpc: readonly string[];
  readonly seed: readonly string[];
}

const collect = (value: string, before: readonly string[]): readonly string[] => [...before, value];

/** Adds `free` to `xylem cidr`. */
export const addFree = (cidr: Command, world: CidrWorld): void => {
  addSources(cidr.command("free"))
    .description(
      "free space of each NetworkPool for each VPC: the largest free block, and how many of each length",
    )
    .option(
      "--vpc <name>",
      "only for this VPC (repeat for more; default: every VPC that has claims)",
      collect,
      [],
    )
    .option(
      "--seed <name>",
      "only this seed's ranges are in the way (repeat for more; default: all)",
      collect,
      [],
    )
    .addHelpText(
      "after",
      `
Blocks of one VPC are in each other's way, those of different VPCs are not; ranges of seeds are in everybody's way.
"whole" counts free blocks of that length, "fit" how many there are if larger ones are cut.

Examples:
  xylem cidr free --kubeconfig seed.kubeconfig
  xylem cidr free -f seeds.yaml -f pools.yaml -f blocks.yaml --vpc vpc-a --seed eu-1

Exit code: 0 it was measured, 2 bad input.`,
    )
    .action(async (flags: FreeFlags) => {
      const source = await readSource(flags, world);
      const spaces: Parsed<readonly FreeSpace[]> = source.ok
        ? measure(source.value.facts, flags)
        : source;
      if (!spaces.ok) {
        refuse(world, spaces.problem);
        return;
      }
      const { value } = spaces;
      world.out(
        flags.output === "json" ? jsonText({ pools: value }) : value.map(spaceText).join("\n"),
      );
      world.exit(EXIT_FINE);
    });
};

const measure = (facts: CidrFacts, { vpc, seed }: FreeFlags): Parsed<readonly FreeSpace[]> => {
  if (facts.pools.length === 0)
    return problem("there is no NetworkPool: name a file that has one with -f");
  const unknown = seed.find((name) => facts.seeds.every((known) => known.name !== name));
  if (unknown !== undefined) {
    return problem(`--seed ${unknown}: there is no SeedNetwork of that name`);
  }
  const unserved = vpc.find((name) =>
    facts.pools.every(({ vpcs }) => !(vpcs?.includes(name) ?? true)),
  );
  if (unserved !== undefined) {
    return problem(
      `--vpc ${unserved}: no NetworkPool serves it (known VPCs: ${vpcsOf(facts).join(", ") || "none"})`,
    );
  }
  const value = freeSpace(facts, {
    ...(vpc.length === 0 ? {} : { vpcs: vpc }),
    ...(seed.length === 0 ? {} : { seeds: seed }),
  });
  return {
    ok: true,
    value:
      vpc.length === 0 ? value : value.filter((one) => one.vpc !== null && vpc.includes(one.vpc)),
  };
};

const spaceText = (space: FreeSpace): string => {
  const { pool, cidr, vpc, free, addresses, largest } = space;
  const whose = vpc === null ? "for a VPC that has nothing yet" : `for VPC ${vpc}`;
  const head = `NetworkPool ${pool} ${cidr} ${whose}: ${percentText(free, addresses)} free (${countText(free)} of ${countText(addresses)} addresses)`;
  if (largest === null) return `${head}\n  it is full`;
  const rows = space.lengths.map(
    ({ length, whole, fit }) =>
      `  ${`/${length}`.padStart(6)} ${String(whole).padStart(8)} ${countText(fit).padStart(12)}`,
  );
  return [head, `  largest free block: ${largest}`, "  length    whole          fit", ...rows].join(
    "\n",
  );
};
