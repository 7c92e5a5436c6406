/** `xylem cidr map`: draws who has which addresses, as text and as SVG. */

import { writeFile } from "node:fs/promises";
import { Option, type Command } from "commander";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { planMap, type AddressMap } from "#src/plan/cidr-map.ts";
import { mapSvg } from "#src/plan/cidr-map-svg.ts";
import { mapText } from "#src/plan/cidr-map-text.ts";
import type { CidrFacts } from "#src/plan/cidr-facts.ts";
import { vpcsOf } from "#src/plan/cidr-free.ts";
import { readSource } from "./cidr-source.ts";
import {
  addSources,
  EXIT_FINE,
  EXIT_FOUND,
  jsonText,
  problemSentence,
  refuse,
  type CidrWorld,
  type SourceFlags,
} from "./cidr-world.ts";

interface MapFlags extends SourceFlags {
  readonly vpc?: string;
  readonly svg?: string;
  readonly width?: number;
  readonly list?: boolean;
}

/** Pictures of more are of no use, and take long. */
const BLOCKS_MAX = 20_000;

/** Adds `map` to `xylem cidr`. */
export const addMap = (cidr: Command, world: CidrWorld): void => {
  addSources(cidr.command("map"))
    .description("draw the address space: who has what, nested blocks, free space, collisions")
    .argument("[cidr...]", "more ranges to draw")
    .option(
      "--vpc <name>",
      "only this VPC's blocks, the seeds that its shoots may run on, and its pools",
    )
    .option("--svg <file>", "write an SVG picture too; - prints it instead of text")
    .option("--list", "list every block (default: up to 40)")
    .addOption(
      new Option("--width <characters>", "width of the text (default: the terminal's)").argParser(
        Number,
      ),
    )
    .addHelpText(
      "after",
      `
Examples:
  xylem cidr map --kubeconfig seed.kubeconfig --svg addresses.svg
  xylem cidr map -f seeds.yaml -f claims/ --vpc vpc-a
  xylem cidr map 10.0.0.0/16 10.0.128.0/20 10.240.0.0/16 fd00:10::/64

Exit code: 0 nothing collides, 1 something does (or would for some owners), 2 bad input.`,
    )
    .action(async (texts: readonly string[], flags: MapFlags) => {
      const map = await readMap(texts, flags, world);
      if (!map.ok) {
        refuse(world, map.problem);
        return;
      }
      const written = await showMap(map.value, flags, world);
      if (!written.ok) {
        refuse(world, written.problem);
        return;
      }
      world.exit(map.value.collisions.length === 0 ? EXIT_FINE : EXIT_FOUND);
    });
};

const NO_FACTS: CidrFacts = { seeds: [], pools: [], claims: [], blocks: [], domains: [] };

const readMap = async (
  texts: readonly string[],
  flags: MapFlags,
  world: CidrWorld,
): Promise<Parsed<AddressMap>> => {
  if (flags.width !== undefined && !(flags.width >= 1)) {
    return problem("--width must be a number of characters");
  }
  const ranges: Cidr[] = [];
  for (const text of texts) {
    const read = parseCidr(text);
    if (!read.ok) return problem(problemSentence(read));
    ranges.push(read.value);
  }
  const isPlain = flags.filename.length === 0 && flags.kubeconfig === undefined;
  if (isPlain && ranges.length === 0) {
    return problem("say what to draw: CIDRs, -f FILE (manifests) or --kubeconfig FILE (a cluster)");
  }
  const source = isPlain ? null : await readSource(flags, world);
  if (source?.ok === false) return source;
  const facts = source === null ? NO_FACTS : source.value.facts;
  const { vpc } = flags;
  const own = vpc === undefined ? facts : onlyVpc(facts, vpc);
  if (vpc !== undefined && own.claims.length + own.blocks.length === 0) {
    const known = vpcsOf(facts).join(", ") || "none";
    return problem(`--vpc ${vpc}: nobody has anything in it (known VPCs: ${known})`);
  }
  const map = planMap({ facts: own, ranges });
  if (map.items.length === 0)
    return problem("there is nothing to draw: no SeedNetwork, NetworkClaim or NetworkBlock");
  return map.blocks.length > BLOCKS_MAX
    ? problem(
        `there are ${map.blocks.length} blocks, at most ${BLOCKS_MAX} are drawn: choose one VPC with --vpc`,
      )
    : parsed(map);
};

/** What is in each other's way in one VPC. */
const onlyVpc = (facts: CidrFacts, vpc: string): CidrFacts => {
  const claims = facts.claims.filter((claim) => claim.vpc === vpc);
  const seeds = new Set(claims.flatMap((claim) => claim.seeds));
  return {
    seeds: facts.seeds.filter(({ name }) => seeds.has(name)),
    pools: facts.pools.filter(({ vpcs }) => vpcs?.includes(vpc) ?? true),
    claims,
    blocks: facts.blocks.filter((block) => block.vpc === vpc),
    domains: facts.domains.filter(({ name }) => name === vpc),
  };
};

const showMap = async (
  map: AddressMap,
  flags: MapFlags,
  world: CidrWorld,
): Promise<Parsed<null>> => {
  if (flags.svg === "-") {
    world.out(mapSvg(map));
    return parsed(null);
  }
  if (flags.svg !== undefined) {
    try {
      await writeFile(flags.svg, `${mapSvg(map)}\n`);
    } catch (error) {
      return problem(
        `${flags.svg}: it can't be written (${error instanceof Error ? error.message : "unknown reason"})`,
      );
    }
  }
  const options = { width: flags.width ?? world.columns(), listsAll: flags.list === true };
  world.out(flags.output === "json" ? jsonText(mapJson(map)) : mapText(map, options));
  return parsed(null);
};

const mapJson = ({ blocks, pools, collisions, hasMoreCollisions, items }: AddressMap) => ({
  blocks: blocks.map(({ cidr, use, isSeed, owner, holders }) => ({
    cidr,
    use,
    isSeed,
    owner,
    holders,
  })),
  pools,
  gaps: items.flatMap((item) =>
    item.kind === "gap"
      ? [{ first: item.first, last: item.last, addresses: item.addresses, pools: item.pools }]
      : [],
  ),
  collisions,
  hasMoreCollisions,
});
