/** xylem-controller: makes what a Tunnel needs in the seed and in its shoot, and writes how it is. */

import { hostname } from "node:os";
import { realClock } from "#src/host/clock.ts";
import { countKube } from "#src/host/kube/counted-kube.ts";
import type { CredentialsSource } from "#src/host/kube/credentials.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import { openLog } from "#src/host/log.ts";
import { type RunningProgram, runProgram } from "#src/host/program.ts";
import { realRandom } from "#src/host/random.ts";
import { startStatusServer } from "#src/host/status/status-server.ts";
import { version } from "#src/host/version.ts";
import type { Kube } from "#src/ports/kube.ts";
import { readControllerConfig } from "./config.ts";
import { Controller } from "./controller.ts";
import { type InjectorService, startInjectorService } from "./injector-service.ts";
import { type CountedCluster, createControllerMetrics } from "./metrics.ts";
import { runOnce } from "./once.ts";

const config = readControllerConfig(process.argv.slice(2), version);
const log = openLog({ level: config.logLevel, name: "xylem-controller" });

const open = () => {
  const userAgent = `xylem-controller/${version}`;
  const common = { clock: realClock, random: realRandom, log, userAgent };
  const metrics = createControllerMetrics({
    tunnels: () => controller.tunnels(),
    isReady: () => problem() === null,
    registries: () => (injector === null ? [] : [injector.registry]),
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
    onPass: metrics.onPass,
    ...(config.injector === null ? {} : { audit: (tunnel) => injector?.audit(tunnel) ?? null }),
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
        });
  const problem = (): string | null => controller.problem() ?? injector?.problem() ?? null;
  const status = (): object => ({ ...controller.status(), injector: injector?.status() ?? null });
  const close = async (): Promise<void> => {
    // The webhook first: it answers until API servers have turned away.
    await injector?.stop();
    await controller.stop();
    seed.close();
  };
  return { controller, metrics, problem, status, close };
};

const start = async (): Promise<RunningProgram> => {
  const { metrics, problem, status, close } = open();
  const server = await startStatusServer(
    { readiness: problem, status, metrics: metrics.text },
    { address: config.statusAddress, port: config.statusPort },
  );
  log.info({ version, statusPort: server.port }, "controller started");
  return {
    stop: async () => {
      await close();
      await server.close();
    },
  };
};

if (config.once) await runOnce(log, config.seedCredentials, open());
else await runProgram(log, start);
