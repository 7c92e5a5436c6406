/** The allocator's part of the controller's command line: off unless asked for, refused at start when wrong. */

import type { Command } from "commander";
import { wholeNumber } from "#src/host/options.ts";
import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import { readWebhookOptions, type WebhookFlags } from "./webhook-options.ts";
import type { WebhookSettings } from "./webhook-service.ts";

/** What commander makes of the flags below, and of those that say where webhooks are served. */
export interface AllocatorFlags extends WebhookFlags {
  readonly allocator?: boolean;
  readonly allocatorWebhook?: boolean;
  readonly apiPort?: number;
  readonly apiAddress: string;
  readonly apiCertificate?: string;
  readonly apiKey?: string;
  readonly apiClientCa?: string;
  readonly allocatorConfiguration: string;
}

export interface ApiSettings {
  readonly address: string;
  readonly port: number;
  /** Paths; null: plain HTTP on loopback. */
  readonly tls: {
    readonly certificate: string;
    readonly key: string;
    readonly clientAuthority: string | null;
  } | null;
}

export interface AllocatorSettings {
  /** Null: no REST API. */
  readonly api: ApiSettings | null;
  /** Name of the ValidatingWebhookConfiguration. */
  readonly configuration: string;
  /** Where its webhook is served while there is no injector's to share; null: nowhere. */
  readonly webhook: WebhookSettings | null;
}

/** Adds the flags. */
export const addAllocatorOptions = (command: Command): Command =>
  command
    .option("--allocator", "allocate address ranges to NetworkClaims")
    .option(
      "--api-port <port>",
      "port of the allocator's REST API, 0: any; without it there is none",
      wholeNumber({ from: 0, to: 65_535 }),
    )
    .option("--api-address <ip>", "where it listens; others than loopback need TLS", "127.0.0.1")
    .option("--api-certificate <file>", "PEM certificate of the REST API, the leaf first")
    .option("--api-key <file>", "PEM key of that certificate")
    .option("--api-client-ca <file>", "PEM authority of callers' client certificates")
    .option(
      "--allocator-configuration <name>",
      "ValidatingWebhookConfiguration to keep trusted",
      "xylem-allocator",
    )
    .option(
      "--allocator-webhook",
      "serve the allocator's webhook; where the injector is on, its server does so anyway",
    );

/** Reads the flags; null: the allocator is off. */
export const readAllocatorOptions = (
  flags: AllocatorFlags,
  env: Readonly<Record<string, string | undefined>>,
): Parsed<AllocatorSettings | null> => {
  const { apiPort: port, apiAddress: address, apiClientCa, allocatorConfiguration } = flags;
  if (flags.allocator !== true) {
    if (flags.allocatorWebhook === true) return problem("--allocator-webhook needs --allocator");
    return port === undefined
      ? parsed(null)
      : problem("--api-port is the allocator's REST API: add --allocator");
  }
  const webhook = flags.allocatorWebhook === true ? readWebhookOptions(flags, env) : parsed(null);
  if (!webhook.ok) return webhook;
  const tls = tlsOf(flags);
  if (!tls.ok) return tls;
  if (apiClientCa !== undefined && tls.value === null) {
    return problem("--api-client-ca needs --api-certificate and --api-key");
  }
  return parsed({
    api: port === undefined ? null : { address, port, tls: tls.value },
    configuration: allocatorConfiguration,
    webhook: webhook.value,
  });
};

const tlsOf = (flags: AllocatorFlags): Parsed<ApiSettings["tls"]> => {
  const { apiCertificate: certificate, apiKey: key, apiClientCa } = flags;
  if (certificate === undefined && key === undefined) return parsed(null);
  if (certificate === undefined || key === undefined) {
    return problem("give both or none of --api-certificate and --api-key");
  }
  return parsed({ certificate, key, clientAuthority: apiClientCa ?? null });
};
