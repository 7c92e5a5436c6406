/** Finds what tells of existing clusters among objects, and makes Xylem's objects of it. */

import { parse as parseYaml } from "yaml";
import {
  guessFromNodes,
  parseKubeadmConfig,
  parseServiceCidr,
} from "#src/codec/import-cluster-codec.ts";
import type { ImportedRange } from "#src/codec/import-fields.ts";
import {
  parseGardenerSeed,
  parseGardenerShoot,
  type GardenerSeed,
  type GardenerShoot,
} from "#src/codec/import-gardener-codec.ts";
import { parseNode } from "#src/codec/node-codec.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import type { NodeFacts } from "#src/model/tunnel.ts";
import { claimsOf, seedNetworkOf, vpcOfNetwork, type NewObject } from "#src/plan/cidr-import.ts";
import { withDefaults } from "./cidr-source.ts";
import type { PlacedObject } from "./policy-manifests.ts";

/** What Nodes, ServiceCIDRs and kubeadm's configuration are: nothing in them says so. */
export type ClusterRole =
  | { readonly kind: "seed"; readonly name: string }
  | { readonly kind: "claim"; readonly namespace: string; readonly name: string };

export interface ImportWishes {
  readonly role: ClusterRole | null;
  /** Null: from the object. */
  readonly vpc: string | null;
  readonly seeds: readonly string[];
  /** Said by a person: these replace what is found or guessed for the same use. */
  readonly ranges: readonly ImportedRange[];
}

export interface ImportedObjects {
  readonly objects: readonly NewObject[];
  readonly notes: readonly string[];
}

/** Makes objects of everything that it understands. The problem names file, document, field and fix. */
export const importObjects = (
  placed: readonly PlacedObject[],
  wishes: ImportWishes,
): Parsed<ImportedObjects> => {
  const found = sortObjects(placed);
  if (!found.ok) return found;
  const { seeds, shoots, notes } = found.value;
  const objects: NewObject[] = seeds.map(seedNetworkOf);
  const allNotes = [...notes, ...seeds.flatMap((seed) => seed.notes)];
  for (const shoot of shoots) {
    const made = claimsOfShoot(shoot, seeds, wishes);
    if (!made.ok) return made;
    objects.push(...made.value.objects);
    allNotes.push(...made.value.notes);
  }
  const cluster = ofCluster(found.value, wishes);
  if (!cluster.ok) return cluster;
  objects.push(...cluster.value.objects);
  allNotes.push(...cluster.value.notes);
  return parsed({ objects, notes: allNotes });
};

interface FoundObjects {
  readonly seeds: readonly GardenerSeed[];
  readonly shoots: readonly GardenerShoot[];
  readonly nodes: readonly NodeFacts[];
  /** Of ServiceCIDRs and kubeadm. */
  readonly ranges: readonly ImportedRange[];
  readonly notes: readonly string[];
}

const sortObjects = (placed: readonly PlacedObject[]): Parsed<FoundObjects> => {
  const [seeds, shoots, nodes] = [[] as GardenerSeed[], [] as GardenerShoot[], [] as NodeFacts[]];
  const ranges: ImportedRange[] = [];
  const notes: string[] = [];
  const passed = new Set<string>();
  for (const { object, place } of placed) {
    const sort = kindOf(object);
    const read = readOne(sort, object);
    if (!read.ok) return problem(`${place}: ${read.problem}`);
    const { value } = read;
    switch (value.kind) {
      case "seed":
        seeds.push(value.seed);
        break;
      case "shoot":
        shoots.push(value.shoot);
        break;
      case "node":
        nodes.push(value.node);
        break;
      case "ranges":
        ranges.push(...value.ranges);
        notes.push(...value.notes);
        break;
      case "other":
        passed.add(sort);
        break;
    }
  }
  if (passed.size > 0) notes.push(`passed over: ${[...passed].toSorted().slice(0, 8).join(", ")}`);
  return parsed({ seeds, shoots, nodes, ranges, notes });
};

type ReadObject =
  | { readonly kind: "seed"; readonly seed: GardenerSeed }
  | { readonly kind: "shoot"; readonly shoot: GardenerShoot }
  | { readonly kind: "node"; readonly node: NodeFacts }
  | {
      readonly kind: "ranges";
      readonly ranges: readonly ImportedRange[];
      readonly notes: readonly string[];
    }
  | { readonly kind: "other" };

/** `group/Kind`, without the version. */
const kindOf = (object: unknown): string => {
  const { apiVersion, kind } = object as { apiVersion?: unknown; kind?: unknown };
  const group = String(apiVersion).split("/").slice(0, -1).join("/");
  return group === "" ? String(kind) : `${group}/${String(kind)}`;
};

const readOne = (sort: string, object: unknown): Parsed<ReadObject> => {
  switch (sort) {
    case "core.gardener.cloud/Seed": {
      const seed = parseGardenerSeed(object);
      return seed.ok ? parsed({ kind: "seed", seed: seed.value }) : seed;
    }
    case "core.gardener.cloud/Shoot": {
      const shoot = parseGardenerShoot(object);
      return shoot.ok ? parsed({ kind: "shoot", shoot: shoot.value }) : shoot;
    }
    case "Node": {
      const node = parseNode(withDefaults(object, "uid-of-a-node"));
      return node.ok ? parsed({ kind: "node", node: node.value }) : node;
    }
    case "networking.k8s.io/ServiceCIDR": {
      const ranges = parseServiceCidr(object);
      return ranges.ok ? parsed({ kind: "ranges", ...ranges.value }) : ranges;
    }
    case "kubeadm.k8s.io/ClusterConfiguration": {
      const ranges = parseKubeadmConfig(object);
      return ranges.ok ? parsed({ kind: "ranges", ...ranges.value }) : ranges;
    }
    case "ConfigMap":
      return readConfigMap(object);
    default:
      return parsed({ kind: "other" });
  }
};

/** kubeadm keeps its configuration as YAML in a ConfigMap. */
const readConfigMap = (object: unknown): Parsed<ReadObject> => {
  const { data } = object as { data?: unknown };
  const text =
    typeof data === "object" && data !== null && "ClusterConfiguration" in data
      ? data.ClusterConfiguration
      : null;
  if (typeof text !== "string") return parsed({ kind: "other" });
  let config: unknown;
  try {
    config = parseYaml(text, { maxAliasCount: 0 });
  } catch {
    return problem("ConfigMap: data.ClusterConfiguration is no YAML");
  }
  const ranges = parseKubeadmConfig(config);
  return ranges.ok ? parsed({ kind: "ranges", ...ranges.value }) : ranges;
};

const claimsOfShoot = (
  shoot: GardenerShoot,
  seeds: readonly GardenerSeed[],
  wishes: ImportWishes,
): Parsed<ImportedObjects> => {
  const notes = [...shoot.notes];
  const title = `Shoot ${shoot.technicalId}/${shoot.name}`;
  const ranges = [...shoot.ranges];
  const seed = seeds.find(({ name }) => name === shoot.seed);
  for (const fallback of seed?.shootDefaults ?? []) {
    if (ranges.some(({ use }) => use === fallback.use)) continue;
    ranges.push(fallback);
    notes.push(
      `${title}: it names no ${fallback.use}, so the default of Seed ${seed?.name ?? ""} is taken: ${fallback.cidr}`,
    );
  }
  if (ranges.length === 0) {
    return parsed({
      objects: [],
      notes: [...notes, `${title}: it names no ranges (is it workerless?): passed over`],
    });
  }
  const seedNames = [...new Set([...(shoot.seed === null ? [] : [shoot.seed]), ...wishes.seeds])];
  if (seedNames.length === 0) {
    return problem(`${title}: it runs on no seed yet: say where it may run with --seed NAME`);
  }
  const own = shoot.network === null ? null : vpcOfNetwork(shoot.network);
  return parsed({
    objects: claimsOf({
      namespace: shoot.technicalId,
      name: shoot.name,
      vpc: wishes.vpc ?? own ?? vpcOfNetwork(shoot.technicalId) ?? shoot.name,
      seeds: seedNames,
      ranges,
    }),
    notes,
  });
};

const ofCluster = (found: FoundObjects, wishes: ImportWishes): Parsed<ImportedObjects> => {
  const isThere = found.nodes.length > 0 || found.ranges.length > 0;
  const { role } = wishes;
  if (role === null) {
    if (!isThere) return parsed({ objects: [], notes: [] });
    if (found.seeds.length + found.shoots.length > 0) {
      const note =
        "Nodes, ServiceCIDRs and kubeadm's configuration are passed over: say what their cluster is with --as-seed NAME or --as-claim NAMESPACE/NAME";
      return parsed({ objects: [], notes: [note] });
    }
    return problem(
      "say what the cluster of these Nodes and ServiceCIDRs is: --as-seed NAME or --as-claim NAMESPACE/NAME",
    );
  }
  if (!isThere && wishes.ranges.length === 0) {
    return problem("there is no Node, ServiceCIDR or ClusterConfiguration to take ranges from");
  }
  const said = new Set(wishes.ranges.map(({ use }) => use));
  const told = [...wishes.ranges, ...found.ranges.filter(({ use }) => !said.has(use))];
  const guess = guessFromNodes(found.nodes, new Set(told.map(({ use }) => use)));
  const ranges = [
    ...new Map(
      [...told, ...guess.ranges].map((range) => [`${range.use} ${range.cidr}`, range]),
    ).values(),
  ];
  const missing = (["nodes", "pods", "services"] as const).filter((use) =>
    ranges.every((range) => range.use !== use),
  );
  const notes = [
    ...guess.notes,
    ...missing.map((use) => `nothing says which ${use} the cluster has: give --${use} CIDR`),
  ];
  if (role.kind === "seed") {
    return parsed({ objects: [seedNetworkOf({ name: role.name, ranges })], notes });
  }
  if (wishes.seeds.length === 0) {
    return problem("say on which seeds the cluster's control plane may run: --seed NAME");
  }
  const vpc = wishes.vpc ?? vpcOfNetwork(role.namespace) ?? role.name;
  return parsed({ objects: claimsOf({ ...role, vpc, seeds: wishes.seeds, ranges }), notes });
};
