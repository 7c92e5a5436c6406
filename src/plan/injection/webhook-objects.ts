/** The MutatingWebhookConfiguration (admissionregistration.k8s.io/v1) that sends pods with our label, and no others, to the injector. */

import { TUNNEL_LABEL } from "#src/model/injection.ts";

export const INJECTOR_PATH = "/inject";

export interface WebhookPlacement {
  /** Namespace of the controller and its Service. */
  readonly namespace: string;
  readonly service: string;
  readonly port: number;
  /** Name of the configuration; the chart's release may be part of it. */
  readonly name: string;
}

/** An API server gives up after this; the injector answers from memory in milliseconds. */
const TIMEOUT_SECONDS = 10;

/**
 * Renders the configuration without its caBundle, which the controller writes. `failurePolicy: Fail` only concerns pods
 * that the objectSelector lets through: a pod that asks for a tunnel must not start without one. No other pod, and none
 * of our own namespace, ever waits for us.
 */
export const mutatingWebhookConfiguration = (placement: WebhookPlacement) => ({
  apiVersion: "admissionregistration.k8s.io/v1",
  kind: "MutatingWebhookConfiguration",
  metadata: { name: placement.name, labels: { "app.kubernetes.io/managed-by": "xylem" } },
  webhooks: [
    {
      name: "inject.xylem.dev",
      admissionReviewVersions: ["v1"],
      clientConfig: {
        service: {
          namespace: placement.namespace,
          name: placement.service,
          path: INJECTOR_PATH,
          port: placement.port,
        },
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
      objectSelector: { matchExpressions: [{ key: TUNNEL_LABEL, operator: "Exists" }] },
      namespaceSelector: {
        matchExpressions: [
          {
            key: "kubernetes.io/metadata.name",
            operator: "NotIn",
            values: [...new Set([placement.namespace, "kube-system"])].toSorted(),
          },
        ],
      },
      // Mirror pods of static pods can't be changed: their kubelet has started them already.
      matchConditions: [
        {
          name: "not-a-mirror-pod",
          expression:
            "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)",
        },
      ],
      // Another injector that comes later may put its container before the gateway.
      reinvocationPolicy: "IfNeeded",
      failurePolicy: "Fail",
      // Events tell of skips; none is written for a dry run.
      sideEffects: "NoneOnDryRun",
      timeoutSeconds: TIMEOUT_SECONDS,
    },
  ],
});
