/** `xylem cidr import`: SeedNetworks and NetworkClaims of clusters that exist, and where they collide. */

import type { Command } from "commander";
import { stringify } from "yaml";
import type { ImportedRange } from "#src/codec/import-fields.ts";
import { parseName } from "#src/codec/fields.ts";
import { parseNetworkClaim } from "#src/codec/network-claim-codec.ts";
import { parseSeedNetwork } from "#src/codec/seed-network-codec.ts";
import { parseVpc } from "#src/model/allocation-name.ts";
import { parseCidr } from "#src/model/cidr.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { claimPlaces, seedPlaces, type CidrFacts } from "#src/plan/cidr-facts.ts";
import type { NewObject } from "#src/plan/cidr-import.ts";
import { findCollisions } from "#src/plan/cidr-rules.ts";
import { importObjects, type ClusterRole, type ImportWishes } from "./cidr-import-objects.ts";
import { readClusterToImport } from "./cidr-live.ts";
import { joinSources, readFiles, withDefaults } from "./cidr-source.ts";
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

interface ImportFlags extends SourceFlags {
  readonly asSeed?: string;
  readonly asClaim?: string;
  readonly vpc?: string;
  readonly seed: readonly string[];
  readonly nodes: readonly string[];
  readonly pods: readonly string[];
  readonly services: readonly string[];
}

interface ImportResult {
  readonly objects: readonly NewObject[];
  readonly notes: readonly string[];
  readonly collisions: readonly string[];
}

const collect = (value: string, before: readonly string[]): readonly string[] => [...before, value];

/** Adds `import` to `xylem cidr`. */
export const addImport = (cidr: Command, world: CidrWorld): void => {
  addSources(cidr.command("import"))
    .description(
      "read existing clusters, print their SeedNetworks and NetworkClaims (adopted), and say what collides",
    )
    .option(
      "--as-seed <name>",
      "the cluster of Nodes, ServiceCIDRs and kubeadm's configuration is this seed",
    )
    .option("--as-claim <namespace/name>", "it is a shoot, to be claimed by this NetworkClaim")
    .option(
      "--vpc <name>",
      "VPC of the claims (default: the Shoot's existing network, else one of its own)",
    )
    .option("--seed <name>", "a seed that the shoots may run on (repeat for more)", collect, [])
    .option("--nodes <cidr>", "the cluster's nodes, in place of what is guessed", collect, [])
    .option("--pods <cidr>", "the cluster's pods, in place of what is found", collect, [])
    .option("--services <cidr>", "the cluster's services, in place of what is found", collect, [])
    .addHelpText(
      "after",
      `
Reads Nodes, ServiceCIDRs, kubeadm's ClusterConfiguration (also in its ConfigMap), Gardener's Seeds and Shoots, and the
SeedNetworks and NetworkClaims that there are already. YAML goes to standard output, notes and collisions to standard
error.

Examples:
  xylem cidr import --kubeconfig garden.kubeconfig > networks.yaml
  xylem cidr import --kubeconfig seed.kubeconfig --as-seed eu-1 --nodes 10.240.0.0/16
  kubectl get nodes,servicecidrs -o yaml | xylem cidr import -f - --as-claim shoot--lab--alpha/net --seed eu-1
  xylem cidr import -f seeds.yaml -f shoots/ -o json

Exit code: 0 nothing collides, 1 something does (it needs an address map or proxy mode, or must move), 2 bad input.`,
    )
    .action(async (flags: ImportFlags) => {
      const result = await runImport(flags, world);
      if (!result.ok) {
        refuse(world, result.problem);
        return;
      }
      showResult(result.value, flags, world);
      world.exit(result.value.collisions.length === 0 ? EXIT_FINE : EXIT_FOUND);
    });
};

const runImport = async (flags: ImportFlags, world: CidrWorld): Promise<Parsed<ImportResult>> => {
  const wishes = wishesOf(flags);
  if (!wishes.ok) return wishes;
  const { filename, kubeconfig } = flags;
  const isBare = filename.length === 0 && kubeconfig === undefined;
  if (isBare && wishes.value.ranges.length === 0) {
    return problem("say what to read: -f FILE (manifests), --kubeconfig FILE (a cluster) or both");
  }
  const inFiles = await readFiles(filename, world);
  if (!inFiles.ok) return inFiles;
  const live =
    kubeconfig === undefined ? parsed([]) : await readClusterToImport(world.connect(kubeconfig));
  if (!live.ok) return live;
  const source = joinSources({ inFiles: inFiles.value, live: live.value });
  if (!source.ok) return source;
  const made = importObjects(source.value.others, wishes.value);
  if (!made.ok) return made;
  if (made.value.objects.length === 0) {
    return problem("there is no Seed, Shoot, Node, ServiceCIDR or ClusterConfiguration to import");
  }
  return parsed(compare(made.value, source.value.facts));
};

const wishesOf = (flags: ImportFlags): Parsed<ImportWishes> => {
  const role = roleOf(flags);
  if (!role.ok) return role;
  const vpc = flags.vpc === undefined ? null : parseVpc(flags.vpc);
  if (vpc?.ok === false) return problem(`--vpc: ${vpc.problem}`);
  const bad = flags.seed.map(parseName).find(({ ok }) => !ok);
  if (bad?.ok === false) return problem(`--seed: ${bad.problem}`);
  const ranges: ImportedRange[] = [];
  for (const use of ["nodes", "pods", "services"] as const) {
    for (const text of flags[use]) {
      const cidr = parseCidr(text);
      if (!cidr.ok) return problem(`--${use}: ${problemSentence(cidr)}`);
      ranges.push({ use, cidr: cidr.value });
    }
  }
  if (ranges.length > 0 && role.value === null) {
    return problem(
      "--nodes, --pods and --services need --as-seed NAME or --as-claim NAMESPACE/NAME",
    );
  }
  return parsed({ role: role.value, vpc: vpc?.value ?? null, seeds: flags.seed, ranges });
};

const roleOf = ({ asSeed, asClaim }: ImportFlags): Parsed<ClusterRole | null> => {
  if (asSeed !== undefined && asClaim !== undefined) {
    return problem("--as-seed and --as-claim exclude each other: a cluster is one of the two");
  }
  if (asSeed !== undefined) {
    const name = parseName(asSeed);
    return name.ok
      ? parsed({ kind: "seed", name: name.value })
      : problem(`--as-seed: ${name.problem}`);
  }
  if (asClaim === undefined) return parsed(null);
  const [namespace, name, ...more] = asClaim.split("/");
  const [left, right] = [parseName(namespace), parseName(name)];
  return more.length > 0 || !left.ok || !right.ok
    ? problem("--as-claim must be NAMESPACE/NAME")
    : parsed({ kind: "claim", namespace: left.value, name: right.value });
};

/** Takes what was made beside what there is, and finds what collides. */
const compare = (
  made: { readonly objects: readonly NewObject[]; readonly notes: readonly string[] },
  facts: CidrFacts,
): ImportResult => {
  const [objects, notes, collisions] = [[] as NewObject[], [...made.notes], [] as string[]];
  const [seeds, claims] = [[...facts.seeds], [...facts.claims]];
  for (const [at, object] of made.objects.entries()) {
    const { namespace, name } = object.metadata;
    const isThere =
      object.kind === "SeedNetwork"
        ? facts.seeds.some((seed) => seed.name === name)
        : facts.claims.some((claim) => claim.name === name && claim.namespace === namespace);
    if (isThere) {
      const title = namespace === undefined ? name : `${namespace}/${name}`;
      notes.push(`${object.kind} ${title} is there already: it is passed over`);
      continue;
    }
    objects.push(object);
    const filled = withDefaults(object, `imported-${at}`);
    if (object.kind === "SeedNetwork") {
      const seed = parseSeedNetwork(filled);
      if (seed.ok) seeds.push(seed.value);
      else collisions.push(seed.problem);
    } else {
      const claim = parseNetworkClaim(filled);
      if (claim.ok) claims.push(claim.value);
      else collisions.push(claim.problem);
    }
  }
  const unknown = [...new Set(claims.flatMap((claim) => claim.seeds))].filter(
    (name) =>
      seeds.every((seed) => seed.name !== name) &&
      objects.every((one) => one.metadata.name !== name),
  );
  notes.push(
    ...unknown.map((name) => `SeedNetwork ${name} is not known: claims are not compared with it`),
  );
  const places = [...seeds.flatMap(seedPlaces), ...claimPlaces({ ...facts, seeds, claims })];
  const { found, isCut } = findCollisions(places, { withDepends: false });
  collisions.push(...found.map(({ sentence }) => sentence));
  if (isCut) notes.push("there are more collisions: import fewer clusters at a time");
  return { objects, notes, collisions };
};

const showResult = (result: ImportResult, flags: ImportFlags, world: CidrWorld): void => {
  if (flags.output === "json") {
    world.out(jsonText(result));
    return;
  }
  const { objects, notes, collisions } = result;
  if (objects.length > 0)
    world.out(
      objects
        .map((object) => stringify(object))
        .join("---\n")
        .trimEnd(),
    );
  for (const note of notes) world.error(`note: ${note}`);
  for (const sentence of collisions) world.error(`collision: ${sentence}`);
};
