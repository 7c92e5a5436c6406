/** Injection: golden patches, skips and refusals with their reasons, and properties with another injector around it. */

import fc from "fast-check";
import t from "tap";
import { parseInjectablePod } from "#src/codec/pod-codec.ts";
import type { JsonPatchOperation } from "#src/model/admission.ts";
import type { InjectionConfig, PodNamespace } from "#src/model/injection.ts";
import { parseInjectionOptions } from "#src/model/injection-config.ts";
import { valueOf } from "#src/model/parsed.ts";
import { type InjectionPlan, planInjection } from "./injection-plan.ts";
import { applyJsonPatch as apply } from "./json-patch-applier.ts";

const CONFIG = valueOf(
  parseInjectionOptions({ image: "registry.example/xylem-gateway:0.1.0", ownNamespace: "xylem" }),
);
const NAMESPACE: PodNamespace = { name: "shoot--lab--alpha", labels: {} };

type Json = Record<string, unknown>;

void t.test(
  "I48 the gateway is the first init container, a native sidecar, and the patch is this",
  async (t) => {
    const plan = planOf(apiServerPod());
    t.equal(plan.kind, "inject");
    t.strictSame(plan.patch, [
      {
        op: "add",
        path: "/spec/initContainers/0",
        value: {
          name: "xylem-gateway",
          image: "registry.example/xylem-gateway:0.1.0",
          imagePullPolicy: "IfNotPresent",
          restartPolicy: "Always",
          args: [
            "--namespace=shoot--lab--alpha",
            "--tunnel=alpha",
            "--identity=$(POD_UID)",
            "--shoot-kubeconfig=/etc/xylem/shoot/kubeconfig",
            "--state-dir=/var/lib/xylem",
            "--paths=4",
            "--status-address=$(POD_IP)",
            "--status-port=9446",
            "--log-level=info",
          ],
          env: [
            {
              name: "POD_UID",
              valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: "metadata.uid" } },
            },
            {
              name: "POD_IP",
              valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: "status.podIP" } },
            },
          ],
          ports: [{ name: "xylem-status", containerPort: 9446, protocol: "TCP" }],
          startupProbe: {
            httpGet: { path: "/healthz", port: 9446 },
            periodSeconds: 1,
            timeoutSeconds: 2,
            failureThreshold: 120,
          },
          livenessProbe: {
            httpGet: { path: "/healthz", port: 9446 },
            periodSeconds: 10,
            timeoutSeconds: 5,
            failureThreshold: 6,
          },
          resources: { requests: { cpu: "10m", memory: "64Mi" }, limits: { memory: "256Mi" } },
          securityContext: {
            privileged: false,
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            runAsNonRoot: false,
            runAsUser: 0,
            runAsGroup: 0,
            capabilities: { drop: ["ALL"], add: ["NET_ADMIN"] },
            seccompProfile: { type: "RuntimeDefault" },
          },
          volumeMounts: [
            { name: "xylem-tun", mountPath: "/dev/net/tun" },
            { name: "xylem-state", mountPath: "/var/lib/xylem" },
            { name: "xylem-shoot", mountPath: "/etc/xylem/shoot", readOnly: true },
            {
              name: "xylem-seed",
              mountPath: "/var/run/secrets/kubernetes.io/serviceaccount",
              readOnly: true,
            },
          ],
        },
      },
      {
        op: "add",
        path: "/spec/volumes/-",
        value: { name: "xylem-tun", hostPath: { path: "/dev/net/tun", type: "CharDevice" } },
      },
      {
        op: "add",
        path: "/spec/volumes/-",
        value: { name: "xylem-state", emptyDir: { sizeLimit: "1Mi" } },
      },
      {
        op: "add",
        path: "/spec/volumes/-",
        value: {
          name: "xylem-shoot",
          secret: { secretName: "alpha-xylem-shoot", defaultMode: 256, optional: true },
        },
      },
      {
        op: "add",
        path: "/spec/volumes/-",
        value: {
          name: "xylem-seed",
          projected: {
            defaultMode: 256,
            sources: [
              { serviceAccountToken: { path: "token", expirationSeconds: 3600 } },
              {
                configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] },
              },
              {
                downwardAPI: {
                  items: [
                    {
                      path: "namespace",
                      fieldRef: { apiVersion: "v1", fieldPath: "metadata.namespace" },
                    },
                  ],
                },
              },
            ],
          },
        },
      },
      { op: "add", path: "/metadata/annotations/xylem.dev~1injected", value: hashOf(plan) },
      {
        op: "add",
        path: "/metadata/annotations/cluster-autoscaler.kubernetes.io~1safe-to-evict-local-volumes",
        value: "xylem-tun,xylem-state",
      },
    ]);
  },
);

void t.test("a pod without init containers, volumes and annotations gets all three", async (t) => {
  const pod = { metadata: { labels: LABELS }, spec: { containers: [{ name: "prometheus" }] } };
  const plan = planOf(pod);
  t.strictSame(
    plan.patch.map(({ op, path }) => `${op} ${path}`),
    ["add /spec/initContainers", "add /spec/volumes", "add /metadata/annotations"],
  );
  const after = apply(pod, plan.patch);
  t.strictSame(names(after, "initContainers"), ["xylem-gateway"]);
  t.strictSame(names(after, "containers"), ["prometheus"]);
});

void t.test(
  "the user's default container stays what it was, and evictable volumes are only added to",
  async (t) => {
    const after = apply(apiServerPod(), planOf(apiServerPod()).patch);
    t.equal(annotations(after)["kubectl.kubernetes.io/default-container"], "kube-apiserver");
    const named = apiServerPod({
      "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "cache,xylem-tun",
    });
    t.equal(
      annotations(apply(named, planOf(named).patch))[
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
      ],
      "cache,xylem-tun,xylem-state",
    );
  },
);

void t.test(
  "I44 nothing ends the gateway before the API server: no hook before the stop, the pod's grace period untouched",
  async (t) => {
    const pod = apiServerPod();
    const after = apply(pod, planOf(pod).patch);
    const [gateway] = list(spec(after)["initContainers"]);
    t.notOk("lifecycle" in Object(gateway));
    t.equal(spec(after)["terminationGracePeriodSeconds"], 70);
  },
);

void t.test(
  "I43 the startup probe asks for the process only, so that an API server may start before its shoot has nodes",
  async (t) => {
    const [gateway] = list(
      spec(apply(apiServerPod(), planOf(apiServerPod()).patch))["initContainers"],
    );
    t.match(gateway, { startupProbe: { httpGet: { path: "/healthz", port: 9446 } } });
    t.notOk("readinessProbe" in Object(gateway), "a sidecar's readiness counts for its pod");
  },
);

void t.test("I40 requests are always set, and limits as the seed wants them", async (t) => {
  const config = valueOf(
    parseInjectionOptions({ ...OPTIONS, cpuRequest: "50m", cpuLimit: "2", memoryLimit: "1Gi" }),
  );
  const [gateway] = list(
    spec(apply(apiServerPod(), planOf(apiServerPod(), { config }).patch))["initContainers"],
  );
  t.match(gateway, {
    resources: { requests: { cpu: "50m", memory: "64Mi" }, limits: { cpu: "2", memory: "1Gi" } },
  });
});

void t.test("I47 the hash tells configurations apart, and is the same for the same", async (t) => {
  const other = valueOf(parseInjectionOptions({ ...OPTIONS, logLevel: "debug" }));
  t.equal(hashOf(planOf(apiServerPod())), hashOf(planOf(apiServerPod())));
  t.not(hashOf(planOf(apiServerPod())), hashOf(planOf(apiServerPod(), { config: other })));
  t.match(hashOf(planOf(apiServerPod())), /^[0-9a-f]{16}$/);
});

void t.test(
  "I47 a pod that was copied with an outdated gateway gets the current one in its place",
  async (t) => {
    const old = valueOf(parseInjectionOptions({ ...OPTIONS, image: "registry.example/gw:0.0.9" }));
    const copied = apply(apiServerPod(), planOf(apiServerPod(), { config: old }).patch);
    const plan = planOf(copied);
    t.equal(plan.kind, "inject");
    const after = apply(copied, plan.patch);
    t.strictSame(after, apply(apiServerPod(), planOf(apiServerPod()).patch));
  },
);

void t.test(
  "a second injector's container that was put before the gateway comes after it at the reinvocation",
  async (t) => {
    const injected = apply(apiServerPod(), planOf(apiServerPod()).patch);
    const disturbed = structuredClone(injected);
    list(spec(disturbed)["initContainers"]).unshift({ name: "mesh-init" });
    const plan = planOf(disturbed);
    t.strictSame(plan.patch, [
      { op: "move", from: "/spec/initContainers/1", path: "/spec/initContainers/0" },
    ]);
    t.strictSame(names(apply(disturbed, plan.patch), "initContainers"), [
      "xylem-gateway",
      "mesh-init",
      "certs",
    ]);
  },
);

const skips: readonly {
  readonly name: string;
  readonly pod: Json;
  readonly namespace?: PodNamespace;
  readonly code: string;
  readonly isWritten: boolean;
}[] = [
  {
    name: "I30 a pod without the label is left alone without a word",
    pod: { metadata: {}, spec: { containers: [{ name: "a" }] } },
    code: "not-labelled",
    isWritten: false,
  },
  {
    name: "I30 a pod of the injector's own namespace is left alone, label or not",
    pod: apiServerPod(),
    namespace: { name: "xylem", labels: {} },
    code: "own-namespace",
    isWritten: false,
  },
  {
    name: "I39 a hostNetwork pod is skipped, with the reason in its annotations",
    pod: { metadata: { labels: labels() }, spec: { hostNetwork: true, containers: [] } },
    code: "host-network",
    isWritten: true,
  },
  {
    name: "I39 a pod with its own gateway as an init container is skipped, with the reason in its annotations",
    pod: {
      metadata: { labels: labels(), annotations: {} },
      spec: { initContainers: [{ name: "xylem-gateway" }], containers: [] },
    },
    code: "own-gateway",
    isWritten: true,
  },
  {
    name: "I39 a pod with its own gateway among its containers is skipped, with the reason in its annotations",
    pod: { metadata: { labels: labels() }, spec: { containers: [{ name: "xylem-gateway" }] } },
    code: "own-gateway",
    isWritten: true,
  },
];

for (const { name, pod, namespace, code, isWritten } of skips) {
  void t.test(name, async (t) => {
    const plan = planOf(pod, namespace === undefined ? {} : { namespace });
    t.match(plan, { kind: "skip", code });
    t.equal(plan.patch.length > 0, isWritten);
    if (!isWritten) return;
    const after = apply(pod, plan.patch);
    t.match(annotations(after)["xylem.dev/injection-skipped"], `${code}: `);
    t.strictSame(planOf(after).patch, [], "said once");
  });
}

const refusals: readonly {
  readonly name: string;
  readonly change: (pod: Json) => void;
  readonly namespace?: PodNamespace;
  readonly code: string;
  readonly says: RegExp;
}[] = [
  {
    name: "a namespace that enforces baseline is said before the pod fails",
    change: () => undefined,
    namespace: level("baseline"),
    code: "pod-security",
    says: /level baseline.*enforce=privileged/,
  },
  {
    name: "a namespace that enforces restricted is said before the pod fails",
    change: () => undefined,
    namespace: level("restricted"),
    code: "pod-security",
    says: /level restricted/,
  },
  {
    name: "a namespace with a level that nobody knows counts as restricted",
    change: () => undefined,
    namespace: level("paranoid"),
    code: "pod-security",
    says: /level restricted/,
  },
  {
    name: "a label that can't be the name of a Tunnel is refused",
    change: (pod) => setMeta(pod, "labels", { "xylem.dev/tunnel": "Al_pha" }),
    code: "bad-tunnel-name",
    says: /found "Al_pha"/,
  },
  {
    name: "a mode that this version lacks is refused",
    change: (pod) => setMeta(pod, "annotations", { "xylem.dev/mode": "proxy" }),
    code: "mode-not-supported",
    says: /found "proxy"/,
  },
  {
    name: "a selector of pods that is none is refused",
    change: (pod) => setMeta(pod, "annotations", { "xylem.dev/discover-pods": "$(POD_IP)" }),
    code: "bad-annotation",
    says: /xylem\.dev\/discover-pods: must be a label selector, e\.g\. app=web/,
  },
  {
    name: "a port that is no port is refused",
    change: (pod) => setMeta(pod, "annotations", { "xylem.dev/status-port": "70000" }),
    code: "bad-annotation",
    says: /port from 1 to 65535, found "70000"/,
  },
  {
    name: "a Secret name that is none is refused",
    change: (pod) => setMeta(pod, "annotations", { "xylem.dev/kubeconfig-secret": "../x" }),
    code: "bad-annotation",
    says: /name of a Secret/,
  },
  {
    name: "a pod whose container has the status port is refused, with the annotation that helps",
    change: (pod) => {
      spec(pod)["containers"] = [{ name: "a", ports: [{ containerPort: 9446 }] }];
    },
    code: "port-taken",
    says: /container a has port 9446.*xylem\.dev\/status-port/,
  },
  {
    name: "a pod with a volume of our name is refused",
    change: (pod) => {
      spec(pod)["volumes"] = [{ name: "xylem-tun", emptyDir: {} }];
    },
    code: "name-taken",
    says: /volume xylem-tun/,
  },
  {
    name: "a Windows pod is refused",
    change: (pod) => {
      spec(pod)["os"] = { name: "windows" };
    },
    code: "not-linux",
    says: /Linux/,
  },
];

for (const { name, change, namespace, code, says } of refusals) {
  void t.test(name, async (t) => {
    const pod = apiServerPod();
    change(pod);
    const plan = planOf(pod, namespace === undefined ? {} : { namespace });
    t.match(plan, { kind: "refuse", code, sentence: says });
  });
}

void t.test(
  "annotations choose another Secret, another port, and pods for Prometheus",
  async (t) => {
    const pod = apiServerPod({
      "xylem.dev/kubeconfig-secret": "monitoring-shoot",
      "xylem.dev/status-port": "9500",
      "xylem.dev/discover-pods": "app=web,!canary",
    });
    spec(pod)["containers"] = [{ name: "a", ports: [{ containerPort: 9446 }] }];
    const after = JSON.stringify(apply(pod, planOf(pod).patch));
    t.match(after, /"secretName":"monitoring-shoot"/);
    t.match(after, /--status-port=9500/);
    t.match(after, /"--discover-pods=app=web,!canary"/);
  },
);

void t.test(
  "a seed whose unlabelled namespaces are baseline refuses there, and not where the label says privileged",
  async (t) => {
    const config = valueOf(parseInjectionOptions({ ...OPTIONS, podSecurityDefault: "baseline" }));
    t.equal(planOf(apiServerPod(), { config }).kind, "refuse");
    t.equal(planOf(apiServerPod(), { config, namespace: level("privileged") }).kind, "inject");
  },
);

void t.test(
  "injected twice is injected once, whatever the pod and whatever another injector does before and after",
  async (t) => {
    fc.assert(
      fc.property(anyPod, anyInjector, anyInjector, (pod, before, after) => {
        const given = before(structuredClone(pod));
        const first = planOf(given);
        if (first.kind !== "inject") return true;
        const once = apply(given, first.patch);
        checkInjected(once, given);
        if (planOf(once).kind !== "skip")
          throw new Error("a second injection has something to add");
        const disturbed = after(defaulted(once));
        const again = apply(disturbed, planOf(disturbed).patch);
        checkInjected(again, disturbed);
        const last = planOf(again);
        return last.kind === "skip" && last.code === "already-injected";
      }),
      { numRuns: 500 },
    );
    t.pass();
  },
);

// Helpers.

const OPTIONS = { image: "registry.example/xylem-gateway:0.1.0", ownNamespace: "xylem" };
const LABELS = labels();

function labels(): Json {
  return { app: "kubernetes", "xylem.dev/tunnel": "alpha" };
}

function level(name: string): PodNamespace {
  return { ...NAMESPACE, labels: { "pod-security.kubernetes.io/enforce": name } };
}

function apiServerPod(more: Json = {}): Json {
  return {
    metadata: {
      generateName: "kube-apiserver-5d9f-",
      labels: labels(),
      annotations: { "kubectl.kubernetes.io/default-container": "kube-apiserver", ...more },
    },
    spec: {
      terminationGracePeriodSeconds: 70,
      securityContext: { runAsNonRoot: true, runAsUser: 65_532 },
      initContainers: [{ name: "certs" }],
      containers: [{ name: "kube-apiserver", ports: [{ containerPort: 443 }] }],
      volumes: [{ name: "keys", secret: { secretName: "keys" } }],
    },
  };
}

function planOf(
  pod: Json,
  {
    config = CONFIG,
    namespace = NAMESPACE,
  }: { config?: InjectionConfig; namespace?: PodNamespace } = {},
): InjectionPlan & { readonly patch: readonly JsonPatchOperation[] } {
  const plan = planInjection({ pod: valueOf(parseInjectablePod(pod)), namespace, config });
  return plan.kind === "refuse" ? { ...plan, patch: [] } : plan;
}

function hashOf(plan: InjectionPlan): string {
  if (plan.kind !== "inject") throw new Error(`not injected: ${plan.sentence}`);
  return plan.hash;
}

const object = (value: unknown): Json => {
  if (typeof value !== "object" || value === null) throw new Error("not an object");
  return Object(value);
};
const list = (value: unknown): Json[] => {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw new Error("not a list");
  return value;
};
const spec = (pod: Json): Json => object(pod["spec"]);
const annotations = (pod: Json): Json => object(object(pod["metadata"])["annotations"] ?? {});
const names = (pod: Json, field: string): unknown[] => list(spec(pod)[field]).map((c) => c["name"]);
const setMeta = (pod: Json, field: string, value: Json): void => {
  object(pod["metadata"])[field] = value;
};

/** One gateway, first, and nothing of the pod lost or reordered. */
function checkInjected(after: Json, before: Json): void {
  const inits = names(after, "initContainers");
  if (inits[0] !== "xylem-gateway" || inits.lastIndexOf("xylem-gateway") !== 0) {
    throw new Error(`not exactly one gateway in front: ${inits.join()}`);
  }
  const ours = (name: unknown): boolean => String(name).startsWith("xylem-");
  for (const field of ["initContainers", "containers", "volumes"]) {
    const theirs = (pod: Json): string =>
      JSON.stringify(list(spec(pod)[field]).filter((item) => !ours(item["name"])));
    if (theirs(after) !== theirs(before)) throw new Error(`${field} of others changed`);
  }
  const volumes = names(after, "volumes").filter(ours);
  if (volumes.length !== 4 || new Set(volumes).size !== 4) throw new Error("not four volumes");
  for (const [name, text] of Object.entries(annotations(before))) {
    const isOurs = name.startsWith("xylem.dev/") || name.startsWith("cluster-autoscaler");
    if (!isOurs && annotations(after)[name] !== text) throw new Error(`${name} changed`);
  }
}

/** What an API server fills in between two calls of a webhook. */
function defaulted(pod: Json): Json {
  const clone = structuredClone(pod);
  for (const container of [
    ...list(spec(clone)["initContainers"]),
    ...list(spec(clone)["containers"]),
  ]) {
    container["terminationMessagePath"] ??= "/dev/termination-log";
    container["terminationMessagePolicy"] ??= "File";
  }
  return clone;
}

const anyName = fc
  .stringMatching(/^[a-z][a-z0-9-]{0,6}[a-z0-9]$/)
  .filter((n) => !n.startsWith("xylem-"));
const anyContainers = fc.uniqueArray(
  fc.record({ name: anyName, ports: fc.constantFrom([], [{ containerPort: 443 }]) }),
  { selector: (c) => c.name, maxLength: 4 },
);
const optional = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(arbitrary, { nil: undefined });
const anyPod: fc.Arbitrary<Json> = fc
  .record({
    annotations: optional(
      fc.dictionary(
        fc.constantFrom("a/b", "a~b", "~1", "plain", "xylem.dev/injected"),
        fc.string(),
      ),
    ),
    initContainers: optional(anyContainers),
    containers: anyContainers,
    volumes: optional(
      fc.uniqueArray(fc.record({ name: anyName }), { selector: (v) => v.name, maxLength: 4 }),
    ),
  })
  .map(({ annotations: notes, initContainers, containers, volumes }) => ({
    metadata: { labels: labels(), ...(notes === undefined ? {} : { annotations: notes }) },
    spec: {
      containers,
      ...(initContainers === undefined ? {} : { initContainers }),
      ...(volumes === undefined ? {} : { volumes }),
    },
  }));

type Injector = (pod: Json) => Json;
const addInit =
  (where: "unshift" | "push"): Injector =>
  (pod) => {
    const inits = list(spec(pod)["initContainers"]);
    if (!inits.some((c) => c["name"] === "mesh-proxy")) inits[where]({ name: "mesh-proxy" });
    spec(pod)["initContainers"] = inits;
    return pod;
  };
const addVariables: Injector = (pod) => {
  for (const c of [...list(spec(pod)["initContainers"]), ...list(spec(pod)["containers"])]) {
    c["env"] = [...list(c["env"]), { name: "MESH", value: "1" }];
  }
  return pod;
};
const addVolumeFirst: Injector = (pod) => {
  const volumes = list(spec(pod)["volumes"]);
  if (!volumes.some((v) => v["name"] === "mesh-data")) volumes.unshift({ name: "mesh-data" });
  spec(pod)["volumes"] = volumes;
  return pod;
};
const addNote: Injector = (pod) => {
  setMeta(pod, "annotations", { ...annotations(pod), "mesh/injected": "yes" });
  return pod;
};
const anyInjector = fc
  .subarray<Injector>([addInit("unshift"), addInit("push"), addVariables, addVolumeFirst, addNote])
  .map(
    (steps): Injector =>
      (pod) =>
        steps.reduce((made, step) => step(made), pod),
  );
