/** Reads manifests for `xylem policy`: files or folders, several YAML documents each, lists taken apart. */

import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { isAlias, LineCounter, parseAllDocuments, visit } from "yaml";
import type { Parsed } from "#src/model/parsed.ts";
import { parsed, problem } from "#src/model/parsed.ts";
import type { PolicyWorld } from "#src/model/policy.ts";
import { readWorld } from "#src/codec/policy-world-codec.ts";

/** A whole cluster's dump may be large; more is a mistake. */
const FILE_BYTES_MAX = 64 << 20;
const FILES_MAX = 10_000;
/** Stands against documents that grow while their aliases are filled in. */
const ALIASES_MAX = 100;

/** An object and where it was read. */
export interface PlacedObject {
  readonly object: unknown;
  /** E.g. `net.yaml, document 2`. */
  readonly place: string;
}

/** Reads all objects of files and folders into a world. The problem names file, document and field. */
export const readManifests = async (paths: readonly string[]): Promise<Parsed<PolicyWorld>> => {
  const read = await readPlacedObjects(paths);
  if (!read.ok) return read;
  const placed = read.value;
  const objects = placed.map(({ object }) => object);
  // A dump of a cluster holds workloads and their pods: the pods are the better witnesses.
  const withTemplates = !objects.some((object) => isKind(object, "Pod"));
  const world = readWorld(objects, { withTemplates });
  if (world.ok) return world;
  return problem(`${placed[world.at]?.place ?? "manifests"}: ${world.problem}`);
};

/** Reads all objects of files and folders. The problem names file, document and line. */
export const readPlacedObjects = async (
  paths: readonly string[],
): Promise<Parsed<readonly PlacedObject[]>> => {
  const placed: PlacedObject[] = [];
  for (const path of paths) {
    const files = await filesOf(path);
    if (!files.ok) return files;
    for (const file of files.value) {
      const objects = await readObjects(file);
      if (!objects.ok) return objects;
      placed.push(...objects.value);
    }
  }
  return parsed(placed);
};

const isKind = (object: unknown, kind: string): boolean =>
  typeof object === "object" && object !== null && "kind" in object && object.kind === kind;

/** The file itself, or the YAML and JSON files of a folder and the folders in it, by name. */
const filesOf = async (path: string): Promise<Parsed<readonly string[]>> => {
  try {
    if (!(await stat(path)).isDirectory()) return parsed([path]);
    const entries = await readdir(path, { recursive: true, withFileTypes: true });
    const files = entries
      .filter((entry) => entry.isFile() && /\.(ya?ml|json)$/.test(entry.name))
      .map((entry) => join(entry.parentPath, entry.name))
      .toSorted();
    if (files.length === 0) return problem(`${path}: there is no .yaml, .yml or .json file in it`);
    return files.length > FILES_MAX
      ? problem(`${path}: there are ${files.length} files in it, at most ${FILES_MAX} are read`)
      : parsed(files);
  } catch (error) {
    return problem(`${path}: it can't be read (${codeOf(error)})`);
  }
};

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : "unknown reason";

const readObjects = async (file: string): Promise<Parsed<readonly PlacedObject[]>> => {
  let text: string;
  try {
    if ((await stat(file)).size > FILE_BYTES_MAX) {
      return problem(`${file}: it is larger than ${FILE_BYTES_MAX >> 20} MiB`);
    }
    text = await readFile(file, "utf8");
  } catch (error) {
    return problem(`${file}: it can't be read (${codeOf(error)})`);
  }
  return parseObjects({ file, text });
};

/** Reads the documents of one text. */
export const parseObjects = (source: {
  readonly file: string;
  readonly text: string;
}): Parsed<readonly PlacedObject[]> => {
  const lines = new LineCounter();
  const documents = parseAllDocuments(source.text, { lineCounter: lines, uniqueKeys: true });
  const placed: PlacedObject[] = [];
  if (!Array.isArray(documents)) return parsed(placed);
  for (const [at, document] of documents.entries()) {
    const place = `${source.file}, document ${at + 1}`;
    const [error] = document.errors;
    if (error !== undefined) {
      const where = error.linePos?.[0];
      const line = where === undefined ? "" : `, line ${where.line}`;
      return problem(`${place}${line}: it is no YAML (${error.code})`);
    }
    let aliases = 0;
    visit(document, {
      Alias: (_, node) => {
        if (isAlias(node)) aliases += 1;
      },
    });
    if (aliases > ALIASES_MAX) return problem(`${place}: it has more than ${ALIASES_MAX} aliases`);
    const objects = unpacked(document.toJS({ maxAliasCount: ALIASES_MAX }), place);
    if (!objects.ok) return objects;
    placed.push(...objects.value);
  }
  return parsed(placed);
};

/** A `List` is its items; an empty document is nothing. */
const unpacked = (value: unknown, place: string): Parsed<readonly PlacedObject[]> => {
  if (value === null || value === undefined) return parsed([]);
  if (typeof value !== "object" || Array.isArray(value)) {
    return problem(`${place}: it is no Kubernetes object`);
  }
  const { apiVersion, kind } = value as { apiVersion?: unknown; kind?: unknown };
  if (typeof apiVersion !== "string" || typeof kind !== "string") {
    return problem(`${place}: apiVersion or kind is missing, so it is no Kubernetes object`);
  }
  if (!kind.endsWith("List") || !("items" in value)) return parsed([{ object: value, place }]);
  if (!Array.isArray(value.items)) return problem(`${place}: items must be a list`);
  const item = (object: unknown): unknown =>
    // Items of a typed list may leave out what the list's kind says.
    typeof object === "object" && object !== null && !("kind" in object) && kind !== "List"
      ? { apiVersion, kind: kind.slice(0, -"List".length), ...object }
      : object;
  return parsed(
    value.items.map((object: unknown, at) => ({
      object: item(object),
      place: `${place}, items[${at}]`,
    })),
  );
};
