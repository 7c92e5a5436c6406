/** Where the controller's webhooks are served: flags that injector and allocator share. */

import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import type { WebhookSettings } from "./webhook-service.ts";

/** What commander makes of them. */
export interface WebhookFlags {
  readonly ownNamespace?: string;
  readonly webhookAddress: string;
  readonly webhookPort: number;
  readonly webhookService: string;
}

/** Reads where webhooks are served. */
export const readWebhookOptions = (
  flags: WebhookFlags,
  env: Readonly<Record<string, string | undefined>>,
): Parsed<WebhookSettings> => {
  const ownNamespace = flags.ownNamespace ?? env["POD_NAMESPACE"];
  if (ownNamespace === undefined || !/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/u.test(ownNamespace)) {
    return problem(
      "own namespace: say in which namespace this controller runs: --own-namespace or POD_NAMESPACE",
    );
  }
  if (!/^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/u.test(flags.webhookService)) {
    return problem(`webhook service: must be the name of a Service, found ${flags.webhookService}`);
  }
  return parsed({
    ownNamespace,
    address: flags.webhookAddress,
    port: flags.webhookPort,
    service: flags.webhookService,
  });
};
