/** `xylem manifests seed|shoot`: the charts' objects as plain manifests, for people without Helm. */

import { readFile } from "node:fs/promises";
import { Argument, Command } from "commander";
import { parse } from "yaml";
import { type ChartName, openChart, renderChart } from "./chart.ts";

interface Flags {
  readonly values?: readonly string[];
  readonly namespace: string;
}

/** Without Helm nobody understands its annotation: deleting the manifests deletes the definitions. */
const WITHOUT_HELM = { schemas: { keep: false } };

/** The subcommand. Exit code 2: the values are not valid. */
export const manifestsCommand = (): Command =>
  new Command("manifests")
    .description(
      "Prints what the Helm chart for a seed or a shoot would install, for kubectl apply.",
    )
    .addArgument(new Argument("<cluster>", "which one").choices(["seed", "shoot"]))
    .option(
      "-f, --values <file>",
      "values for the chart, YAML; repeat for more, later ones win",
      (file: string, before: readonly string[] | undefined) => [...(before ?? []), file],
    )
    .option("-n, --namespace <name>", "where the controller runs in the seed", "kube-system")
    .action(async (cluster: ChartName, flags: Flags, command: Command) => {
      const given = (flags.values ?? []).map((file) => read(file, command));
      const values = [...(await Promise.all(given)), WITHOUT_HELM];
      const chart = await openChart(cluster);
      const { namespace } = flags;
      const rendered = renderChart(chart, { values, namespace });
      if (!rendered.ok) {
        return command.error(`error: the values are not valid.\n${rendered.problem}`, {
          exitCode: 2,
        });
      }
      process.stdout.write(rendered.value);
    });

const read = async (file: string, command: Command): Promise<unknown> => {
  try {
    const values: unknown = parse(await readFile(file, "utf8"), { maxAliasCount: 100 });
    if (values === null || (typeof values === "object" && !Array.isArray(values)))
      return values ?? {};
    return command.error(`error: ${file} must be a map of values.`, { exitCode: 2 });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return command.error(`error: ${file} can't be read as YAML: ${why}`, { exitCode: 2 });
  }
};
