/** xylem-gateway: connects the API server or Prometheus of this pod to the nodes, pods and services of its shoot. */

import { realClock } from "#src/host/clock.ts";
import { AddonDeviceFactory } from "#src/host/device/addon-device.ts";
import { NftFirewall } from "#src/host/firewall/nft-firewall.ts";
import { credentialsFrom, kubeconfigFile } from "#src/host/kube/kubeconfig.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import { openLog } from "#src/host/log.ts";
import { noting } from "#src/host/memory-relief.ts";
import { neededAddresses } from "#src/host/needed-addresses.ts";
import { NetlinkNetwork } from "#src/host/network/netlink-network.ts";
import { realPathProver } from "#src/host/path-proof.ts";
import { runProgram, type RunningProgram } from "#src/host/program.ts";
import { realRandom } from "#src/host/random.ts";
import { createMetrics } from "#src/host/status/metrics.ts";
import { startStatusServers } from "#src/host/status/status-server.ts";
import { strictInterfaces } from "#src/host/strict-interfaces.ts";
import { version } from "#src/host/version.ts";
import { createEndLoop } from "#src/reconcile/end-loop.ts";
import { readGatewayConfig } from "./config.ts";
import { Discovery } from "./discovery.ts";
import { Gateway } from "./gateway.ts";
import { ShootView } from "./shoot-view.ts";
import { TunnelView } from "./tunnel-view.ts";

const config = readGatewayConfig(process.argv.slice(2), version);
const log = openLog({ level: config.logLevel, name: "xylem-gateway" });

/** The API server of a shoot starts beside its gateway and is asked by a handful of them: it must not wait for us. */
const SHOOT_BACKOFF_MS_MAX = 2_000;

const common = {
  clock: realClock,
  random: realRandom,
  log,
  userAgent: `xylem-gateway/${version}`,
};

const start = async (): Promise<RunningProgram> => {
  const seedCredentials = credentialsFrom(config.seedKubeconfig, process.env);
  const shootCredentials = kubeconfigFile(config.shootKubeconfig);
  const seed = connectKube({ ...common, credentials: seedCredentials });
  const shootKube = connectKube({
    ...common,
    credentials: shootCredentials,
    backoffMsMax: SHOOT_BACKOFF_MS_MAX,
  });
  const trigger = (reason: string): void => void loop.trigger(reason);
  const tunnels = new TunnelView({ ...common, config, kube: seed, onChange: trigger });
  const shoot = new ShootView(shootKube, trigger);
  const discovery = new Discovery({ kube: shootKube, pods: config.discoverPods, tunnels, shoot });
  const gateway = new Gateway({
    config,
    ports: {
      network: new NetlinkNetwork(),
      firewall: new NftFirewall(),
      devices: new AddonDeviceFactory(),
      log,
    },
    tunnels,
    shoot,
    paths: realPathProver,
    pod: async () => ({
      needed: await neededAddresses({ credentials: [seedCredentials, shootCredentials] }),
      strictInterfaces: await strictInterfaces(config.interface),
    }),
    clock: realClock,
    log,
    trigger,
  });
  const metrics = createMetrics({
    stats: () => gateway.stats(),
    isReady: () => gateway.problem() === null,
    relay: () => gateway.relay(),
  });
  const loop = createEndLoop({
    ...common,
    name: "gateway",
    pass: (reasons) => gateway.reconcile(reasons),
    onPass: noting(realClock, metrics.onPass),
  });
  const server = await startStatusServers(
    {
      readiness: () => gateway.problem(),
      status: () => gateway.status(),
      metrics: metrics.text,
      page: (path) => discovery.page(path),
    },
    { address: config.statusAddress, port: config.statusPort },
  );
  const tunnel = `${config.namespace}/${config.tunnel}`;
  log.info({ version, tunnel, statusPort: server.port }, "gateway started");
  loop.trigger("start");
  return {
    stop: async () => {
      await loop.stop();
      discovery.stop();
      await gateway.close();
      await tunnels.close();
      for (const kube of [seed, shootKube]) kube.close();
      await server.close();
    },
  };
};

await runProgram(log, start);
