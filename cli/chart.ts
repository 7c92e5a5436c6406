/** One of our Helm charts as a folder: its defaults, its schema, and what its templates make of values, without Helm. */

import { readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import { parseTemplate } from "./template-parser.ts";
import { renderTemplates } from "./template-renderer.ts";
import { schemaProblems } from "./values-schema.ts";

export type ChartName = "seed" | "shoot";

export interface Chart {
  readonly appVersion: string;
  readonly defaults: unknown;
  readonly schema: unknown;
  /** Of templates/, by name. */
  readonly templates: ReadonlyMap<string, string>;
  /** All other files, by path in the chart. */
  readonly sources: ReadonlyMap<string, string>;
}

/** Beside the program's own folder, in the source tree and in dist/ alike. */
const CHARTS = fileURLToPath(new URL("../charts/", import.meta.url));

/** Reads a chart's files. */
export const openChart = async (name: ChartName): Promise<Chart> => {
  const folder = join(CHARTS, name);
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const all = await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async (entry) => {
        const path = join(entry.parentPath, entry.name);
        return [relative(folder, path), await readFile(path, "utf8")] as const;
      }),
  );
  const files = new Map(all.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  const isTemplate = (path: string): boolean => path.startsWith("templates/");
  const about: unknown = parse(files.get("Chart.yaml") ?? "");
  return {
    appVersion: String(Object(about).appVersion),
    defaults: parse(files.get("values.yaml") ?? ""),
    schema: JSON.parse(files.get("values.schema.json") ?? "{}"),
    templates: new Map(
      [...files]
        .filter(([path]) => isTemplate(path) && !path.endsWith(".txt"))
        .map(([path, text]) => [path.slice("templates/".length), text]),
    ),
    sources: new Map([...files].filter(([path]) => !isTemplate(path))),
  };
};

/** Renders the objects as YAML documents, definitions first; later values win, a problem names the value that is wrong. */
export const renderChart = (
  chart: Chart,
  options: { readonly values: readonly unknown[]; readonly namespace: string },
): Parsed<string> => {
  const values = options.values.reduce(mergeValues, chart.defaults);
  const problems = schemaProblems(chart.schema, values);
  if (problems.length > 0) return problem(problems.join("\n"));
  const files = new Map(
    [...chart.templates].map(([file, source]) => [file, parseTemplate(file, source)] as const),
  );
  const rendered = renderTemplates({
    files,
    sources: chart.sources,
    data: {
      Values: values,
      Release: { Name: "xylem", Namespace: options.namespace },
      Chart: { AppVersion: chart.appVersion },
    },
  });
  const isFirst = (file: string): boolean => file === "schemas.yaml";
  const texts = [...rendered]
    .toSorted(([a], [b]) => Number(isFirst(b)) - Number(isFirst(a)))
    .map(([, text]) => text.trim())
    .filter((text) => text !== "");
  return parsed(
    `${texts.map((text) => (text.startsWith("---") ? text : `---\n${text}`)).join("\n")}\n`,
  );
};

/** Maps are merged, everything else is replaced, null takes a default away: as Helm does it. */
const mergeValues = (defaults: unknown, given: unknown): unknown => {
  if (given === null || given === undefined) return defaults;
  if (!isMap(defaults) || !isMap(given)) return given;
  const merged = new Map(Object.entries(defaults));
  for (const [name, value] of Object.entries(given)) {
    if (value === null) merged.delete(name);
    else merged.set(name, merged.has(name) ? mergeValues(merged.get(name), value) : value);
  }
  return Object.fromEntries(merged);
};

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
