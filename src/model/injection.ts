/** What the injector knows of a pod, and how it is set up, as plain data. */

/** The label that asks for a tunnel; its value is the Tunnel's name. */
export const TUNNEL_LABEL = "xylem.dev/tunnel";

/** Annotations that the injector reads (first three) or writes (last two). */
export const ANNOTATION = {
  /** Mode of the gateway instead of the seed's default. */
  mode: "xylem.dev/mode",
  /** Name of the Secret with the shoot's kubeconfig, instead of `<tunnel>-xylem-shoot`. */
  kubeconfigSecret: "xylem.dev/kubeconfig-secret",
  /** Port of the gateway's probes and metrics, where the usual one is taken in the pod. */
  statusPort: "xylem.dev/status-port",
  /** Label selector of the pods that the gateway tells Prometheus of; the shoot must allow that they are listed. */
  discoverPods: "xylem.dev/discover-pods",
  /** Hash of what was injected: tells stale pods apart. */
  injected: "xylem.dev/injected",
  /** Why nothing was injected: `code: sentence`. */
  skipped: "xylem.dev/injection-skipped",
} as const;

export const GATEWAY_CONTAINER = "xylem-gateway";

export type PodSecurityLevel = "privileged" | "baseline" | "restricted";

/** The injector's options after their checks; the same for all pods of a seed. */
export interface InjectionConfig {
  readonly image: string;
  readonly imagePullPolicy: "Always" | "IfNotPresent" | "Never";
  /** The namespace of the controller: nothing is ever injected there. */
  readonly ownNamespace: string;
  readonly requests: Readonly<Record<string, string>>;
  readonly limits: Readonly<Record<string, string>>;
  /** Port of /healthz, /readyz, /metrics and /status in the pod. */
  readonly statusPort: number;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  /** UDP sockets of a gateway towards the balancer. */
  readonly paths: number;
  /** The level of namespaces without a label, as the seed's API server has it. */
  readonly podSecurityDefault: PodSecurityLevel;
}

export interface PodContainer {
  readonly name: string;
  /** Container ports that it declares. */
  readonly ports: readonly number[];
}

/** The parts of a Pod that injection looks at. */
export interface InjectablePod {
  /** The name, or what is known of it before the API server makes it: `kube-apiserver-`. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** False: `metadata.annotations` must be made before one can be added. */
  readonly hasAnnotations: boolean;
  readonly isHostNetwork: boolean;
  readonly isWindows: boolean;
  readonly initContainers: readonly PodContainer[];
  readonly hasInitContainers: boolean;
  readonly containers: readonly PodContainer[];
  /** Names, in the order of the object. */
  readonly volumes: readonly string[];
  readonly hasVolumes: boolean;
}

/** The controller of a pod, e.g. its ReplicaSet. */
export interface PodOwner {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

/** A labelled pod that exists. */
export interface AuditedPod {
  readonly pod: InjectablePod;
  readonly namespace: string;
  readonly uid: string;
  /** Milliseconds since 1970. */
  readonly createdMs: number;
  readonly owner: PodOwner | null;
  readonly isReady: boolean;
  /** It is being deleted, or all its containers have ended. */
  readonly isEnding: boolean;
}

/** The namespace that a pod is made in. */
export interface PodNamespace {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** Why a pod gets no gateway and yet may start. */
export type SkipCode =
  | "not-labelled"
  | "own-namespace"
  | "host-network"
  | "own-gateway"
  | "already-injected";

/** Why a pod that asks for a tunnel can't have one and must not start without. */
export type RefusalCode =
  | "bad-tunnel-name"
  | "bad-annotation"
  | "mode-not-supported"
  | "pod-security"
  | "port-taken"
  | "name-taken"
  | "not-linux";
