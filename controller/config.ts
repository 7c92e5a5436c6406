/** The controller's command line: flags, defaults and their checks. */

import { join } from "node:path";
import { Command } from "commander";
import type { LogLevel } from "#src/host/log.ts";
import { addLogLevel, addStatusOptions } from "#src/host/options.ts";
import type { CredentialsSource } from "#src/host/kube/credentials.ts";
import { credentialsFrom, kubeconfigFile } from "#src/host/kube/kubeconfig.ts";
import {
  addAllocatorOptions,
  type AllocatorFlags,
  type AllocatorSettings,
  readAllocatorOptions,
} from "./allocator-options.ts";
import {
  addInjectorOptions,
  type InjectorFlags,
  type InjectorSettings,
  readInjectorOptions,
} from "./injector-options.ts";
import {
  addPolicyOptions,
  type PolicyFlags,
  type PolicySettings,
  readPolicyOptions,
} from "./policy-options.ts";

export interface ControllerConfig {
  readonly seedCredentials: CredentialsSource;
  /** Where to find a tunnel's shoot. */
  readonly shootCredentials: (tunnel: TunnelName) => CredentialsSource;
  /** Undefined: all namespaces. */
  readonly namespace: string | undefined;
  /** Undefined: all tunnels. */
  readonly tunnel: string | undefined;
  /** Which SeedNetwork this seed is; undefined: tunnels get no address maps. */
  readonly seedNetwork: string | undefined;
  /** One pass over every tunnel, then the end. */
  readonly once: boolean;
  /** Null: nothing is injected. */
  readonly injector: InjectorSettings | null;
  /** Null: no address ranges are allocated. */
  readonly allocator: AllocatorSettings | null;
  /** Null: no NetworkPolicies are kept. */
  readonly policies: PolicySettings | null;
  readonly statusAddress: string;
  readonly statusPort: number;
  readonly logLevel: LogLevel;
}

export interface TunnelName {
  readonly namespace: string;
  readonly name: string;
}

interface Flags extends InjectorFlags, AllocatorFlags, PolicyFlags {
  readonly seedKubeconfig?: string;
  readonly shootKubeconfig?: string;
  readonly shootKubeconfigDir?: string;
  readonly namespace?: string;
  readonly tunnel?: string;
  readonly seedNetwork?: string;
  readonly once?: boolean;
  readonly statusAddress: string;
  readonly statusPort: number;
  readonly logLevel: LogLevel;
}

/** Reads argv (without node and script). Prints help or the error and exits as commander does. */
export const readControllerConfig = (
  argv: readonly string[],
  version: string,
): ControllerConfig => {
  const command = new Command("xylem-controller")
    .description(
      "Watches Tunnels in the seed: makes their secrets, tells each shoot its gateways, writes their status.",
    )
    .version(version)
    .option(
      "--seed-kubeconfig <file>",
      "credentials for the seed's API server (default: the pod's service account)",
    )
    .option("--shoot-kubeconfig <file>", "credentials for the shoot of the one tunnel of --tunnel")
    .option(
      "--shoot-kubeconfig-dir <dir>",
      "folder with a kubeconfig for each tunnel's shoot: NAMESPACE.TUNNEL.kubeconfig",
    )
    .option("--namespace <name>", "only Tunnels of this namespace (default: all)")
    .option("--tunnel <name>", "only this Tunnel; needs --namespace")
    .option(
      "--seed-network <name>",
      "the SeedNetwork that says what this seed is: Tunnels whose ranges overlap it get address maps",
    )
    .option(
      "--once",
      "do one pass over every Tunnel and exit: 0 if all is as it should be, else 1",
    );
  addStatusOptions(command, 9448);
  const flags = addLogLevel(addPolicyOptions(addAllocatorOptions(addInjectorOptions(command))))
    .parse([...argv], { from: "user" })
    .opts<Flags>();
  if (flags.tunnel !== undefined && flags.namespace === undefined) {
    command.error("error: --tunnel needs --namespace, the namespace of the Tunnel.");
  }
  const { shootKubeconfig: file, shootKubeconfigDir: dir } = flags;
  if ((file === undefined) === (dir === undefined)) {
    command.error("error: give one of --shoot-kubeconfig and --shoot-kubeconfig-dir.");
  }
  if (file !== undefined && flags.tunnel === undefined) {
    command.error("error: --shoot-kubeconfig is for one shoot: name its Tunnel with --tunnel.");
  }
  const injector = readInjectorOptions(flags, process.env);
  if (!injector.ok) return command.error(`error: ${injector.problem}.`);
  const allocator = readAllocatorOptions(flags, process.env);
  if (!allocator.ok) return command.error(`error: ${allocator.problem}.`);
  const policies = readPolicyOptions(flags, process.env);
  if (!policies.ok) return command.error(`error: ${policies.problem}.`);
  return {
    seedCredentials: credentialsFrom(flags.seedKubeconfig, process.env),
    shootCredentials: (tunnel) =>
      kubeconfigFile(file ?? join(dir ?? "", `${tunnel.namespace}.${tunnel.name}.kubeconfig`)),
    namespace: flags.namespace,
    tunnel: flags.tunnel,
    seedNetwork: flags.seedNetwork,
    once: flags.once ?? false,
    injector: injector.value,
    allocator: allocator.value,
    policies: policies.value,
    statusAddress: flags.statusAddress,
    statusPort: flags.statusPort,
    logLevel: flags.logLevel,
  };
};
