/** The tests that want a real API server, run against one of their own: objects, admission, and the client's suite. */

import { join } from "node:path";
import t from "tap";
import { openLab } from "#netsim/lab/lab.ts";
import { skipUnlessRoot } from "#netsim/lab/tunnel-test.ts";
import { basicControllers, startControlPlane } from "./control-plane.ts";
import { openKeys } from "./pki.ts";
import { openPrograms } from "./programs.ts";

const root = join(import.meta.dirname, "../..");
/** Each leaves its objects behind, so the server is thrown away afterwards. */
const files = [
  "charts/objects.test.ts",
  "src/host/kube/kube-server.test.ts",
  "cli/policy-server.test.ts",
  "controller/injector-server.test.ts",
];

void t.test(
  "a real kube-apiserver of its own",
  { skip: skipUnlessRoot, timeout: 180_000 },
  async (t) => {
    const programs = await openPrograms();
    const lab = await openLab({
      name: "api-server",
      networks: { only: { ranges: ["192.0.2.0/28"] } },
      machines: {
        server: { interfaces: { eth0: { network: "only", addresses: ["192.0.2.2/28"] } } },
      },
    });
    const namespace = lab.namespace("server");
    try {
      const keys = await openKeys("server", join(lab.ram, "pki"));
      const plane = await startControlPlane({
        name: "server",
        programs,
        keys,
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
      for (const file of files) {
        const env = {
          ...process.env,
          XYLEM_TEST_KUBECONFIG: plane.kubeconfigs.local,
          TAP_TIMEOUT: "0",
        };
        const argv = [`--net=/run/netns/${namespace.name}`, "--", process.execPath, file];
        await t.spawn("nsenter", argv, { env, cwd: root }, file);
      }
      await plane.stop();
    } finally {
      if (!t.passing()) t.comment(`evidence: ${await lab.evidence()}`);
      await lab.close();
    }
  },
);
