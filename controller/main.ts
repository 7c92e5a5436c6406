/** xylem-controller: makes what a Tunnel needs in the seed and in its shoot, and writes how it is. */

import { openLog } from "#src/host/log.ts";
import { type RunningProgram, runProgram } from "#src/host/program.ts";
import { startStatusServer } from "#src/host/status/status-server.ts";
import { version } from "#src/host/version.ts";
import { readControllerConfig } from "./config.ts";
import { runOnce } from "./once.ts";
import { openServices } from "./services.ts";

const config = readControllerConfig(process.argv.slice(2), version);
const log = openLog({ level: config.logLevel, name: "xylem-controller" });

const start = async (): Promise<RunningProgram> => {
  const { metrics, problem, status, close } = openServices(config, log);
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

if (config.once) await runOnce(log, config.seedCredentials, openServices(config, log));
else await runProgram(log, start);
