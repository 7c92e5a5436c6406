/** The allocator on real API servers of its own: through every entry, and killed in a loop while claims come and go. */

import { join } from "node:path";
import t from "tap";
import { skipUnlessRoot } from "#netsim/lab/tunnel-test.ts";
import { withApiServer } from "./api-server.ts";

const root = join(import.meta.dirname, "../..");
const files = ["netsim/cluster/cidr-entries.ts", "controller/allocator-server.test.ts"];
const TIMEOUT_MS = 400_000;

for (const file of files) {
  void t.test(
    `${file} and a real kube-apiserver`,
    { skip: skipUnlessRoot, timeout: TIMEOUT_MS },
    (t) =>
      withApiServer(
        "allocator",
        async ({ kubeconfig, inside }) => {
          const env = { ...process.env, XYLEM_TEST_KUBECONFIG: kubeconfig, TAP_TIMEOUT: "0" };
          const [command, ...argv] = [...inside, process.execPath, file];
          await t.spawn(command, argv, { env, cwd: root, timeout: TIMEOUT_MS }, file);
          if (!t.passing()) throw new Error("see the tests above");
        },
        (path) => {
          t.comment(`evidence: ${path}`);
        },
      ),
  );
}
