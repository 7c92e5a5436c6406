/** Answers the API server's question about a new pod: with the gateway, without, or no, and tells why. */

import { parseInjectablePod, parsePodOwner } from "#src/codec/pod-codec.ts";
import { whatIsMissing } from "#src/host/kube/readings.ts";
import type { AdmissionRequest, AdmissionVerdict } from "#src/model/admission.ts";
import type { InjectablePod, InjectionConfig, PodNamespace } from "#src/model/injection.ts";
import { type InjectionPlan, planInjection } from "#src/plan/injection/injection-plan.ts";
import type { Kube, KubeObject, Reflector } from "#src/ports/kube.ts";
import { NAMESPACES } from "#src/ports/kube-resource.ts";
import type { InjectionNews } from "./injection-events.ts";

export interface InjectorParts {
  readonly kube: Kube;
  readonly config: InjectionConfig;
  readonly onDecision: (plan: InjectionPlan) => void;
  /** Hears of every skip and refusal that a person should know of; not of dry runs. */
  readonly onNews: (news: InjectionNews) => void;
  /** Namespaces came, went, or changed a label. */
  readonly onNamespaces?: () => void;
}

const NOTHING: AdmissionVerdict = { kind: "allow", patch: [], warnings: [] };

export class Injector {
  readonly #parts: InjectorParts;
  readonly #namespaces: Reflector;

  /** Starts to watch namespaces at once. */
  constructor(parts: InjectorParts) {
    this.#parts = parts;
    this.#namespaces = parts.kube.reflect(NAMESPACES, {
      onChange: () => parts.onNamespaces?.(),
      prune: labelsOnly,
    });
  }

  /** Null: namespaces are known. */
  problem(): string | null {
    return whatIsMissing("the seed's API server", [this.#namespaces]);
  }

  /** By name; null: not listed yet. */
  namespaces(): ReadonlyMap<string, PodNamespace> | null {
    const { items } = this.#namespaces;
    if (items === null) return null;
    return new Map([...items].map(([name, object]) => [name, namespaceOf(object)]));
  }

  /** The admission handler of `/inject`. Throws HostError when a namespace that is not known can't be asked for. */
  readonly review = async (request: AdmissionRequest): Promise<AdmissionVerdict> => {
    if (request.kind !== "v1/Pod" || request.operation !== "CREATE" || request.namespace === null) {
      return NOTHING;
    }
    const pod = parseInjectablePod(request.object);
    if (!pod.ok) return { kind: "deny", code: 422, message: `xylem: ${pod.problem}` };
    const namespace = await this.#namespace(request.namespace);
    const plan = planInjection({ pod: pod.value, namespace, config: this.#parts.config });
    this.#parts.onDecision(plan);
    switch (plan.kind) {
      case "inject":
        return { kind: "allow", patch: plan.patch, warnings: [] };
      case "refuse":
        this.#tell(request, pod.value, plan);
        return { kind: "deny", code: 403, message: `xylem: ${plan.code}: ${plan.sentence}` };
      case "skip":
        if (!isNews(plan)) return NOTHING;
        this.#tell(request, pod.value, plan);
        return {
          kind: "allow",
          patch: plan.patch,
          warnings: [`xylem: no gateway: ${plan.code}: ${plan.sentence}`],
        };
    }
  };

  stop(): void {
    this.#namespaces.stop();
  }

  /** A namespace that was made a moment ago may not have come by the watch yet. */
  async #namespace(name: string): Promise<PodNamespace> {
    const known = this.#namespaces.items?.get(name);
    return namespaceOf(known ?? (await this.#parts.kube.get(NAMESPACES, { name })));
  }

  #tell(
    request: AdmissionRequest,
    pod: InjectablePod,
    plan: InjectionPlan & { readonly kind: "skip" | "refuse" },
  ): void {
    if (request.isDryRun || request.namespace === null) return;
    this.#parts.onNews({
      namespace: request.namespace,
      pod: pod.name,
      isNamed: request.name !== null,
      owner: parsePodOwner(request.object),
      kind: plan.kind,
      code: plan.code,
      sentence: plan.sentence,
    });
  }
}

/** Skips that somebody who asked for a tunnel did not ask for. */
const isNews = (plan: InjectionPlan & { readonly kind: "skip" }): boolean => {
  switch (plan.code) {
    case "host-network":
    case "own-gateway":
      return true;
    case "not-labelled":
    case "own-namespace":
    case "already-injected":
      return false;
  }
};

const namespaceOf = ({ metadata }: KubeObject): PodNamespace => ({
  name: metadata.name,
  labels: metadata.labels ?? {},
});

const labelsOnly = ({ metadata }: KubeObject): KubeObject => {
  const { name, uid, resourceVersion, labels } = metadata;
  return {
    metadata: {
      name,
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
      ...(labels === undefined ? {} : { labels }),
    },
  };
};
