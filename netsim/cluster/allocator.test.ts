/** The allocator on a real API server of its own: killed in a loop while claims come and go. */

import { join } from "node:path";
import t from "tap";
import { skipUnlessRoot } from "#netsim/lab/tunnel-test.ts";
import { withApiServer } from "./api-server.ts";

const root = join(import.meta.dirname, "../..");
const file = "controller/allocator-server.test.ts";

void t.test(
  "the allocator and a real kube-apiserver",
  { skip: skipUnlessRoot, timeout: 240_000 },
  (t) =>
    withApiServer(
      "allocator",
      async ({ kubeconfig, inside }) => {
        const env = { ...process.env, XYLEM_TEST_KUBECONFIG: kubeconfig, TAP_TIMEOUT: "0" };
        const [command, ...argv] = [...inside, process.execPath, file];
        await t.spawn(command, argv, { env, cwd: root, timeout: 240_000 }, file);
        if (!t.passing()) throw new Error("see the tests above");
      },
      (path) => {
        t.comment(`evidence: ${path}`);
      },
    ),
);
