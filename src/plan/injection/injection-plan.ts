/** Decides whether a pod gets the gateway sidecar, and the JSON patch that adds it (RFC 6902). */

import type { JsonPatchOperation } from "#src/model/admission.ts";
import {
  ANNOTATION,
  GATEWAY_CONTAINER,
  type InjectablePod,
  type InjectionConfig,
  type PodNamespace,
  type RefusalCode,
  type SkipCode,
  TUNNEL_LABEL,
} from "#src/model/injection.ts";
import { podSecurityLevel } from "#src/model/injection-config.ts";
import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import { contentHash } from "./content-hash.ts";
import {
  GATEWAY_VOLUMES,
  type GatewayParts,
  type GatewayPlacement,
  gatewayParts,
  LOCAL_VOLUMES,
} from "./gateway-container.ts";

export interface InjectionFacts {
  readonly pod: InjectablePod;
  readonly namespace: PodNamespace;
  readonly config: InjectionConfig;
}

export type InjectionPlan =
  | {
      readonly kind: "inject";
      readonly hash: string;
      readonly patch: readonly JsonPatchOperation[];
    }
  /** The pod starts without a gateway of ours; the patch writes the reason into it, where that is news to somebody. */
  | {
      readonly kind: "skip";
      readonly code: SkipCode;
      readonly sentence: string;
      readonly patch: readonly JsonPatchOperation[];
    }
  /** The pod must not be made: it asks for a tunnel that it can't have. */
  | { readonly kind: "refuse"; readonly code: RefusalCode; readonly sentence: string };

const ENFORCE_LABEL = "pod-security.kubernetes.io/enforce";
/** Volumes on the node keep the cluster autoscaler from removing it, unless they are named here. */
const EVICTABLE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
/** A label selector's characters: nothing that could become a second argument or a variable of the container. */
const SELECTOR = /^[A-Za-z0-9!][-A-Za-z0-9_./=!, ()]{0,252}$/;
const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** Plans one pod. Planned again after its own patch, or with another injector's in between, it has nothing to add. */
export const planInjection = (facts: InjectionFacts): InjectionPlan => {
  const { pod, namespace, config } = facts;
  const tunnel = pod.labels[TUNNEL_LABEL];
  if (tunnel === undefined) return silentSkip("not-labelled", "the pod does not ask for a tunnel");
  if (namespace.name === config.ownNamespace) {
    return silentSkip("own-namespace", "the injector's own namespace never gets gateways");
  }
  const skip = visibleSkip(pod);
  if (skip !== null) return skip;
  const refusal = refusalOf(facts);
  if (refusal !== null) return refusal;
  const placement = placementOf(facts, tunnel);
  if (!placement.ok) return refuse("bad-annotation", placement.problem);
  const occupied = occupiedBy(pod, placement.value);
  if (occupied !== null) return occupied;
  return planPatch(pod, gatewayParts(config, placement.value));
};

const planPatch = (pod: InjectablePod, parts: GatewayParts): InjectionPlan => {
  const hash = contentHash(parts);
  const at = gatewayIndex(pod);
  const isCurrent = at >= 0 && pod.annotations[ANNOTATION.injected] === hash;
  const patch = isCurrent
    ? moveToFront(at)
    : [...containerPatch(pod, parts), ...volumePatch(pod, parts), ...annotationPatch(pod, hash)];
  return patch.length === 0
    ? silentSkip("already-injected", "the pod has this gateway already, and first")
    : { kind: "inject", hash, patch };
};

/** True when the gateway in the pod was put there by us, whatever its version. */
export const isInjected = (pod: InjectablePod): boolean =>
  pod.annotations[ANNOTATION.injected] !== undefined && gatewayIndex(pod) >= 0;

const gatewayIndex = (pod: InjectablePod): number =>
  pod.initContainers.findIndex(({ name }) => name === GATEWAY_CONTAINER);

const silentSkip = (code: SkipCode, sentence: string): InjectionPlan => ({
  kind: "skip",
  code,
  sentence,
  patch: [],
});

const refuse = (code: RefusalCode, sentence: string): InjectionPlan => ({
  kind: "refuse",
  code,
  sentence,
});

const visibleSkip = (pod: InjectablePod): InjectionPlan | null => {
  const skip = (code: SkipCode, sentence: string): InjectionPlan => {
    const text = `${code}: ${sentence}`;
    const patch =
      pod.annotations[ANNOTATION.skipped] === text
        ? []
        : setAnnotations(pod, { [ANNOTATION.skipped]: text });
    return { kind: "skip", code, sentence, patch };
  };
  if (pod.isHostNetwork) {
    return skip(
      "host-network",
      "the pod shares its node's network, where a tunnel would be everybody's: take hostNetwork or the label away",
    );
  }
  const hasOwn = [...pod.initContainers, ...pod.containers].some(
    ({ name }) => name === GATEWAY_CONTAINER,
  );
  return hasOwn && !isInjected(pod)
    ? skip(
        "own-gateway",
        `the pod brings its own container ${GATEWAY_CONTAINER}, which is left alone`,
      )
    : null;
};

const refusalOf = ({ pod, namespace, config }: InjectionFacts): InjectionPlan | null => {
  const tunnel = pod.labels[TUNNEL_LABEL] ?? "";
  if (!NAME.test(tunnel)) {
    return refuse(
      "bad-tunnel-name",
      `label ${TUNNEL_LABEL}: must be the name of a Tunnel, found ${quoted(tunnel)}`,
    );
  }
  if (pod.isWindows)
    return refuse("not-linux", "a gateway needs a Linux pod, spec.os says windows");
  const mode = pod.annotations[ANNOTATION.mode] ?? "tun";
  if (mode !== "tun") {
    return refuse(
      "mode-not-supported",
      `annotation ${ANNOTATION.mode}: this version has the mode tun only, found ${quoted(mode)}`,
    );
  }
  const label = namespace.labels[ENFORCE_LABEL];
  // An unknown level counts as the strictest one, as in the API server.
  const level =
    label === undefined ? config.podSecurityDefault : (podSecurityLevel(label) ?? "restricted");
  return level === "privileged"
    ? null
    : refuse(
        "pod-security",
        `namespace ${namespace.name} enforces Pod Security level ${level}, which forbids NET_ADMIN and the TUN device of a gateway: label the namespace ${ENFORCE_LABEL}=privileged`,
      );
};

const placementOf = (
  { pod, namespace, config }: InjectionFacts,
  tunnel: string,
): Parsed<GatewayPlacement> => {
  const kubeconfigSecret = pod.annotations[ANNOTATION.kubeconfigSecret] ?? `${tunnel}-xylem-shoot`;
  if (!NAME.test(kubeconfigSecret)) {
    return problem(
      `annotation ${ANNOTATION.kubeconfigSecret}: must be the name of a Secret, found ${quoted(kubeconfigSecret)}`,
    );
  }
  const discoverPods = pod.annotations[ANNOTATION.discoverPods] ?? null;
  if (discoverPods !== null && !SELECTOR.test(discoverPods)) {
    return problem(
      `annotation ${ANNOTATION.discoverPods}: must be a label selector, e.g. app=web, found ${quoted(discoverPods)}`,
    );
  }
  const text = pod.annotations[ANNOTATION.statusPort] ?? String(config.statusPort);
  const statusPort = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return statusPort >= 1 && statusPort <= 65_535
    ? parsed({ namespace: namespace.name, tunnel, kubeconfigSecret, statusPort, discoverPods })
    : problem(
        `annotation ${ANNOTATION.statusPort}: must be a port from 1 to 65535, found ${quoted(text)}`,
      );
};

const occupiedBy = (pod: InjectablePod, { statusPort }: GatewayPlacement): InjectionPlan | null => {
  const holder = [...pod.initContainers, ...pod.containers].find(
    ({ name, ports }) => name !== GATEWAY_CONTAINER && ports.includes(statusPort),
  );
  if (holder !== undefined) {
    return refuse(
      "port-taken",
      `container ${holder.name} has port ${statusPort}, which the gateway's probes need: give another with annotation ${ANNOTATION.statusPort}`,
    );
  }
  const taken = pod.volumes.find((name) => GATEWAY_VOLUMES.includes(name));
  return taken === undefined || isInjected(pod)
    ? null
    : refuse("name-taken", `the pod has a volume ${taken} of its own: give it another name`);
};

/** Another injector may have put its container before ours; theirs may need the tunnel too. */
const moveToFront = (at: number): readonly JsonPatchOperation[] =>
  at === 0
    ? []
    : [{ op: "move", from: `/spec/initContainers/${at}`, path: "/spec/initContainers/0" }];

const containerPatch = (
  pod: InjectablePod,
  { container }: GatewayParts,
): readonly JsonPatchOperation[] => {
  if (!pod.hasInitContainers) {
    return [{ op: "add", path: "/spec/initContainers", value: [container] }];
  }
  const at = gatewayIndex(pod);
  const outdated: readonly JsonPatchOperation[] =
    at < 0 ? [] : [{ op: "remove", path: `/spec/initContainers/${at}` }];
  return [...outdated, { op: "add", path: "/spec/initContainers/0", value: container }];
};

const volumePatch = (
  pod: InjectablePod,
  { volumes }: GatewayParts,
): readonly JsonPatchOperation[] => {
  if (!pod.hasVolumes) return [{ op: "add", path: "/spec/volumes", value: volumes }];
  return volumes.map((value) => {
    const at = pod.volumes.indexOf(value.name);
    return at < 0
      ? { op: "add", path: "/spec/volumes/-", value }
      : { op: "replace", path: `/spec/volumes/${at}`, value };
  });
};

const annotationPatch = (pod: InjectablePod, hash: string): readonly JsonPatchOperation[] => {
  const named = (pod.annotations[EVICTABLE_VOLUMES] ?? "").split(",").filter((name) => name !== "");
  const evictable = [...named, ...LOCAL_VOLUMES.filter((name) => !named.includes(name))].join(",");
  return setAnnotations(pod, { [ANNOTATION.injected]: hash, [EVICTABLE_VOLUMES]: evictable });
};

const setAnnotations = (
  pod: InjectablePod,
  annotations: Readonly<Record<string, string>>,
): readonly JsonPatchOperation[] => {
  if (!pod.hasAnnotations) {
    return [{ op: "add", path: "/metadata/annotations", value: annotations }];
  }
  // "add" of a member that exists replaces it (RFC 6902, 4.1).
  return Object.entries(annotations).map(([name, value]) => ({
    op: "add",
    path: `/metadata/annotations/${pointerPart(name)}`,
    value,
  }));
};

/** One reference token of a JSON pointer (RFC 6901, 3). */
const pointerPart = (text: string): string => text.replaceAll("~", "~0").replaceAll("/", "~1");
