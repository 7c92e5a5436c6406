/** The injector's part of the controller's command line: off unless an image is given, refused at start when wrong (I38). */

import type { Command } from "commander";
import { wholeNumber } from "#src/host/options.ts";
import type { InjectionConfig } from "#src/model/injection.ts";
import { parseInjectionOptions } from "#src/model/injection-config.ts";
import { type Parsed, parsed } from "#src/model/parsed.ts";
import { readWebhookOptions, type WebhookFlags } from "./webhook-options.ts";

/** What commander makes of the flags below. */
export interface InjectorFlags extends WebhookFlags {
  readonly gatewayImage?: string;
  readonly gatewayPullPolicy?: string;
  readonly gatewayCpuRequest?: string;
  readonly gatewayMemoryRequest?: string;
  readonly gatewayCpuLimit?: string;
  readonly gatewayMemoryLimit?: string;
  readonly gatewayStatusPort?: number;
  readonly gatewayLogLevel?: string;
  readonly podSecurityDefault?: string;
  readonly webhookConfiguration: string;
  readonly recreateStalePods?: boolean;
}

export interface InjectorSettings {
  readonly config: InjectionConfig;
  readonly address: string;
  readonly port: number;
  /** Name of the Service in the controller's namespace that API servers call. */
  readonly service: string;
  /** Name of the MutatingWebhookConfiguration. */
  readonly configuration: string;
  readonly mayRecreate: boolean;
}

/** Adds the flags. */
export const addInjectorOptions = (command: Command): Command => {
  const port = wholeNumber({ from: 0, to: 65_535 });
  return command
    .option("--gateway-image <image>", "image of the gateway; without it nothing is injected")
    .option("--gateway-pull-policy <policy>", "Always, IfNotPresent or Never")
    .option("--gateway-cpu-request <quantity>", "what a gateway asks of its node, e.g. 10m")
    .option("--gateway-memory-request <quantity>", "what a gateway asks of its node, e.g. 64Mi")
    .option(
      "--gateway-cpu-limit <quantity>",
      "throttles a gateway, and with it the API server's calls",
    )
    .option("--gateway-memory-limit <quantity>", "ends a gateway that leaks, e.g. 256Mi")
    .option("--gateway-status-port <port>", "port of a gateway's probes and metrics", port)
    .option("--gateway-log-level <level>", "debug, info, warn or error")
    .option("--pod-security-default <level>", "Pod Security level of namespaces without a label")
    .option("--own-namespace <name>", "namespace of this controller; nothing is injected there")
    .option("--webhook-address <ip>", "where the webhook listens", "::")
    .option("--webhook-port <port>", "port of it", port, 9449)
    .option("--webhook-service <name>", "Service that API servers call", "xylem-webhook")
    .option(
      "--webhook-configuration <name>",
      "MutatingWebhookConfiguration to keep trusted",
      "xylem-injector",
    )
    .option("--recreate-stale-pods", "delete pods with a missing or outdated gateway, one by one");
};

/** Reads the flags; null: the injector is off. */
export const readInjectorOptions = (
  flags: InjectorFlags,
  env: Readonly<Record<string, string | undefined>>,
): Parsed<InjectorSettings | null> => {
  if (flags.gatewayImage === undefined) return parsed(null);
  const config = parseInjectionOptions({
    image: flags.gatewayImage,
    imagePullPolicy: flags.gatewayPullPolicy,
    ownNamespace: flags.ownNamespace ?? env["POD_NAMESPACE"],
    cpuRequest: flags.gatewayCpuRequest,
    memoryRequest: flags.gatewayMemoryRequest,
    cpuLimit: flags.gatewayCpuLimit,
    memoryLimit: flags.gatewayMemoryLimit,
    statusPort: flags.gatewayStatusPort,
    logLevel: flags.gatewayLogLevel,
    podSecurityDefault: flags.podSecurityDefault,
  });
  if (!config.ok) return config;
  const webhook = readWebhookOptions(flags, env);
  if (!webhook.ok) return webhook;
  const { address, port, service } = webhook.value;
  return parsed({
    config: config.value,
    address,
    port,
    service,
    configuration: flags.webhookConfiguration,
    mayRecreate: flags.recreateStalePods ?? false,
  });
};
