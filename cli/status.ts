/** `xylem status`: Tunnels with their conditions, gateways by slot and agents, as the seed's API server has them. */

import { Command, Option } from "commander";
import { realClock } from "#src/host/clock.ts";
import { kubeconfigFile } from "#src/host/kube/kubeconfig.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import { openLog } from "#src/host/log.ts";
import { realRandom } from "#src/host/random.ts";
import { version } from "#src/host/version.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube } from "#src/ports/kube.ts";
import { TUNNELS } from "#src/ports/kube-resource.ts";
import { type TunnelReport, readTunnelReport, renderReports } from "./tunnel-report.ts";

interface Flags {
  readonly kubeconfig: string;
  readonly namespace?: string;
  readonly output: "json" | "table";
}

/** Where the command writes, and how it reaches the seed; tests give their own. */
export interface StatusWorld {
  readonly connect: (kubeconfig: string) => Kube;
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
}

export const EXIT_READY = 0;
export const EXIT_NOT_READY = 1;
/** Nobody could be asked: nothing is known of the tunnels. */
export const EXIT_UNKNOWN = 2;

export const statusCommand = (world: StatusWorld = realWorld): Command =>
  new Command("status")
    .description("prints the Tunnels of a seed with conditions, gateways and agents")
    .addOption(
      new Option("--kubeconfig <file>", "credentials for the seed's API server")
        .env("KUBECONFIG")
        .makeOptionMandatory(),
    )
    .option("-n, --namespace <name>", "only Tunnels of this namespace (default: all)")
    .addOption(
      new Option("-o, --output <format>", "how to print")
        .choices(["table", "json"])
        .default("table"),
    )
    .addHelpText(
      "after",
      "\nExit codes: 0 every Tunnel is Ready, 1 one is not or there is none, 2 the seed could not be asked.",
    )
    .action(async (flags: Flags) => {
      process.exitCode = await showStatus(world, flags);
    });

/** Prints and answers the exit code. */
export const showStatus = async (world: StatusWorld, flags: Flags): Promise<number> => {
  const { namespace } = flags;
  const kube = world.connect(flags.kubeconfig);
  let reports: readonly TunnelReport[];
  try {
    const objects = await kube.list(TUNNELS, namespace === undefined ? {} : { namespace });
    reports = objects.map(readTunnelReport);
  } catch (error) {
    if (!isHostError(error)) throw error;
    world.complain(`xylem: ${error.message}\n`);
    return EXIT_UNKNOWN;
  } finally {
    kube.close();
  }
  if (flags.output === "json") world.print(`${JSON.stringify({ tunnels: reports }, null, 2)}\n`);
  else world.print(renderReports(reports));
  if (reports.length === 0) {
    const where = namespace === undefined ? "this seed" : `namespace ${namespace}`;
    world.complain(`xylem: there is no Tunnel in ${where}\n`);
  }
  return reports.length > 0 && reports.every(({ isReady }) => isReady)
    ? EXIT_READY
    : EXIT_NOT_READY;
};

const realWorld: StatusWorld = {
  connect: (kubeconfig) =>
    connectKube({
      credentials: kubeconfigFile(kubeconfig),
      clock: realClock,
      random: realRandom,
      log: openLog({
        level: "error",
        name: "xylem",
        write: (line) => process.stderr.write(line),
      }),
      userAgent: `xylem/${version}`,
    }),
  print: (text) => process.stdout.write(text),
  complain: (text) => process.stderr.write(text),
};
