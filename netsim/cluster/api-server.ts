/** One API server alone in a lab, for tests and measurements that want objects and nothing that runs. */

import { join } from "node:path";
import { openLab } from "#netsim/lab/lab.ts";
import { basicControllers, startControlPlane } from "./control-plane.ts";
import { openKeys } from "./pki.ts";
import { openPrograms } from "./programs.ts";

export interface ApiServerInside {
  /** Of an administrator; good inside of the namespace. */
  readonly kubeconfig: string;
  /** What to put before a command so that it runs beside the server. */
  readonly inside: readonly string[];
}

/** Runs `work` beside a fresh API server and removes everything afterwards; keeps evidence of a failure. */
export const withApiServer = async <T>(
  name: string,
  work: (server: ApiServerInside) => Promise<T>,
  onEvidence: (path: string) => void,
): Promise<T> => {
  const programs = await openPrograms();
  const lab = await openLab({
    name,
    networks: { only: { ranges: ["192.0.2.0/28"] } },
    machines: {
      server: { interfaces: { eth0: { network: "only", addresses: ["192.0.2.2/28"] } } },
    },
  });
  const namespace = lab.namespace("server");
  try {
    const plane = await startControlPlane({
      name: "server",
      programs,
      keys: await openKeys("server", join(lab.ram, "pki")),
      namespace,
      kubectlNamespace: namespace,
      folder: join(lab.ram, "server"),
      logs: join(lab.dir, "log"),
      address: "192.0.2.2",
      publicAddress: "192.0.2.2",
      serviceRange: "172.21.4.0/24",
      serviceAddress: "172.21.4.1",
      controllers: basicControllers,
      hasScheduler: false,
    });
    await plane.startControllers();
    const inside = ["nsenter", `--net=/run/netns/${namespace.name}`, "--"];
    const result = await work({ kubeconfig: plane.kubeconfigs.local, inside });
    await plane.stop();
    return result;
  } catch (error) {
    onEvidence(await lab.evidence());
    throw error;
  } finally {
    await lab.close();
  }
};
