/** Both charts with a real Helm: lint, golden objects, values that are refused, rights, and the same objects without Helm. */

import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { parseAllDocuments } from "yaml";
import { mutatingWebhookConfiguration } from "#src/plan/injection/webhook-objects.ts";
import { readAgentConfig } from "../agent/config.ts";
import { type ChartName, openChart, renderChart } from "../cli/chart.ts";
import { readControllerConfig } from "../controller/config.ts";
import { openHelm, whyNoHelm } from "../scripts/helm.ts";

const why = whyNoHelm();
const options = why === null ? {} : { skip: why };
const here = import.meta.dirname;
const goldens = join(here, "goldens");
const NAMESPACE = "xylem-system";
/** `UPDATE_GOLDENS=1 node charts/charts.test.ts` writes what Helm makes now; look at the difference before you keep it. */
const isUpdate = process.env["UPDATE_GOLDENS"] === "1";
const CHARTS: readonly ChartName[] = ["seed", "shoot"];

interface AnyObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [field: string]: unknown;
}

/** As kubectl and Helm read them: YAML 1.1. */
const objectsOf = (text: string): readonly AnyObject[] =>
  parseAllDocuments(text, { version: "1.1" }).flatMap((document) => document.toJS() ?? []);

const keyOf = ({ kind, metadata }: AnyObject): string =>
  `${kind} ${metadata.namespace ?? "-"}/${metadata.name}`;

const byKey = (objects: readonly AnyObject[]): Readonly<Record<string, AnyObject>> =>
  Object.fromEntries(objects.map((object) => [keyOf(object), object]));

const valuesFiles = readdirSync(goldens).filter((name) => name.endsWith(".values.yaml"));
const chartOf = (file: string): ChartName => (file.startsWith("seed") ? "seed" : "shoot");

const template = async (chart: ChartName, ...flags: readonly string[]): Promise<string> => {
  const argv = ["template", "xylem", join(here, chart), "--namespace", NAMESPACE, ...flags];
  return execFileSync(await openHelm(), argv, { encoding: "utf8" });
};

const rendered = async (chart: ChartName, values: unknown = {}): Promise<readonly AnyObject[]> => {
  const made = renderChart(await openChart(chart), { values: [values], namespace: NAMESPACE });
  if (!made.ok) throw new Error(made.problem);
  return objectsOf(made.value);
};

const folder = (path: string): readonly AnyObject[] =>
  readdirSync(join(here, path)).flatMap((name) =>
    objectsOf(readFileSync(join(here, path, name), "utf8")),
  );

for (const file of valuesFiles) {
  const chart = chartOf(file);
  const path = join(goldens, file);
  void t.test(`${file} passes lint and gives its golden objects`, options, async (t) => {
    const lint = spawnSync(await openHelm(), ["lint", "--strict", join(here, chart), "-f", path], {
      encoding: "utf8",
    });
    t.equal(lint.status, 0, lint.stdout + lint.stderr);
    const text = await template(chart, "-f", path);
    const golden = path.replace(".values.", ".objects.");
    if (isUpdate) writeFileSync(golden, text);
    t.equal(text, readFileSync(golden, "utf8"));
  });
  void t.test(`${file} gives the same objects without Helm`, options, async (t) => {
    const want = byKey(objectsOf(await template(chart, "-f", path)));
    const [values] = parseAllDocuments(readFileSync(path, "utf8"), { version: "1.1" });
    t.strictSame(byKey(await rendered(chart, values?.toJS())), want);
  });
}

for (const chart of CHARTS) {
  void t.test(`the definitions of ${chart} are in the chart, kept or not`, options, async (t) => {
    const plain = byKey(folder(`${chart}/schemas`));
    for (const keep of [true, false]) {
      const text = await template(chart, "--set", `schemas.keep=${keep}`);
      const found = objectsOf(text).filter(({ kind }) => kind === "CustomResourceDefinition");
      t.equal(found.length, Object.keys(plain).length);
      for (const object of found) {
        const { annotations, ...metadata }: Record<string, unknown> = { ...object.metadata };
        t.strictSame(annotations, keep ? { "helm.sh/resource-policy": "keep" } : undefined);
        t.strictSame({ ...object, metadata }, plain[keyOf(object)], keyOf(object));
      }
    }
    t.strictSame(byKey(await rendered(chart)), byKey(objectsOf(await template(chart))));
  });
}

const BAD: readonly { chart: ChartName; value: string; field: string }[] = [
  { chart: "seed", value: "controller.replicas=0", field: "controller.replicas" },
  { chart: "seed", value: "controller.replicaz=2", field: "controller.replicaz" },
  { chart: "seed", value: "controller.logLevel=loud", field: "controller.logLevel" },
  { chart: "seed", value: "gateway.statusPort=70000", field: "gateway.statusPort" },
  {
    chart: "seed",
    value: "gateway.resources.limits.memory=much",
    field: "gateway.resources.limits.memory",
  },
  { chart: "seed", value: "gateway.image.digest=sha256:12", field: "gateway.image.digest" },
  {
    chart: "seed",
    value: "injector.podSecurityDefault=strict",
    field: "injector.podSecurityDefault",
  },
  { chart: "seed", value: "gatewayRules[0].tunnel=alpha", field: "gatewayRules" },
  {
    chart: "seed",
    value: "networkPolicies.pods.apiserver=app=x",
    field: "networkPolicies.pods.apiserver",
  },
  { chart: "seed", value: "networkPolicies.ports.etcd=0", field: "networkPolicies.ports.etcd" },
  {
    chart: "seed",
    value: "podDisruptionBudget.maxUnavailable=half",
    field: "podDisruptionBudget.maxUnavailable",
  },
  { chart: "shoot", value: "agents.port=1", field: "agents" },
  { chart: "shoot", value: "agent.port=0", field: "agent.port" },
  { chart: "shoot", value: "agent.exposeStatus=yes", field: "agent.exposeStatus" },
  { chart: "shoot", value: "service.type=ExternalName", field: "service.type" },
];

for (const { chart, value, field } of BAD) {
  void t.test(`${value} is refused for ${chart}, and the field is named`, options, async (t) => {
    const argv = ["template", "xylem", join(here, chart), "--set", value];
    const { status, stderr } = spawnSync(await openHelm(), argv, { encoding: "utf8" });
    t.not(status, 0);
    for (const part of field.split(".")) t.match(stderr, part);
    const made = renderChart(await openChart(chart), { values: [nested(value)], namespace: "a" });
    t.match(made.ok ? "taken" : made.problem, field);
  });
}

void t.test("rights in the chart are those of the plain manifests, in its namespace", async (t) => {
  for (const [chart, values] of [
    [
      "seed",
      {
        controller: { seedNetwork: "eu-1" },
        injector: { recreateStalePods: true },
        networkPolicies: { enabled: true },
        allocator: { api: { enabled: true } },
      },
    ],
    ["shoot", { gateway: { discoverPods: true } }],
  ] as const) {
    const made = byKey(await rendered(chart, values));
    for (const object of folder(`${chart}/manifests`)) {
      const text = JSON.stringify(object);
      const moved = text.replaceAll('"namespace":"kube-system"', `"namespace":"${NAMESPACE}"`);
      const want = objectsOf(chart === "seed" ? moved : text)[0];
      if (want !== undefined) t.strictSame(made[keyOf(want)], want, keyOf(want));
    }
  }
});

void t.test("rights are only given for what is switched on", async (t) => {
  const names = (objects: readonly AnyObject[]): readonly string[] =>
    objects
      .filter(({ kind }) => /^(Cluster)?Role$/u.test(kind))
      .map(({ metadata }) => metadata.name);
  const off = { injector: { enabled: false }, allocator: { enabled: false } };
  t.strictSame(names(await rendered("seed", off)), ["xylem-seed-controller"]);
  t.strictSame(names(await rendered("seed")), [
    "xylem-seed-controller",
    "xylem-seed-allocator",
    "xylem-seed-injector",
    "xylem-seed-webhook",
  ]);
  const rangesOnly = { injector: { enabled: false } };
  t.strictSame(names(await rendered("seed", rangesOnly)), [
    "xylem-seed-controller",
    "xylem-seed-allocator",
    "xylem-seed-webhook",
  ]);
});

void t.test("the allocator's webhook is there without the injector, and served", async (t) => {
  const objects = await rendered("seed", { injector: { enabled: false } });
  const made = byKey(objects);
  t.match(made["ValidatingWebhookConfiguration -/xylem-allocator"], {
    webhooks: [{ clientConfig: { service: { name: "xylem-webhook", path: "/allocation" } } }],
  });
  t.ok(made[`Service ${NAMESPACE}/xylem-webhook`]);
  t.ok(made[`Secret ${NAMESPACE}/xylem-webhook-certificates`]);
  t.notOk(made["MutatingWebhookConfiguration -/xylem-injector"]);
  process.env["POD_NAMESPACE"] = NAMESPACE;
  const args = objects.flatMap(argumentsOf).map((arg) => arg.replace(/\$\(\w+\)/u, "192.0.2.1"));
  t.match(readControllerConfig(args, "0"), {
    injector: null,
    allocator: {
      webhook: {
        ownNamespace: NAMESPACE,
        address: "192.0.2.1",
        port: 9449,
        service: "xylem-webhook",
      },
    },
  });
});

void t.test(
  "a tunnel's gateway gets the rules of the plain manifest, for its own names",
  async (t) => {
    const rule = { namespace: "shoot--a", tunnel: "alpha", serviceAccounts: ["kube-apiserver"] };
    const made = byKey(await rendered("seed", { gatewayRules: [rule] }));
    const plain = folder("seed/tunnel-manifests").find(({ kind }) => kind === "Role");
    t.strictSame(made["Role shoot--a/xylem-gateway-alpha"]?.["rules"], plain?.["rules"]);
    t.match(made["RoleBinding shoot--a/xylem-gateway-alpha"], {
      roleRef: { name: "xylem-gateway-alpha" },
      subjects: [{ kind: "ServiceAccount", name: "kube-apiserver", namespace: "shoot--a" }],
    });
  },
);

void t.test(
  "the webhook's configuration is the one that the injector is written for",
  async (t) => {
    const made = byKey(await rendered("seed"));
    const placement = { namespace: NAMESPACE, service: "xylem-webhook", port: 443 };
    const want = mutatingWebhookConfiguration({ ...placement, name: "xylem-injector" });
    const got = made["MutatingWebhookConfiguration -/xylem-injector"];
    const sorted = (value: unknown): unknown =>
      JSON.parse(JSON.stringify(value), (key, part: unknown) =>
        key === "values" && Array.isArray(part) ? part.map(String).toSorted() : part,
      );
    t.strictSame(sorted(got), sorted(want));
  },
);

void t.test("the programs understand the arguments that the charts give them", async (t) => {
  process.env["POD_NAMESPACE"] = NAMESPACE;
  for (const file of valuesFiles) {
    const [values] = parseAllDocuments(readFileSync(join(goldens, file), "utf8"));
    const objects = await rendered(chartOf(file), values?.toJS());
    const args = objects.flatMap(argumentsOf).map((arg) => arg.replace(/\$\(\w+\)/u, "192.0.2.1"));
    if (chartOf(file) === "shoot") {
      const config = readAgentConfig(args, "0");
      t.match(config, { keyFile: "/var/lib/xylem/agent.key", node: "192.0.2.1" });
    } else {
      const { injector, allocator } = readControllerConfig(args, "0");
      t.equal(injector === null, file.includes("least"));
      t.equal(allocator === null, file.includes("least"));
      if (file.includes("all")) {
        t.match(allocator?.api, { address: "192.0.2.1", port: 19450 });
        t.match(injector, {
          mayRecreate: true,
          port: 19449,
          service: "xylem-webhook",
          configuration: "xylem-injector",
          config: { image: "registry.example:5000/xylem/gateway:1.2.3", ownNamespace: NAMESPACE },
        });
      }
    }
  }
});

void t.test(
  "an agent has no right on its node but NET_ADMIN, and outlives every taint",
  async (t) => {
    const made = byKey(await rendered("shoot"));
    const pod = Object(
      Object(Object(made["DaemonSet kube-system/xylem-agent"])["spec"]).template,
    ).spec;
    t.match(pod, { hostNetwork: true, tolerations: [{ operator: "Exists" }] });
    t.equal(Object(pod).containers.length, 1);
    t.strictSame(Object(pod).containers[0].securityContext.capabilities, {
      drop: ["ALL"],
      add: ["NET_ADMIN"],
    });
    t.match(Object(pod).containers[0].securityContext, {
      privileged: false,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
    });
  },
);

void t.test(
  "every value has a default and a comment, and every default is in the schema",
  async (t) => {
    for (const chart of CHARTS) {
      const { defaults, schema } = await openChart(chart);
      const lines = readFileSync(join(here, chart, "values.yaml"), "utf8").split("\n");
      t.strictSame(
        pathsOf(defaults),
        pathsOf(defaultsOf(schema)),
        `${chart}: schema and values agree`,
      );
      for (const [index, line] of lines.entries()) {
        if (!/^ {0,2}\w+: \S/u.test(line)) continue;
        const above = lines[index - 1] ?? "";
        // logLevel, labels and the like are said once.
        const isSaid =
          /#/u.test(above) || /^(\s*)(logLevel|podAnnotations|statusPort):/u.test(line);
        t.ok(
          isSaid,
          `${chart}/values.yaml:${index + 1} ${line.trim()} has its consequence above it`,
        );
      }
    }
  },
);

/** `a.b=c` as a map; `[0]` makes a list. */
const nested = (setting: string): unknown => {
  const [path = "", text = ""] = setting.split("=");
  const value: unknown = /^\d+$/u.test(text) ? Number(text) : text;
  return path.split(".").reduceRight((inner: unknown, part) => {
    const [, name, isList] = /^(\w+)(\[0\])?$/u.exec(part) ?? [];
    return { [name ?? part]: isList === undefined ? inner : [inner] };
  }, value);
};

const argumentsOf = ({ kind, spec }: AnyObject): readonly string[] =>
  kind === "Deployment" || kind === "DaemonSet"
    ? Object(spec).template.spec.containers[0].args.map(String)
    : [];

/** What a schema says there is, as a tree; free maps and lists are leaves. */
const defaultsOf = (schema: unknown): unknown => {
  const { properties } = Object(schema);
  if (properties === undefined) return null;
  const known = Object.entries(properties).filter(([name]) => name !== "global");
  return Object.fromEntries(known.map(([name, inner]) => [name, defaultsOf(inner)]));
};

/** Dotted paths, down to what is free. */
const FREE =
  /(nodeSelector|podLabels|podAnnotations|annotations|labels|tolerations|gatewayRules|imagePullSecrets|loadBalancerSourceRanges|clients)$/u;
const OPTIONAL = /controller\.resources\.limits\.cpu|agent\.resources\.limits\.cpu/u;
const pathsOf = (tree: unknown, at = ""): readonly string[] =>
  typeof tree === "object" && tree !== null && !FREE.test(at)
    ? Object.entries(tree)
        .flatMap(([name, inner]) => pathsOf(inner, at === "" ? name : `${at}.${name}`))
        .filter((path) => !OPTIONAL.test(path))
        .toSorted()
    : [at];
