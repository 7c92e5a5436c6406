/** The agent's command line: flags, defaults and their checks. */

import { Command } from "commander";
import { addTunnelEndOptions, type TunnelEndOptions, wholeNumber } from "#src/host/options.ts";

export interface AgentConfig extends TunnelEndOptions {
  /** Null: the service account of the pod. */
  readonly kubeconfig: string | null;
  /** Name of the Node that this agent runs on. */
  readonly node: string;
  /** File of the node's private key, made when missing; stays on the node. */
  readonly keyFile: string;
  readonly port: number;
}

/** Reads argv (without node and script). Prints help or the error and exits as commander does. */
export const readAgentConfig = (argv: readonly string[], version: string): AgentConfig => {
  const command = new Command("xylem-agent")
    .description("Ends the tunnel of the shoot's control plane on this node.")
    .version(version)
    .requiredOption("--node <name>", "name of the Node that this agent runs on")
    .option(
      "--kubeconfig <file>",
      "credentials for the API server (default: the pod's service account)",
    )
    .option(
      "--key-file <file>",
      "the node's private key, made when missing",
      "/var/lib/xylem/agent.key",
    )
    .option(
      "--port <port>",
      "UDP port that the balancer sends to",
      wholeNumber({ from: 1, to: 65_535 }),
      51_820,
    );
  addTunnelEndOptions(command, 9447);
  const flags = command
    .parse([...argv], { from: "user" })
    .opts<Omit<AgentConfig, "kubeconfig"> & { kubeconfig?: string }>();
  return { ...flags, kubeconfig: flags.kubeconfig ?? null };
};
