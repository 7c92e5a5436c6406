/** xylem-agent: ends the tunnel of the shoot's control plane on this node. */

import { realClock } from "#src/host/clock.ts";
import { AddonDeviceFactory } from "#src/host/device/addon-device.ts";
import { NftFirewall } from "#src/host/firewall/nft-firewall.ts";
import { loadKeyFile } from "#src/host/key-file.ts";
import { credentialsFrom } from "#src/host/kube/kubeconfig.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import { openLog } from "#src/host/log.ts";
import { noting } from "#src/host/memory-relief.ts";
import { NetlinkNetwork } from "#src/host/network/netlink-network.ts";
import { runProgram, type RunningProgram } from "#src/host/program.ts";
import { realRandom } from "#src/host/random.ts";
import { publicKeyOf } from "#src/host/slot-keys.ts";
import { createMetrics } from "#src/host/status/metrics.ts";
import { startStatusServer } from "#src/host/status/status-server.ts";
import { version } from "#src/host/version.ts";
import { createEndLoop } from "#src/reconcile/end-loop.ts";
import { Agent } from "./agent.ts";
import { ClusterView } from "./cluster-view.ts";
import { readAgentConfig } from "./config.ts";

const config = readAgentConfig(process.argv.slice(2), version);
const log = openLog({ level: config.logLevel, name: "xylem-agent" });

/** First lists of a whole DaemonSet that restarts at once spread over this time (catalogue T26). */
const START_JITTER_MS = 2_000;

const start = async (): Promise<RunningProgram> => {
  const privateKey = await loadKeyFile(config.keyFile, realRandom);
  const kube = connectKube({
    credentials: credentialsFrom(config.kubeconfig, process.env),
    clock: realClock,
    random: realRandom,
    log,
    userAgent: `xylem-agent/${version}`,
    startJitterMs: START_JITTER_MS,
  });
  const trigger = (reason: string): void => void loop.trigger(reason);
  const agent = new Agent({
    config,
    version,
    ports: {
      network: new NetlinkNetwork(),
      firewall: new NftFirewall(),
      devices: new AddonDeviceFactory(),
      log,
    },
    kube,
    cluster: new ClusterView(kube, () => realClock.nowMs(), trigger),
    privateKey,
    publicKey: publicKeyOf(privateKey),
    log,
    trigger,
  });
  const metrics = createMetrics({
    stats: () => agent.stats(),
    isReady: () => agent.problem() === null,
    relay: () => null,
  });
  const loop = createEndLoop({
    name: "agent",
    pass: () => agent.reconcile(),
    clock: realClock,
    random: realRandom,
    log,
    onPass: noting(realClock, metrics.onPass),
  });
  const server = await startStatusServer(
    { readiness: () => agent.problem(), status: () => agent.status(), metrics: metrics.text },
    { address: config.statusAddress, port: config.statusPort },
  );
  log.info({ version, node: config.node, statusPort: server.port }, "agent started");
  loop.trigger("start");
  return {
    stop: async () => {
      await loop.stop();
      kube.close();
      await agent.close();
      await server.close();
    },
  };
};

await runProgram(log, start);
