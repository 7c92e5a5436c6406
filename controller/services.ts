/** Opens what the controller is made of, as its command line says: Tunnels' loops, injector, allocator, metrics. */

import { hostname } from "node:os";
import { realClock } from "#src/host/clock.ts";
import { countKube } from "#src/host/kube/counted-kube.ts";
import type { CredentialsSource } from "#src/host/kube/credentials.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import { realRandom } from "#src/host/random.ts";
import { version } from "#src/host/version.ts";
import type { Kube } from "#src/ports/kube.ts";
import { VALIDATING_WEBHOOKS } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import {
  ALLOCATOR_PATH,
  type AllocatorService,
  startAllocatorService,
} from "./allocator-service.ts";
import type { AllocatorSettings } from "./allocator-options.ts";
import type { ControllerConfig } from "./config.ts";
import { Controller } from "./controller.ts";
import { type InjectorService, startInjectorService } from "./injector-service.ts";
import { type CountedCluster, createControllerMetrics } from "./metrics.ts";

/** Everything starts to work at once. */
export const openServices = (config: ControllerConfig, log: Log) => {
  const userAgent = `xylem-controller/${version}`;
  const common = { clock: realClock, random: realRandom, log, userAgent };
  const metrics = createControllerMetrics({
    tunnels: () => controller.tunnels(),
    isReady: () => problem() === null,
    registries: () => [injector, allocator].flatMap((service) => service?.registry ?? []),
  });
  const connect = (cluster: CountedCluster, credentials: CredentialsSource): Kube =>
    countKube(connectKube({ ...common, credentials }), metrics.calls(cluster));
  const seed = connect("seed", config.seedCredentials);
  const controller: Controller = new Controller({
    ...common,
    seed,
    openShoot: (tunnel) => connect("shoot", config.shootCredentials(tunnel)),
    namespace: config.namespace,
    tunnel: config.tunnel,
    seedNetwork: config.seedNetwork,
    policies: config.policies,
    onPass: metrics.onPass,
    ...(config.injector === null ? {} : { audit: (tunnel) => injector?.audit(tunnel) ?? null }),
  });
  const allocator: AllocatorService | null =
    config.allocator === null || config.once
      ? null
      : startAllocatorService({
          ...common,
          kube: seed,
          settings: settingsOf(config.allocator, config.injector),
          version,
        });
  const injector: InjectorService | null =
    config.injector === null || config.once
      ? null
      : startInjectorService({
          ...common,
          kube: seed,
          settings: config.injector,
          instance: hostname(),
          onAudit: () => {
            controller.trigger("audit");
          },
          ...allocatorWebhook(config, allocator),
        });
  const problem = (): string | null =>
    controller.problem() ?? injector?.problem() ?? allocator?.problem() ?? null;
  const status = (): object => ({
    ...controller.status(),
    injector: injector?.status() ?? null,
    allocator: allocator?.status() ?? null,
  });
  const close = async (): Promise<void> => {
    // The webhook first: it answers until API servers have turned away.
    await injector?.stop();
    await allocator?.stop();
    await controller.stop();
    seed.close();
  };
  return { controller, metrics, problem, status, close };
};

/** One server is enough: where there is an injector, its server has the allocator's webhook too. */
const settingsOf = (
  allocator: AllocatorSettings,
  injector: ControllerConfig["injector"],
): AllocatorSettings => ({ ...allocator, webhook: injector === null ? allocator.webhook : null });

const allocatorWebhook = (config: ControllerConfig, allocator: AllocatorService | null) =>
  config.allocator === null || allocator === null
    ? {}
    : {
        routes: { [ALLOCATOR_PATH]: allocator.review },
        targets: [{ resource: VALIDATING_WEBHOOKS, name: config.allocator.configuration }],
      };
