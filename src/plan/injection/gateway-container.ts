/** The gateway as a native sidecar: its container and volumes (KEP-753: an init container with restartPolicy Always). */

import { GATEWAY_CONTAINER, type InjectionConfig } from "#src/model/injection.ts";

/** What differs from pod to pod. */
export interface GatewayPlacement {
  /** Namespace of the pod, its Tunnel and its Secrets. */
  readonly namespace: string;
  readonly tunnel: string;
  readonly kubeconfigSecret: string;
  readonly statusPort: number;
  /** Null: the gateway tells of nodes alone. */
  readonly discoverPods: string | null;
}

/** Kubernetes objects in JSON; the API server checks their shape. */
export interface GatewayParts {
  readonly container: { readonly name: string } & Readonly<Record<string, unknown>>;
  readonly volumes: readonly ({ readonly name: string } & Readonly<Record<string, unknown>>)[];
}

const VOLUME = {
  tun: "xylem-tun",
  state: "xylem-state",
  shoot: "xylem-shoot",
  seed: "xylem-seed",
} as const;

/** Names of all volumes that an injection adds. */
export const GATEWAY_VOLUMES: readonly string[] = Object.values(VOLUME);

/** Those that live on the node; losing them with the pod loses nothing. */
export const LOCAL_VOLUMES: readonly string[] = [VOLUME.tun, VOLUME.state];

const SHOOT_DIR = "/etc/xylem/shoot";
const STATE_DIR = "/var/lib/xylem";
/** Where in-cluster clients look. A mount of ours here also keeps the API server from adding its own. */
const TOKEN_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";
/** The kubelet renews a token after four fifths of this. */
const TOKEN_SECONDS = 3600;
/** The state is one small file; a bug must not fill the node's disk. */
const STATE_SIZE_MAX = "1Mi";
/** Owner only; the gateway is root without the right to pass over file modes. */
const MODE_OWNER_READ = 0o400;

/** Renders the sidecar for `tun` mode. */
export const gatewayParts = (
  config: InjectionConfig,
  placement: GatewayPlacement,
): GatewayParts => ({
  container: {
    name: GATEWAY_CONTAINER,
    image: config.image,
    imagePullPolicy: config.imagePullPolicy,
    restartPolicy: "Always",
    args: gatewayArgs(config, placement),
    env: [fieldVariable("POD_UID", "metadata.uid"), fieldVariable("POD_IP", "status.podIP")],
    ports: [{ name: "xylem-status", containerPort: placement.statusPort, protocol: "TCP" }],
    ...gatewayProbes(placement.statusPort),
    resources: {
      requests: config.requests,
      ...(Object.keys(config.limits).length === 0 ? {} : { limits: config.limits }),
    },
    securityContext: TUN_SECURITY_CONTEXT,
    volumeMounts: [
      { name: VOLUME.tun, mountPath: "/dev/net/tun" },
      { name: VOLUME.state, mountPath: STATE_DIR },
      { name: VOLUME.shoot, mountPath: SHOOT_DIR, readOnly: true },
      { name: VOLUME.seed, mountPath: TOKEN_DIR, readOnly: true },
    ],
  },
  volumes: gatewayVolumes(placement),
});

/**
 * What `tun` mode needs and nothing else. Root, because a capability of a non-root user ends at exec: Kubernetes knows
 * no ambient capabilities (KEP-2763), and file capabilities need privilege escalation. Said in full, because
 * a pod's own runAsNonRoot or runAsUser would be inherited.
 */
const TUN_SECURITY_CONTEXT = {
  privileged: false,
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  runAsNonRoot: false,
  runAsUser: 0,
  runAsGroup: 0,
  capabilities: { drop: ["ALL"], add: ["NET_ADMIN"] },
  seccompProfile: { type: "RuntimeDefault" },
};

const gatewayArgs = (config: InjectionConfig, placement: GatewayPlacement): readonly string[] => [
  `--namespace=${placement.namespace}`,
  `--tunnel=${placement.tunnel}`,
  "--identity=$(POD_UID)",
  `--shoot-kubeconfig=${SHOOT_DIR}/kubeconfig`,
  `--state-dir=${STATE_DIR}`,
  `--paths=${config.paths}`,
  // The kubelet's probes come from outside of the pod; the tunnel's filter lets nothing in.
  "--status-address=$(POD_IP)",
  `--status-port=${placement.statusPort}`,
  `--log-level=${config.logLevel}`,
  ...(placement.discoverPods === null ? [] : [`--discover-pods=${placement.discoverPods}`]),
];

/**
 * Probes ask whether the process serves, never whether the tunnel works. The API server starts after
 * the startup probe, the shoot's nodes join through the API server, and only then can a tunnel work: a probe of the
 * tunnel here, or a readiness probe (a sidecar's counts for its pod), would keep a new or woken shoot down for good.
 */
const gatewayProbes = (port: number): object => ({
  startupProbe: {
    httpGet: { path: "/healthz", port },
    periodSeconds: 1,
    timeoutSeconds: 2,
    failureThreshold: 120,
  },
  livenessProbe: {
    httpGet: { path: "/healthz", port },
    periodSeconds: 10,
    timeoutSeconds: 5,
    failureThreshold: 6,
  },
});

const gatewayVolumes = (placement: GatewayPlacement): GatewayParts["volumes"] => [
  { name: VOLUME.tun, hostPath: { path: "/dev/net/tun", type: "CharDevice" } },
  { name: VOLUME.state, emptyDir: { sizeLimit: STATE_SIZE_MAX } },
  {
    name: VOLUME.shoot,
    // Optional: the API server must start before anybody can make credentials for its shoot.
    secret: {
      secretName: placement.kubeconfigSecret,
      defaultMode: MODE_OWNER_READ,
      optional: true,
    },
  },
  {
    name: VOLUME.seed,
    projected: {
      defaultMode: MODE_OWNER_READ,
      sources: [
        { serviceAccountToken: { path: "token", expirationSeconds: TOKEN_SECONDS } },
        { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
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
];

const fieldVariable = (name: string, fieldPath: string): object => ({
  name,
  valueFrom: { fieldRef: { apiVersion: "v1", fieldPath } },
});
