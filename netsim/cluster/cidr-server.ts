/** What tests of address ranges on a real API server share: schemas, the chart's webhook, tokens, calls of the REST API. */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseAllDocuments } from "yaml";
import { realClock } from "#src/host/clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { fixedCredentials } from "#src/host/kube/credentials.ts";
import { kubeconfigFile } from "#src/host/kube/kubeconfig.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import { KubeTransport } from "#src/host/kube/transport.ts";
import { realRandom } from "#src/host/random.ts";
import { valueOf } from "#src/model/parsed.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject, KubeResource } from "#src/ports/kube.ts";
import { claimSample, type Sample } from "#src/reconcile/allocation-samples.ts";
import { openChart, renderChart } from "../../cli/chart.ts";

export const kubeconfig = process.env["XYLEM_TEST_KUBECONFIG"] ?? "";
export const common = {
  clock: realClock,
  log: new FakeLog(),
  random: realRandom,
  userAgent: "xylem-test/0",
};

export const openKube = (): Kube =>
  connectKube({ ...common, credentials: kubeconfigFile(kubeconfig) });

const CRDS: KubeResource = {
  group: "apiextensions.k8s.io",
  version: "v1",
  plural: "customresourcedefinitions",
  kind: "CustomResourceDefinition",
  isNamespaced: false,
};
export const SERVICE_ACCOUNTS: KubeResource = {
  group: "",
  version: "v1",
  plural: "serviceaccounts",
  kind: "ServiceAccount",
  isNamespaced: true,
};
const RBAC = { group: "rbac.authorization.k8s.io", version: "v1" } as const;
export const ROLES: KubeResource = { ...RBAC, plural: "roles", kind: "Role", isNamespaced: true };
export const ROLE_BINDINGS: KubeResource = {
  ...RBAC,
  plural: "rolebindings",
  kind: "RoleBinding",
  isNamespaced: true,
};
export const CLUSTER_ROLES: KubeResource = {
  ...RBAC,
  plural: "clusterroles",
  kind: "ClusterRole",
  isNamespaced: false,
};
export const CLUSTER_ROLE_BINDINGS: KubeResource = {
  ...RBAC,
  plural: "clusterrolebindings",
  kind: "ClusterRoleBinding",
  isNamespaced: false,
};

const PATIENCE_MS = 30_000;

/** Waits for what an API server does a moment later; throws what the last try threw. */
export const eventually = async <T>(attempt: () => Promise<T>): Promise<T> => {
  const endMs = realClock.nowMs() + PATIENCE_MS;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (realClock.nowMs() > endMs) throw error;
      await pause(50);
    }
  }
};

/** What a call failed with, as a person reads it. */
export const refusalOf = async (call: Promise<unknown>): Promise<string> => {
  try {
    await call;
    return "it was taken";
  } catch (error) {
    if (!isHostError(error)) throw error;
    return error.message;
  }
};

/** Everything that schemas refuse beyond the types of fields. */
const CHECKS = new Set([
  "x-kubernetes-validations",
  "minLength",
  "maxLength",
  "pattern",
  "minItems",
  "maxItems",
]);

const withoutChecks = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(withoutChecks);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !CHECKS.has(name))
      .map(([name, part]) => [name, withoutChecks(part)]),
  );
};

/** Of the allocator's kinds. */
const SCHEMAS = /^(network\w+|seednetworks)\.yaml$/u;

/**
 * Installs the schemas, or replaces those that are there. `isLax`: as if they checked nothing but types; `hasTunnels`:
 * that of Tunnels, too, without which a controller waits.
 */
export const applySchemas = async (
  kube: Kube,
  options: { readonly isLax: boolean; readonly hasTunnels?: boolean },
): Promise<void> => {
  const folder = join(import.meta.dirname, "../../charts/seed/schemas");
  const isWanted = (file: string): boolean =>
    SCHEMAS.test(file) || (options.hasTunnels === true && file === "tunnels.yaml");
  for (const name of (await readdir(folder)).filter(isWanted)) {
    for (const document of parseAllDocuments(await readFile(join(folder, name), "utf8"))) {
      const plain = document.toJS({ maxAliasCount: -1 }) as KubeObject;
      const object = options.isLax ? (withoutChecks(plain) as KubeObject) : plain;
      await applySchema(kube, object);
    }
  }
};

const applySchema = async (kube: Kube, object: KubeObject): Promise<void> => {
  const { name } = object.metadata;
  try {
    await kube.create(CRDS, object);
  } catch (error) {
    if (!isHostError(error) || error.code !== "already-exists") throw error;
    await eventually(async () => {
      const { resourceVersion = "" } = (await kube.get(CRDS, { name })).metadata;
      await kube.replace(CRDS, { ...object, metadata: { ...object.metadata, resourceVersion } });
    });
  }
  await eventually(async () => {
    const conditions: unknown = Object((await kube.get(CRDS, { name }))["status"]).conditions;
    const isEstablished =
      Array.isArray(conditions) &&
      conditions.some((c) => Object(c).type === "Established" && Object(c).status === "True");
    if (!isEstablished) throw new Error(`${name} is not established`);
  });
};

/** The chart's configuration for a release without injector, called by address: there is no network of Services here. */
export const chartConfiguration = async (port: number): Promise<KubeObject> => {
  const values = [{ injector: { enabled: false } }];
  const text = valueOf(renderChart(await openChart("seed"), { values, namespace: "xylem-system" }));
  const objects = parseAllDocuments(text).map((document): unknown => document.toJS());
  const object = objects.find((one) => Object(one).kind === "ValidatingWebhookConfiguration");
  if (object === undefined) throw new Error("the chart makes no ValidatingWebhookConfiguration");
  const { webhooks, ...rest } = Object(object);
  return {
    ...rest,
    webhooks: webhooks.map((webhook: { clientConfig: { service: { path: string } } }) => ({
      ...webhook,
      clientConfig: { url: `https://127.0.0.1:${port}${webhook.clientConfig.service.path}` },
    })),
  };
};

/** A token of a service account, as a program outside of the cluster has one. */
export const tokenOf = async (account: { namespace: string; name: string }): Promise<string> => {
  const credentials = await kubeconfigFile(kubeconfig).read({ fresh: false });
  const admin = new KubeTransport({ ...common, credentials: fixedCredentials(credentials) });
  const answer = await admin.call({
    method: "POST",
    path: `/api/v1/namespaces/${account.namespace}/serviceaccounts/${account.name}/token`,
    what: "request a token",
    body: {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: 3_600 },
    },
  });
  admin.close();
  return String(Object(Object(answer).status).token);
};

/** A caller of the REST API. */
export const restCaller =
  (port: number, token: string) =>
  async (
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ readonly status: number; readonly body: unknown }> => {
    const answer = await fetch(`http://127.0.0.1:${port}/v1alpha1/${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    return { status: answer.status, body: text === "" ? null : JSON.parse(text) };
  };

/** Makes a sample. */
export const create = (kube: Kube, { resource, object }: Sample): Promise<KubeObject> =>
  kube.create(resource, object);

/** A claim in which a range is written so. */
export const spelled = (cidr: string, namespace = "shoot--bad"): Sample => {
  const { resource, object } = claimSample("bad", { nodes: 24 });
  const spec = { ...Object(object["spec"]), nodes: { ipv4: { cidr } } };
  return { resource, object: { ...object, metadata: { namespace, name: "net" }, spec } };
};

/** What tests of the entries share. */
export interface Entries {
  readonly kube: Kube;
  readonly restPort: number;
  /** With a token that may make claims in one namespace. */
  readonly call: ReturnType<typeof restCaller>;
}
