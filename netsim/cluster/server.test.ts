/** The tests that want a real API server, run against one of their own: objects, admission, and the client's suite. */

import { join } from "node:path";
import t from "tap";
import { skipUnlessRoot } from "#netsim/lab/tunnel-test.ts";
import { withApiServer } from "./api-server.ts";

const root = join(import.meta.dirname, "../..");
/** Each leaves its objects behind, so the server is thrown away afterwards. */
const files = [
  "charts/objects.test.ts",
  "src/host/kube/kube-server.test.ts",
  "cli/policy-server.test.ts",
  "controller/injector-server.test.ts",
];

void t.test("a real kube-apiserver of its own", { skip: skipUnlessRoot, timeout: 180_000 }, (t) =>
  withApiServer(
    "api-server",
    async ({ kubeconfig, inside }) => {
      const env = { ...process.env, XYLEM_TEST_KUBECONFIG: kubeconfig, TAP_TIMEOUT: "0" };
      for (const file of files) {
        const [command, ...argv] = [...inside, process.execPath, file];
        await t.spawn(command, argv, { env, cwd: root }, file);
      }
      if (!t.passing()) throw new Error("see the tests above");
    },
    (path) => {
      t.comment(`evidence: ${path}`);
    },
  ),
);
