/** Reads seeds, pools, claims and blocks for `xylem cidr`: from manifests, a running cluster, or both. */

import { parseNetworkBlock } from "#src/codec/network-block-codec.ts";
import { parseNetworkClaim } from "#src/codec/network-claim-codec.ts";
import { parseNetworkDomain } from "#src/codec/network-domain-codec.ts";
import { parseNetworkPool } from "#src/codec/network-pool-codec.ts";
import { parseSeedNetwork } from "#src/codec/seed-network-codec.ts";
import type { NetworkBlock, NetworkClaim } from "#src/model/allocation.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import type { CidrFacts } from "#src/plan/cidr-facts.ts";
import { parseObjects, readPlacedObjects, type PlacedObject } from "./policy-manifests.ts";
import { readCluster } from "./cidr-live.ts";
import { problemSentence, type CidrWorld, type SourceFlags } from "./cidr-world.ts";

/** What was read, and what of it was given in files: that is what a person asks about. */
export interface CidrSource {
  readonly facts: CidrFacts;
  /** UIDs of claims, made-up ones included. */
  readonly claimsInFiles: ReadonlySet<string>;
  readonly seedsInFiles: ReadonlySet<string>;
  /** Objects of other kinds, in files or read for `import`. */
  readonly others: readonly PlacedObject[];
}

/** `kubectl get -o yaml` of a large cluster on standard input. */
const STDIN_BYTES_MAX = 64 << 20;
/** Claims of files come after those that exist. */
const NOT_CREATED_MS = Date.UTC(2999, 0, 1);
const NOT_CREATED = "2999-01-01T00:00:00Z";
/** Claims without a namespace go where kubectl would put them. */
const NAMESPACE_STANDARD = "default";

/** Reads what -f and --kubeconfig name; an object in a file replaces the cluster's of the same name. */
export const readSource = async (
  { filename, kubeconfig }: Pick<SourceFlags, "filename" | "kubeconfig">,
  world: CidrWorld,
): Promise<Parsed<CidrSource>> => {
  if (filename.length === 0 && kubeconfig === undefined) {
    return problem(
      "say what to look at: -f FILE (manifests), --kubeconfig FILE (a cluster) or both",
    );
  }
  const inFiles = await readFiles(filename, world);
  if (!inFiles.ok) return inFiles;
  const live = kubeconfig === undefined ? parsed([]) : await readCluster(world.connect(kubeconfig));
  return live.ok ? joinSources({ inFiles: inFiles.value, live: live.value }) : live;
};

/** Reads manifests of any kind from files, folders and standard input (`-`). */
export const readFiles = async (
  paths: readonly string[],
  world: CidrWorld,
): Promise<Parsed<readonly PlacedObject[]>> => {
  const placed: PlacedObject[] = [];
  for (const path of paths) {
    const read = path === "-" ? await readStdin(world) : await readPlacedObjects([path]);
    if (!read.ok) return read;
    for (const object of read.value) placed.push(object);
  }
  return parsed(placed);
};

const readStdin = async (world: CidrWorld): Promise<Parsed<readonly PlacedObject[]>> => {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of world.stdin()) {
    bytes += chunk.length;
    if (bytes > STDIN_BYTES_MAX) {
      return problem(`standard input is larger than ${STDIN_BYTES_MAX >> 20} MiB`);
    }
    chunks.push(chunk);
  }
  return parseObjects({ file: "standard input", text: Buffer.concat(chunks).toString("utf8") });
};

/** Parses all objects of our kinds. The problem names file, document, object, field and fix. */
export const joinSources = (from: {
  readonly inFiles: readonly PlacedObject[];
  readonly live: readonly PlacedObject[];
}): Parsed<CidrSource> => {
  const files = sortByKind(from.inFiles);
  const live = sortByKind(from.live);
  const twice = givenTwice(from.inFiles);
  if (twice !== null) return problem(twice);
  const liveBlocks = parseAll([...live.of("NetworkBlock"), ...files.of("NetworkBlock")], (object) =>
    parseNetworkBlock(withDefaults(object, "uid-of-a-block")),
  );
  if (!liveBlocks.ok) return liveBlocks;
  const liveClaims = parseAll(live.of("NetworkClaim"), parseNetworkClaim);
  if (!liveClaims.ok) return liveClaims;
  const claims = parseClaims(files.of("NetworkClaim"), [...liveClaims.value], liveBlocks.value);
  if (!claims.ok) return claims;
  const seeds = parseBoth(live.of("SeedNetwork"), files.of("SeedNetwork"), parseSeedNetwork);
  if (!seeds.ok) return seeds;
  const pools = parseBoth(live.of("NetworkPool"), files.of("NetworkPool"), parseNetworkPool);
  if (!pools.ok) return pools;
  const domains = parseBoth(
    live.of("NetworkDomain"),
    files.of("NetworkDomain"),
    parseNetworkDomain,
  );
  if (!domains.ok) return domains;
  return parsed({
    facts: {
      seeds: seeds.value,
      pools: pools.value,
      domains: domains.value,
      blocks: byName(liveBlocks.value),
      claims: claims.value,
    },
    claimsInFiles: new Set(claims.value.filter(({ isInFile }) => isInFile).map(({ uid }) => uid)),
    seedsInFiles: new Set(
      files.of("SeedNetwork").flatMap(({ object }) => nameOf(object)?.name ?? []),
    ),
    others: [...live.others, ...files.others],
  });
};

const KINDS = [
  "SeedNetwork",
  "NetworkPool",
  "NetworkClaim",
  "NetworkBlock",
  "NetworkDomain",
] as const;
type Kind = (typeof KINDS)[number];

const sortByKind = (placed: readonly PlacedObject[]) => {
  const kinds = new Map<Kind, PlacedObject[]>(KINDS.map((kind) => [kind, []]));
  const others: PlacedObject[] = [];
  for (const one of placed) {
    const kind = kindOf(one.object);
    if (kind === null) others.push(one);
    else kinds.get(kind)?.push(one);
  }
  return { of: (kind: Kind): readonly PlacedObject[] => kinds.get(kind) ?? [], others };
};

/** Null: not one of our kinds. */
const kindOf = (object: unknown): Kind | null => {
  const { apiVersion, kind } = object as { apiVersion?: unknown; kind?: unknown };
  if (typeof apiVersion !== "string" || !apiVersion.startsWith("xylem.dev/")) return null;
  return KINDS.find((known) => known === kind) ?? null;
};

const metadataOf = (object: unknown): Readonly<Record<string, unknown>> => {
  const metadata =
    typeof object === "object" && object !== null && "metadata" in object ? object.metadata : null;
  return typeof metadata === "object" && metadata !== null && !Array.isArray(metadata)
    ? (metadata as Readonly<Record<string, unknown>>)
    : {};
};

const nameOf = (object: unknown): { readonly namespace: string; readonly name: string } | null => {
  const { name, namespace } = metadataOf(object);
  if (typeof name !== "string") return null;
  return { name, namespace: typeof namespace === "string" ? namespace : NAMESPACE_STANDARD };
};

const givenTwice = (placed: readonly PlacedObject[]): string | null => {
  const places = new Map<string, string>();
  for (const { object, place } of placed) {
    const [kind, name] = [kindOf(object), nameOf(object)];
    if (kind === null || name === null) continue;
    const key = kind === "NetworkClaim" ? `${name.namespace}/${name.name}` : name.name;
    const before = places.get(`${kind} ${key}`);
    if (before !== undefined) {
      return `${place}: ${kind} ${key} is in ${before} already: keep one of them`;
    }
    places.set(`${kind} ${key}`, place);
  }
  return null;
};

const parseAll = <T>(
  placed: readonly PlacedObject[],
  parse: (object: unknown) => Parsed<T>,
): Parsed<readonly T[]> => {
  const values: T[] = [];
  for (const { object, place } of placed) {
    const read = parse(object);
    if (!read.ok) return problem(`${place}: ${problemWithFix(read)}`);
    values.push(read.value);
  }
  return parsed(values);
};

/** A field's sentence has its fix already. */
const problemWithFix = (read: Parsed<unknown> & { readonly ok: false }): string =>
  read.problem.includes("; write ") ? read.problem : problemSentence(read);

const parseBoth = <T extends { readonly name: string }>(
  live: readonly PlacedObject[],
  files: readonly PlacedObject[],
  parse: (object: unknown) => Parsed<T>,
): Parsed<readonly T[]> => {
  const read = parseAll([...live, ...files], parse);
  return read.ok ? parsed(byName(read.value)) : read;
};

/** The last of a name wins, which is the file's. */
const byName = <T extends { readonly name: string }>(list: readonly T[]): readonly T[] => [
  ...new Map(list.map((one) => [one.name, one])).values(),
];

type SourcedClaim = NetworkClaim & { readonly isInFile: boolean };

/** A claim in a file may not exist yet; one that does keeps its UID, and with it what it holds. */
const parseClaims = (
  placed: readonly PlacedObject[],
  live: readonly NetworkClaim[],
  blocks: readonly NetworkBlock[],
): Parsed<readonly SourcedClaim[]> => {
  const known = new Map<string, string>();
  for (const { owner } of blocks) known.set(`${owner.namespace}/${owner.name}`, owner.uid);
  const claims = new Map<string, SourcedClaim>();
  for (const claim of live) {
    const key = `${claim.namespace}/${claim.name}`;
    known.set(key, claim.uid);
    claims.set(key, { ...claim, isInFile: false });
  }
  for (const [at, { object, place }] of placed.entries()) {
    const name = nameOf(object);
    const key = name === null ? "" : `${name.namespace}/${name.name}`;
    const read = parseNetworkClaim(withDefaults(object, known.get(key) ?? `not-created-${at}`));
    if (!read.ok) return problem(`${place}: ${problemWithFix(read)}`);
    const before = claims.get(key);
    const isNew = metadataOf(object)["creationTimestamp"] === undefined;
    const createdMs = before?.createdMs ?? (isNew ? NOT_CREATED_MS + at : read.value.createdMs);
    claims.set(key, { ...read.value, createdMs, isInFile: true });
  }
  return parsed([...claims.values()]);
};

/** Fills in what an API server would. */
export const withDefaults = (object: unknown, uid: string): unknown => {
  const metadata = metadataOf(object);
  if (metadata["name"] === undefined) return object;
  const { kind } = object as { kind?: unknown };
  return {
    ...(object as object),
    metadata: {
      uid,
      creationTimestamp: NOT_CREATED,
      ...(kind === "NetworkClaim" ? { namespace: NAMESPACE_STANDARD } : {}),
      ...metadata,
    },
  };
};
