/** The audit: which pods lack the current gateway, and which may be made anew now. */

import t from "tap";
import type { AuditedPod, InjectionConfig, PodNamespace } from "#src/model/injection.ts";
import { parseInjectionOptions } from "#src/model/injection-config.ts";
import { valueOf } from "#src/model/parsed.ts";
import { isWhole, planAudit, summarizeAudit } from "./audit-plan.ts";
import { planInjection } from "./injection-plan.ts";

const OPTIONS = { image: "registry.example/xylem-gateway:0.2.0", ownNamespace: "xylem" };
const CONFIG = valueOf(parseInjectionOptions(OPTIONS));
const OLD = valueOf(
  parseInjectionOptions({ ...OPTIONS, image: "registry.example/xylem-gateway:0.1.0" }),
);
const NAMESPACE: PodNamespace = { name: "shoot--lab--alpha", labels: {} };
const NAMESPACES = new Map([[NAMESPACE.name, NAMESPACE]]);
const TUNNEL = { namespace: NAMESPACE.name, name: "alpha" };

void t.test(
  "I47 I31 pods are told apart: current, outdated, without a gateway, behind another, excluded",
  async (t) => {
    const plan = audit([
      injected("a", CONFIG),
      injected("b", OLD),
      bare("c"),
      behind(injected("d", CONFIG)),
      { ...bare("e"), pod: { ...bare("e").pod, isHostNetwork: true } },
      { ...bare("f"), isEnding: true },
      { ...bare("g"), namespace: "unknown" },
      { ...bare("h"), pod: { ...bare("h").pod, labels: {} } },
    ]);
    t.strictSame(plan.counts, { current: 1, outdated: 1, missing: 1, "not-first": 1, excluded: 1 });
    t.strictSame(
      plan.findings.map(({ pod, state }) => `${pod} ${state}`),
      ["b outdated", "c missing", "d not-first", "e excluded"],
    );
    t.strictSame(plan.recreate, [], "nothing is made anew unless told to");
  },
);

void t.test(
  "a tunnel's condition names its stale pods and what to do, and not those of others",
  async (t) => {
    const plan = audit([injected("a", CONFIG), injected("b", OLD), ...many(7)]);
    t.match(summarizeAudit(plan, TUNNEL), {
      status: "False",
      reason: "StalePods",
      message: /restart the workloads of these pods.*b \(outdated\), m0 \(missing\).* and 3 more$/,
    });
    t.match(summarizeAudit(plan, { ...TUNNEL, name: "beta" }), {
      status: "True",
      reason: "Injected",
    });
  },
);

void t.test(
  "told to, it takes one pod of a controller, the oldest, and only while all others are ready",
  async (t) => {
    const old = { ...injected("old", OLD), createdMs: 1 };
    const young = { ...injected("young", OLD), createdMs: 2 };
    const taken = (pods: readonly AuditedPod[]): string[] =>
      audit(pods, true).recreate.map(({ finding }) => finding.pod);
    t.strictSame(taken([young, old, injected("good", CONFIG)]), ["old"]);
    t.strictSame(taken([young, old, { ...injected("good", CONFIG), isReady: false }]), []);
    t.strictSame(taken([young, { ...old, isEnding: true }]), []);
    t.strictSame(taken([{ ...old, owner: null }]), [], "nobody would make it anew");
    const job = { apiVersion: "batch/v1", kind: "Job", name: "j", uid: "j" };
    t.strictSame(taken([{ ...old, owner: job }]), [], "a lost pod of a Job is a failure");
    const other = { apiVersion: "apps/v1", kind: "StatefulSet", name: "p", uid: "p" };
    t.strictSame(taken([young, { ...injected("prom", OLD), owner: other }]), ["young", "prom"]);
  },
);

void t.test(
  "a controller that waits for a pod, or has others than were seen, gives none away",
  async (t) => {
    const set = (replicas: number, readyReplicas?: number) => ({
      spec: { replicas },
      status: { replicas, ...(readyReplicas === undefined ? {} : { readyReplicas }) },
    });
    t.ok(isWhole(set(3, 3), 3));
    t.notOk(isWhole(set(3, 2), 2), "one is being made anew");
    t.notOk(isWhole(set(3, 3), 2), "one has not come by the watch yet");
    t.notOk(isWhole(set(3), 3), "none is ready");
    t.ok(isWhole({ spec: {}, status: { desiredNumberScheduled: 2, numberReady: 2 } }, 2));
    t.notOk(isWhole({ spec: {}, status: { desiredNumberScheduled: 2, numberReady: 1 } }, 1));
    t.notOk(isWhole(null, 0));
  },
);

// Helpers.

function audit(pods: readonly AuditedPod[], mayRecreate = false) {
  return planAudit({ pods, namespaces: NAMESPACES, config: CONFIG, mayRecreate });
}

function bare(name: string): AuditedPod {
  return {
    pod: {
      name,
      labels: { "xylem.dev/tunnel": "alpha" },
      annotations: {},
      hasAnnotations: true,
      isHostNetwork: false,
      isWindows: false,
      initContainers: [],
      hasInitContainers: true,
      containers: [{ name: "kube-apiserver", ports: [443] }],
      volumes: [],
      hasVolumes: true,
    },
    namespace: NAMESPACE.name,
    uid: `uid-${name}`,
    createdMs: 0,
    owner: { apiVersion: "apps/v1", kind: "ReplicaSet", name: "kube-apiserver-1", uid: "rs" },
    isReady: true,
    isEnding: false,
  };
}

function injected(name: string, config: InjectionConfig): AuditedPod {
  const audited = bare(name);
  const plan = planInjection({ pod: audited.pod, namespace: NAMESPACE, config });
  if (plan.kind !== "inject") throw new Error(plan.sentence);
  const annotations = { "xylem.dev/injected": plan.hash };
  const initContainers = [{ name: "xylem-gateway", ports: [9446] }];
  return { ...audited, pod: { ...audited.pod, annotations, initContainers } };
}

function behind(audited: AuditedPod): AuditedPod {
  const initContainers = [{ name: "mesh", ports: [] }, ...audited.pod.initContainers];
  return { ...audited, pod: { ...audited.pod, initContainers } };
}

function many(count: number): AuditedPod[] {
  return Array.from({ length: count }, (_, at) => bare(`m${at}`));
}
