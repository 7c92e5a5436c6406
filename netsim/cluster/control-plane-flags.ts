/** The least flags with which the programs of a control plane work, for processes and for pods. */

import type { Flags } from "./flags.ts";
import type { ClusterKeys } from "./pki.ts";

export interface EtcdOptions {
  readonly dataFolder: string;
  /** Where it listens for the API server; peers are on loopback, for there are none. */
  readonly address: string;
  /** Where the API server finds it; default: `address`. */
  readonly advertisedAddress?: string;
}

/** One member without fsync: the lab's disks are in RAM. */
export function etcdFlags({ dataFolder, address, advertisedAddress }: EtcdOptions): Flags {
  const peer = "http://127.0.0.1:2380";
  return {
    "data-dir": dataFolder,
    "unsafe-no-fsync": true,
    "log-level": "warn",
    "listen-client-urls": `http://${address}:2379`,
    "advertise-client-urls": `http://${advertisedAddress ?? address}:2379`,
    "listen-peer-urls": peer,
    "initial-advertise-peer-urls": peer,
    "initial-cluster": `default=${peer}`,
  };
}

export interface ApiServerOptions {
  readonly etcdServer: string;
  readonly port: number;
  /** Where the cluster's nodes and pods find it. */
  readonly advertiseAddress: string;
  /** With a comma between two families. */
  readonly serviceRange: string;
  readonly keys: ClusterKeys;
  readonly runFolder: string;
}

/** With the aggregation layer, and kubelets' certificates checked. */
export function apiServerFlags(options: ApiServerOptions): Flags {
  const { file } = options.keys;
  return {
    "etcd-servers": options.etcdServer,
    "secure-port": options.port,
    "advertise-address": options.advertiseAddress,
    "service-cluster-ip-range": options.serviceRange,
    "client-ca-file": file("ca.crt"),
    "tls-cert-file": file("apiserver.crt"),
    "tls-private-key-file": file("apiserver.key"),
    "kubelet-client-certificate": file("kubelet-client.crt"),
    "kubelet-client-key": file("kubelet-client.key"),
    "kubelet-certificate-authority": file("ca.crt"),
    "kubelet-preferred-address-types": "InternalIP",
    "service-account-issuer": "https://kubernetes.default.svc",
    "service-account-key-file": file("sa.pub"),
    "service-account-signing-key-file": file("sa.key"),
    "authorization-mode": "Node,RBAC",
    "enable-admission-plugins": "NodeRestriction",
    "requestheader-client-ca-file": file("ca.crt"),
    "requestheader-allowed-names": "front-proxy",
    "requestheader-extra-headers-prefix": "X-Remote-Extra-",
    "requestheader-group-headers": "X-Remote-Group",
    "requestheader-username-headers": "X-Remote-User",
    "proxy-client-cert-file": file("front-proxy.crt"),
    "proxy-client-key-file": file("front-proxy.key"),
    "allow-privileged": true,
    profiling: false,
    "cert-dir": options.runFolder,
  };
}

export interface ManagerOptions {
  readonly kubeconfig: string;
  readonly keys: ClusterKeys;
  readonly controllers: readonly string[];
  readonly runFolder: string;
}

/** One replica, so nobody elects. */
export function managerFlags({ kubeconfig, keys, controllers, runFolder }: ManagerOptions): Flags {
  return {
    ...aloneFlags(runFolder),
    kubeconfig,
    // Without its own credentials per controller some are refused (node leases).
    "use-service-account-credentials": true,
    "root-ca-file": keys.file("ca.crt"),
    "service-account-private-key-file": keys.file("sa.key"),
    controllers: controllers.join(","),
    "node-monitor-grace-period": "20s",
  };
}

/** One replica, so nobody elects. */
export function schedulerFlags(options: {
  readonly kubeconfig: string;
  readonly runFolder: string;
}): Flags {
  return {
    ...aloneFlags(options.runFolder),
    kubeconfig: options.kubeconfig,
    "authentication-kubeconfig": options.kubeconfig,
    "authorization-kubeconfig": options.kubeconfig,
  };
}

function aloneFlags(runFolder: string): Flags {
  return {
    "leader-elect": false,
    profiling: false,
    "bind-address": "127.0.0.1",
    "cert-dir": runFolder,
  };
}
