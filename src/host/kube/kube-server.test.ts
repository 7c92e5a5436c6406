/** The real client keeps the contract of the Kube port, against the API server that XYLEM_TEST_KUBECONFIG names. */

import t from "tap";
import { realClock } from "#src/host/clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { realRandom } from "#src/host/random.ts";
import type { KubeResource } from "#src/ports/kube.ts";
import { CONFIG_MAPS } from "#src/ports/kube-resource.ts";
import { kubeCompliance } from "./kube-compliance.ts";
import { kubeconfigFile } from "./kubeconfig.ts";
import { connectKube } from "./rest.ts";

const NAMESPACES: KubeResource = {
  group: "",
  version: "v1",
  plural: "namespaces",
  kind: "Namespace",
  isNamespaced: false,
};
const NAMESPACE = "xylem-compliance";

const file = process.env["XYLEM_TEST_KUBECONFIG"];
const options = file === undefined ? { skip: "XYLEM_TEST_KUBECONFIG names no API server" } : {};

const connect = () =>
  connectKube({
    credentials: kubeconfigFile(file ?? ""),
    clock: realClock,
    log: new FakeLog(),
    random: realRandom,
    userAgent: "xylem-test/0",
  });

void t.test("compliance", options, async (t) => {
  const admin = connect();
  await admin.create(NAMESPACES, { metadata: { name: NAMESPACE } }).catch(() => undefined);
  for (const left of await admin.list(CONFIG_MAPS, { namespace: NAMESPACE })) {
    await admin.delete(CONFIG_MAPS, left.metadata);
  }
  t.teardown(() => {
    admin.close();
  });
  kubeCompliance(t, () =>
    Promise.resolve({
      kube: connect(),
      namespace: NAMESPACE,
      settle: () =>
        new Promise((resolve) => {
          setTimeout(resolve, 25);
        }),
    }),
  );
});
