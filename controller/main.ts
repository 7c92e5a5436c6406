/** xylem-controller: makes what a Tunnel needs in the seed and in its shoot, and writes how it is. */

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
import { type CountedCluster, createControllerMetrics } from "./metrics.ts";
import { runOnce } from "./once.ts";

const config = readControllerConfig(process.argv.slice(2), version);
const log = openLog({ level: config.logLevel, name: "xylem-controller" });

const open = () => {
  const userAgent = `xylem-controller/${version}`;
  const common = { clock: realClock, random: realRandom, log, userAgent };
  const metrics = createControllerMetrics({
    tunnels: () => controller.tunnels(),
    isReady: () => controller.problem() === null,
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
  });
  const close = async (): Promise<void> => {
    await controller.stop();
    seed.close();
  };
  return { controller, metrics, close };
};

const start = async (): Promise<RunningProgram> => {
  const { controller, metrics, close } = open();
  const server = await startStatusServer(
    {
      readiness: () => controller.problem(),
      status: () => controller.status(),
      metrics: metrics.text,
    },
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
