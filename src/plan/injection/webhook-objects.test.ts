/** The webhook configuration: who is asked about, and who never is. */

import t from "tap";
import { mutatingWebhookConfiguration } from "./webhook-objects.ts";

const PLACEMENT = {
  namespace: "xylem",
  service: "xylem-webhook",
  port: 443,
  name: "xylem-injector",
};

void t.test(
  "I30 only new pods with the label are asked about, never those of our own namespace or kube-system",
  async (t) => {
    const configuration = mutatingWebhookConfiguration(PLACEMENT);
    t.equal(configuration.webhooks.length, 1);
    t.strictSame(configuration.webhooks[0], {
      name: "inject.xylem.dev",
      admissionReviewVersions: ["v1"],
      clientConfig: {
        service: { namespace: "xylem", name: "xylem-webhook", path: "/inject", port: 443 },
      },
      rules: [
        {
          apiGroups: [""],
          apiVersions: ["v1"],
          operations: ["CREATE"],
          resources: ["pods"],
          scope: "Namespaced",
        },
      ],
      matchPolicy: "Equivalent",
      objectSelector: { matchExpressions: [{ key: "xylem.dev/tunnel", operator: "Exists" }] },
      namespaceSelector: {
        matchExpressions: [
          {
            key: "kubernetes.io/metadata.name",
            operator: "NotIn",
            values: ["kube-system", "xylem"],
          },
        ],
      },
      matchConditions: [
        {
          name: "not-a-mirror-pod",
          expression:
            "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)",
        },
      ],
      reinvocationPolicy: "IfNeeded",
      failurePolicy: "Fail",
      sideEffects: "NoneOnDryRun",
      timeoutSeconds: 10,
    });
  },
);

void t.test("a controller in kube-system names it once", async (t) => {
  const { webhooks } = mutatingWebhookConfiguration({ ...PLACEMENT, namespace: "kube-system" });
  t.strictSame(webhooks[0]?.namespaceSelector.matchExpressions[0]?.values, ["kube-system"]);
});
