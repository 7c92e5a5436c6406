/** What runs in the lab's shoot: web pods on each node, a talker, a webhook, an aggregated API, metrics-server. */

import { dirname } from "node:path";
import { flagList } from "./flags.ts";
import type { ClusterKeys } from "./pki.ts";
import type { Programs } from "./programs.ts";
import { bothFamilies } from "./site.ts";
import type { NodeSite } from "./site.ts";

export interface WorkloadSpec {
  readonly nodes: readonly string[];
  readonly keys: ClusterKeys;
  readonly programs: Programs;
}

/** Objects as JSON values, in the order in which they must be made. */
export type Manifest = readonly Readonly<Record<string, unknown>>[];

export const podImage = "lab.local/pod:1";
export const pauseImage = "lab.local/pause:1";
/** The only namespace whose ConfigMaps the webhook sees. */
export const guardedNamespace = "guarded";
export const webhookRefusal = "the lab's webhook says no";
export const webPort = 8080;

/** Names that the webhook's and the aggregated API's certificate must carry. */
export const servingHosts: readonly string[] = ["webhook.default.svc", "probe-api.default.svc"];

/** Name of the web pod on a node. */
export function webPod(node: string): string {
  return `web-${node}`;
}

/** All pods and Services; every pod is pinned to a node, so no scheduler has to be ready. */
export function workloads(spec: WorkloadSpec): Manifest {
  const [first = "", second = first, third = second] = spec.nodes;
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: guardedNamespace } },
    // Made here so that pods are admitted before the controllers run.
    ...["default", "kube-system"].map((namespace) => serviceAccount("default", namespace)),
    serviceAccount("metrics-server", "kube-system"),
    administratorBinding("metrics-server", "kube-system"),
    ...spec.nodes.map(web),
    service("web", { namespace: "default", port: 80, targetPort: webPort }),
    talker(second),
    serving(spec, { name: "webhook", node: first, command: "webhook" }),
    service("webhook", { namespace: "default", port: 443, targetPort: 8443 }),
    serving(spec, { name: "probe-api", node: third, command: "api" }),
    service("probe-api", { namespace: "default", port: 443, targetPort: 8443 }),
    metricsServer(spec, second),
    service("metrics-server", { namespace: "kube-system", port: 443, targetPort: 10250 }),
  ];
}

/** What makes the API server call into the shoot; registered last, so that making the pods needs no tunnel. */
export function registrations(spec: WorkloadSpec): Manifest {
  const caBundle = Buffer.from(spec.keys.authority.certificate).toString("base64");
  return [
    webhookConfiguration("lab", guardWebhook(caBundle)),
    apiService("v1.lab.example", {
      group: "lab.example",
      version: "v1",
      groupPriorityMinimum: 1000,
      versionPriority: 10,
      service: { namespace: "default", name: "probe-api" },
      caBundle,
    }),
    apiService("v1beta1.metrics.k8s.io", {
      group: "metrics.k8s.io",
      version: "v1beta1",
      groupPriorityMinimum: 100,
      versionPriority: 100,
      insecureSkipTLSVerify: true,
      service: { namespace: "kube-system", name: "metrics-server" },
    }),
  ];
}

/**
 * A webhook on every resource that refuses what it can't be asked about (catalogue S3). Its pod is in the shoot, so
 * without a tunnel nothing can be written there, and nothing that the tunnel needs may need a write.
 */
export function catchAllWebhook(keys: ClusterKeys): Manifest {
  const rules = [{ apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"] }];
  const scoped = guardWebhook(Buffer.from(keys.authority.certificate).toString("base64"));
  const { namespaceSelector: _scope, matchConditions: _but, ...everywhere } = scoped;
  return [webhookConfiguration("catch-all", { ...everywhere, name: "all.example.com", rules })];
}

/** Node objects made beforehand carry chosen pod ranges; the kubelets adopt them, so no IPAM controller runs. */
export function nodeObjects(nodes: readonly NodeSite[]): Manifest {
  return nodes.map(({ name, podRange, ipv6 }) => ({
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels: { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" } },
    spec: { podCIDR: podRange, podCIDRs: bothFamilies(podRange, ipv6?.podRange) },
  }));
}

/** One List for `kubectl create -f -`. */
export function asList(items: Manifest): string {
  return JSON.stringify({ apiVersion: "v1", kind: "List", items });
}

interface PodSpec {
  readonly name: string;
  readonly namespace: string;
  readonly node: string;
  readonly app: string;
  readonly container: Readonly<Record<string, unknown>>;
  readonly rest?: Readonly<Record<string, unknown>>;
}

function pod({ name, namespace, node, app, container, rest }: PodSpec): Manifest[number] {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace, labels: { app } },
    spec: {
      nodeName: node,
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 0,
      ...rest,
      containers: [{ name: app, image: podImage, imagePullPolicy: "Never", ...container }],
    },
  };
}

function web(node: string): Manifest[number] {
  const container = {
    command: ["labpod", "http", `:${webPort}`],
    ports: [{ containerPort: webPort }],
    readinessProbe: { httpGet: { port: webPort }, periodSeconds: 1 },
  };
  return pod({ name: webPod(node), namespace: "default", node, app: "web", container });
}

function talker(node: string): Manifest[number] {
  const container = { command: ["labpod", "talk", "250ms"] };
  return pod({ name: "talker", namespace: "default", node, app: "talker", container });
}

function serving(
  spec: WorkloadSpec,
  { name, node, command }: { name: string; node: string; command: string },
): Manifest[number] {
  const container = {
    command: ["labpod", command, ":8443", "/pki/webhook.crt", "/pki/webhook.key"],
    readinessProbe: { tcpSocket: { port: 8443 }, periodSeconds: 1 },
    volumeMounts: [{ name: "pki", mountPath: "/pki" }],
  };
  const rest = { volumes: [{ name: "pki", hostPath: { path: spec.keys.folder } }] };
  return pod({ name, namespace: "default", node, app: name, container, rest });
}

function metricsServer(spec: WorkloadSpec, node: string): Manifest[number] {
  const container = {
    command: [
      "/programs/hyperkube",
      "metrics-server",
      ...flagList({
        "secure-port": 10250,
        "cert-dir": "/tmp",
        "kubelet-preferred-address-types": "InternalIP",
        "kubelet-certificate-authority": "/pki/ca.crt",
        // 10 s is the least it takes, and the request timeout must be below it, or it exits.
        "metric-resolution": "10s",
        "kubelet-request-timeout": "5s",
      }),
    ],
    readinessProbe: {
      httpGet: { path: "/readyz", port: 10250, scheme: "HTTPS" },
      periodSeconds: 1,
    },
    volumeMounts: [
      { name: "programs", mountPath: "/programs" },
      { name: "pki", mountPath: "/pki" },
    ],
  };
  const rest = {
    serviceAccountName: "metrics-server",
    automountServiceAccountToken: true,
    volumes: [
      { name: "programs", hostPath: { path: dirname(spec.programs.hyperkube) } },
      { name: "pki", hostPath: { path: spec.keys.folder } },
    ],
  };
  const name = "metrics-server";
  return pod({ name, namespace: "kube-system", node, app: name, container, rest });
}

function service(
  name: string,
  { namespace, port, targetPort }: { namespace: string; port: number; targetPort: number },
): Manifest[number] {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace },
    spec: {
      ipFamilyPolicy: "PreferDualStack",
      selector: { app: name },
      ports: [{ port, targetPort }],
    },
  };
}

function serviceAccount(name: string, namespace: string): Manifest[number] {
  return { apiVersion: "v1", kind: "ServiceAccount", metadata: { name, namespace } };
}

function administratorBinding(name: string, namespace: string): Manifest[number] {
  return {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", name, namespace }],
  };
}

function apiService(name: string, spec: Readonly<Record<string, unknown>>): Manifest[number] {
  return { apiVersion: "apiregistration.k8s.io/v1", kind: "APIService", metadata: { name }, spec };
}

function webhookConfiguration(
  name: string,
  webhook: Readonly<Record<string, unknown>>,
): Manifest[number] {
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    metadata: { name },
    webhooks: [webhook],
  };
}

function guardWebhook(caBundle: string) {
  return {
    name: "lab.example.com",
    clientConfig: { service: { namespace: "default", name: "webhook", path: "/review" }, caBundle },
    rules: [
      { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["configmaps"] },
    ],
    namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": guardedNamespace } },
    // The controller manager writes this one into every namespace; the lab must not depend on when.
    matchConditions: [{ name: "not-root-ca", expression: "request.name != 'kube-root-ca.crt'" }],
    admissionReviewVersions: ["v1"],
    sideEffects: "None",
    timeoutSeconds: 3,
  };
}
