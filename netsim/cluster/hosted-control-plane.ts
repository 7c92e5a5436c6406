/** The control plane of a shoot as pods of its seed: what a provider's own program would make in the shoot's namespace. */

import { dirname } from "node:path";
import { basicControllers, workloadControllers } from "./control-plane.ts";
import { apiServerFlags, etcdFlags, managerFlags, schedulerFlags } from "./control-plane-flags.ts";
import { flagList } from "./flags.ts";
import type { Flags } from "./flags.ts";
import type { ClusterKeys } from "./pki.ts";
import type { Programs } from "./programs.ts";
import { podImage } from "./workloads.ts";
import type { Manifest } from "./workloads.ts";

export interface HostedSpec {
  readonly namespace: string;
  readonly programs: Programs;
  /** Of the shoot, on the seed's nodes at the same path. */
  readonly keys: ClusterKeys;
  /** Kubeconfigs of the shoot that name the API server's Service. */
  readonly kubeconfigs: { readonly manager: string; readonly scheduler: string };
  /** etcd's disk, on the seed's node. */
  readonly etcdFolder: string;
  /** Where the shoot's nodes and pods find the API server. */
  readonly publicAddress: string;
  readonly publicPort: number;
  /** The seed's own address of that, from the outside. */
  readonly nodePort: number;
  readonly serviceRange: string;
  readonly etcdService: string;
  readonly apiServerService: string;
}

/** The Deployment that gets a gateway. */
export const apiServerName = "kube-apiserver";
/** Requests of an API server that ends are answered this long, while its clients learn that it goes. */
const drainSeconds = 5;

type Labels = Readonly<Record<string, string>>;
type Container = Readonly<Record<string, unknown>>;

/** Everything in the shoot's namespace, for `kubectl create`; labels for a tunnel come later. */
export function hostedControlPlane(spec: HostedSpec): Manifest {
  return [
    service(spec, "etcd", { clusterIP: spec.etcdService, ports: [{ port: 2379 }] }),
    service(spec, apiServerName, {
      type: "NodePort",
      clusterIP: spec.apiServerService,
      ports: [{ port: 443, targetPort: spec.publicPort, nodePort: spec.nodePort }],
    }),
    etcd(spec),
    deployment(spec, apiServerName, apiServer(spec)),
    deployment(spec, "kube-controller-manager", controllerManager(spec)),
    deployment(spec, "kube-scheduler", scheduler(spec)),
  ];
}

function service({ namespace }: HostedSpec, name: string, rest: object): Manifest[number] {
  const metadata = { namespace, name };
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata,
    spec: { selector: { app: name }, ...rest },
  };
}

function etcd(spec: HostedSpec): Manifest[number] {
  const { namespace, etcdFolder } = spec;
  const labels = { app: "etcd" };
  const flags = etcdFlags({
    dataFolder: "/data",
    address: "0.0.0.0",
    advertisedAddress: spec.etcdService,
  });
  const container = {
    ...program(spec, "etcd", flags),
    readinessProbe: { tcpSocket: { port: 2379 }, periodSeconds: 1 },
  };
  const template = podTemplate(spec, labels, {
    ...container,
    volumeMounts: [...container.volumeMounts, { name: "data", mountPath: "/data" }],
  });
  template.spec.volumes.push({ name: "data", hostPath: { path: etcdFolder } });
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { namespace, name: "etcd" },
    spec: { replicas: 1, serviceName: "etcd", selector: { matchLabels: labels }, template },
  };
}

function deployment(spec: HostedSpec, name: string, container: Container): Manifest[number] {
  const labels = { app: name };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { namespace: spec.namespace, name },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      strategy: { rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
      template: podTemplate(spec, labels, container),
    },
  };
}

function apiServer(spec: HostedSpec): Container {
  const flags = {
    ...apiServerFlags({
      etcdServer: `http://${spec.etcdService}:2379`,
      port: spec.publicPort,
      advertiseAddress: spec.publicAddress,
      serviceRange: spec.serviceRange,
      keys: spec.keys,
      runFolder: "/tmp",
    }),
    // All replicas are behind one public address, which each would take out of the endpoints when it ends.
    "endpoint-reconciler-type": "none",
    "shutdown-delay-duration": `${drainSeconds}s`,
  };
  const probe = (path: string) => ({ path, port: spec.publicPort, scheme: "HTTPS" });
  return {
    ...program(spec, apiServerName, flags),
    readinessProbe: { httpGet: probe("/readyz"), periodSeconds: 1, failureThreshold: 1 },
    livenessProbe: { httpGet: probe("/livez"), periodSeconds: 10, initialDelaySeconds: 60 },
  };
}

function controllerManager(spec: HostedSpec): Container {
  const flags = managerFlags({
    kubeconfig: spec.kubeconfigs.manager,
    keys: spec.keys,
    controllers: [...basicControllers, ...workloadControllers],
    runFolder: "/tmp",
  });
  return program(spec, "kube-controller-manager", flags);
}

function scheduler(spec: HostedSpec): Container {
  const flags = schedulerFlags({ kubeconfig: spec.kubeconfigs.scheduler, runFolder: "/tmp" });
  return program(spec, "kube-scheduler", flags);
}

function program(spec: HostedSpec, name: string, flags: Flags) {
  const folders = { programs: dirname(spec.programs.hyperkube), keys: spec.keys.folder };
  return {
    name,
    image: podImage,
    imagePullPolicy: "Never",
    command: [spec.programs.hyperkube, name, ...flagList(flags)],
    volumeMounts: Object.entries(folders).map(([volume, mountPath]) => ({
      name: volume,
      mountPath,
    })),
  };
}

function podTemplate(spec: HostedSpec, labels: Labels, container: Container) {
  return {
    metadata: { labels },
    spec: {
      automountServiceAccountToken: false,
      // What is open when an API server has drained (watches, streams) is cut then.
      terminationGracePeriodSeconds: 10,
      // Neither is known in the lab, which has no cluster DNS.
      enableServiceLinks: false,
      containers: [container],
      volumes: [
        { name: "programs", hostPath: { path: dirname(spec.programs.hyperkube) } },
        { name: "keys", hostPath: { path: spec.keys.folder } },
      ] as { name: string; hostPath: { path: string } }[],
    },
  };
}
