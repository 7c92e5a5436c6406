/** The gateway's command line: flags, defaults and their checks. */

import { Command } from "commander";
import { addTunnelEndOptions, type TunnelEndOptions, wholeNumber } from "#src/host/options.ts";

export interface GatewayConfig extends TunnelEndOptions {
  /** Null: the service account of the pod. */
  readonly seedKubeconfig: string | null;
  readonly shootKubeconfig: string;
  readonly namespace: string;
  readonly tunnel: string;
  /** Who holds the slot: the pod's UID, or a name that no other gateway of the tunnel has. */
  readonly identity: string;
  /** Keeps the slot over restarts of the container; null: nothing is remembered. */
  readonly stateDir: string | null;
  readonly paths: number;
  /** Label selector of the pods that Prometheus is told of; null: none. */
  readonly discoverPods: string | null;
}

type Flags = Omit<GatewayConfig, "seedKubeconfig" | "stateDir" | "discoverPods"> & {
  discoverPods?: string;
  seedKubeconfig?: string;
  stateDir?: string;
};

/** Reads argv (without node and script). Prints help or the error and exits as commander does. */
export const readGatewayConfig = (argv: readonly string[], version: string): GatewayConfig => {
  const command = new Command("xylem-gateway")
    .description(
      "Connects the API server or Prometheus of this pod to the nodes, pods and services of its shoot.",
    )
    .version(version)
    .requiredOption("--namespace <name>", "namespace of the Tunnel in the seed")
    .requiredOption("--tunnel <name>", "name of the Tunnel")
    .requiredOption(
      "--identity <id>",
      "who holds the slot: the pod's UID, or any name unique in the tunnel",
    )
    .requiredOption("--shoot-kubeconfig <file>", "credentials for the shoot's API server")
    .option(
      "--seed-kubeconfig <file>",
      "credentials for the seed's API server (default: the pod's service account)",
    )
    .option("--state-dir <dir>", "remembers the slot over restarts of the container")
    .option(
      "--paths <count>",
      "UDP sockets towards the balancer",
      wholeNumber({ from: 1, to: 8 }),
      4,
    )
    .option(
      "--discover-pods <selector>",
      "serve /discovery/pods to Prometheus: running pods with these labels, e.g. app=web (needs the right to list pods)",
    );
  addTunnelEndOptions(command, 9446);
  const flags = command.parse([...argv], { from: "user" }).opts<Flags>();
  return {
    ...flags,
    seedKubeconfig: flags.seedKubeconfig ?? null,
    stateDir: flags.stateDir ?? null,
    discoverPods: flags.discoverPods ?? null,
  };
};
