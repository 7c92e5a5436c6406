/** Looks at all labelled pods, tells which lack the current gateway, and makes them anew one by one when told to. */

import { parseAuditedPod } from "#src/codec/pod-codec.ts";
import { Readings, whatIsMissing } from "#src/host/kube/readings.ts";
import {
  type AuditedPod,
  type InjectionConfig,
  type PodNamespace,
  TUNNEL_LABEL,
} from "#src/model/injection.ts";
import {
  type AuditPlan,
  type AuditSummary,
  isWhole,
  planAudit,
  type Recreation,
  summarizeAudit,
} from "#src/plan/injection/audit-plan.ts";
import type { Clock } from "#src/ports/clock.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject, KubeResource, Reflector } from "#src/ports/kube.ts";
import { PODS } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import { type RunResult, WorkLoop } from "#src/reconcile/loop.ts";

export interface InjectionAuditParts {
  readonly kube: Kube;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly config: InjectionConfig;
  /** Null: not listed yet. */
  readonly namespaces: () => ReadonlyMap<string, PodNamespace> | null;
  /** Deletes stale pods, one of a controller at a time. */
  readonly mayRecreate: boolean;
  /** The findings differ from those before. */
  readonly onChange: () => void;
  readonly onRecreated: () => void;
}

/** Pods change state all the time while workloads roll; the audit is in no hurry. */
const INTERVAL_MS = 2_000;

export class InjectionAudit {
  readonly #parts: InjectionAuditParts;
  readonly #pods: Reflector;
  readonly #readings = new Readings<AuditedPod>("Pod", parseAuditedPod);
  readonly #loop: WorkLoop;
  #plan: AuditPlan | null = null;
  #known = "";

  /** Starts to watch labelled pods at once. */
  constructor(parts: InjectionAuditParts) {
    this.#parts = parts;
    const { kube, clock, random, log } = parts;
    this.#loop = new WorkLoop({
      name: "injection audit",
      run: () => this.#pass(),
      clock,
      random,
      log,
      intervalMsMin: INTERVAL_MS,
    });
    this.#pods = kube.reflect(PODS, {
      labelSelector: TUNNEL_LABEL,
      onChange: () => this.trigger("pods"),
      prune: prunePod,
    });
  }

  /** Null: no look has ended yet. */
  get plan(): AuditPlan | null {
    return this.#plan;
  }

  problem(): string | null {
    return whatIsMissing("the seed's API server", [this.#pods]);
  }

  trigger(reason: string): void {
    this.#loop.trigger(reason);
  }

  /** For a `Tunnel`'s condition; null: not known yet. */
  summary(tunnel: { readonly namespace: string; readonly name: string }): AuditSummary | null {
    return this.#plan === null ? null : summarizeAudit(this.#plan, tunnel);
  }

  async stop(): Promise<void> {
    this.#pods.stop();
    await this.#loop.stop();
  }

  async #pass(): Promise<RunResult> {
    const { config, mayRecreate, log, onChange } = this.#parts;
    const namespaces = this.#parts.namespaces();
    if (this.#pods.items === null || namespaces === null) return { kind: "reached" };
    this.#readings.update(this.#pods.items);
    const pods = this.#readings.values;
    const plan = planAudit({ pods, namespaces, config, mayRecreate });
    this.#plan = plan;
    const findings = JSON.stringify(plan.findings);
    if (findings !== this.#known) {
      this.#known = findings;
      if (plan.findings.length > 0)
        log.warn({ counts: plan.counts }, "pods lack the current gateway");
      onChange();
    }
    for (const recreation of plan.recreate) await this.#recreate(recreation);
    return { kind: "reached" };
  }

  /** The precondition keeps a pod of the same name that was made meanwhile. */
  async #recreate({ finding, owner, siblings }: Recreation): Promise<void> {
    const { kube, log, onRecreated } = this.#parts;
    const { namespace, pod, uid, state } = finding;
    const resource = OWNER_RESOURCES[owner.kind];
    if (resource === undefined) return;
    try {
      const now = await kube.get(resource, { namespace, name: owner.name });
      if (now.metadata.uid !== owner.uid || !isWhole(now, siblings)) return;
      await kube.delete(PODS, { namespace, name: pod }, { uid });
      onRecreated();
      log.info(
        { namespace, pod, state },
        "pod deleted: its controller makes it anew with a gateway",
      );
    } catch (error) {
      if (!isHostError(error) || !["conflict", "not-found"].includes(error.code)) throw error;
    }
  }
}

const APPS = { group: "apps", version: "v1", isNamespaced: true } as const;
const OWNER_RESOURCES: Readonly<Record<string, KubeResource>> = {
  ReplicaSet: { ...APPS, plural: "replicasets", kind: "ReplicaSet" },
  StatefulSet: { ...APPS, plural: "statefulsets", kind: "StatefulSet" },
  DaemonSet: { ...APPS, plural: "daemonsets", kind: "DaemonSet" },
};

/** What `parseAuditedPod` reads. */
const prunePod = (object: KubeObject): KubeObject => {
  const { managedFields: _, ...metadata } = object.metadata;
  const spec: Record<string, unknown> = { ...Object(object["spec"]) };
  const { phase, conditions }: Record<string, unknown> = { ...Object(object["status"]) };
  const names = (list: unknown): unknown =>
    Array.isArray(list) ? list.map((item: unknown) => pick(item, ["name", "ports"])) : list;
  return {
    metadata: { ...metadata, name: object.metadata.name },
    spec: {
      hostNetwork: spec["hostNetwork"],
      os: spec["os"],
      initContainers: names(spec["initContainers"]),
      containers: names(spec["containers"]),
      volumes: names(spec["volumes"]),
    },
    status: {
      phase,
      conditions: Array.isArray(conditions)
        ? conditions.map((item: unknown) => pick(item, ["type", "status"]))
        : [],
    },
  };
};

const pick = (value: unknown, names: readonly string[]): object =>
  Object.fromEntries(Object.entries(Object(value)).filter(([name]) => names.includes(name)));
