/** One Kubernetes node: containerd, kubelet and kube-proxy in one machine of the lab. */

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import type { Namespace } from "#netsim/lab/namespace.ts";
import type { Running } from "#netsim/lab/process.ts";
import { flagList } from "./flags.ts";
import type { Flags } from "./flags.ts";
import type { ClusterKeys } from "./pki.ts";
import type { Programs } from "./programs.ts";
import { bothFamilies } from "./site.ts";
import type { NodeSite, ShootRanges } from "./site.ts";

export interface NodeSpec {
  readonly site: NodeSite;
  readonly ranges: ShootRanges;
  readonly ranges6: ShootRanges | undefined;
  readonly programs: Programs;
  /** Everything runs inside all namespaces of this machine. */
  readonly machine: Pick<Namespace, "run" | "spawn">;
  readonly keys: ClusterKeys;
  /** https://address:port of the API server as nodes reach it. */
  readonly server: string;
  readonly folder: string;
  readonly logs: string;
  /** OCI archives to import. */
  readonly images: readonly string[];
  /** Image of the sandbox, which is never pulled. */
  readonly pauseImage: string;
  readonly clusterDns: string;
}

/** A node before its kubelet runs: containerd is up and has its images. */
export interface PreparedNode {
  /** Starts kube-proxy and kubelet; the Node object must exist, for the kubelet adopts its podCIDR. */
  readonly start: () => void;
}

/** Writes the configuration, starts containerd and imports the images; needs no API server. */
export async function prepareNode(spec: NodeSpec): Promise<PreparedNode> {
  const { site, keys } = spec;
  await mkdir(join(spec.folder, "cni"), { recursive: true });
  const user = {
    kind: "certificate",
    commonName: `system:node:${site.name}`,
    organizations: ["system:nodes"],
  } as const;
  await Promise.all([
    writeFile(join(spec.folder, "cni", "10-lab.conflist"), cniConfig(site)),
    writeFile(join(spec.folder, "containerd.toml"), containerdConfig(spec)),
    writeFile(join(spec.folder, "kubelet.yaml"), kubeletConfig(spec)),
    keys.issue(site.name, {
      ...user,
      hosts: [...bothFamilies(site.address, site.ipv6?.address), site.name],
    }),
    keys.kubeconfig({ name: `${site.name}-kubelet`, server: spec.server, user }),
    keys
      .kubeconfig({
        name: `${site.name}-kube-proxy`,
        server: spec.server,
        user: { kind: "certificate", commonName: "system:kube-proxy" },
      })
      .then((file) => writeFile(join(spec.folder, "proxy.yaml"), proxyConfig(spec, file))),
  ]);
  const env = {
    PATH: `${spec.programs.containerdFolder}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin`,
  };
  spec.machine.spawn([spec.programs.containerd, "--config", join(spec.folder, "containerd.toml")], {
    log: join(spec.logs, `${site.name}-containerd.log`),
    env,
  });
  await importImages(spec);
  return { start: () => startKubernetes(spec) };
}

function startKubernetes(spec: NodeSpec): readonly Running[] {
  const { site, keys, programs, machine } = spec;
  const start = (program: string, flags: Flags): Running =>
    machine.spawn([programs.hyperkube, ...flagList(flags)], {
      argv0: program,
      log: join(spec.logs, `${site.name}-${program}.log`),
    });
  return [
    start("kube-proxy", { config: join(spec.folder, "proxy.yaml") }),
    start("kubelet", {
      config: join(spec.folder, "kubelet.yaml"),
      kubeconfig: keys.file(`${site.name}-kubelet.conf`),
      "node-ip": bothFamilies(site.address, site.ipv6?.address).join(","),
      "hostname-override": site.name,
    }),
  ];
}

async function importImages(spec: NodeSpec): Promise<void> {
  const { machine, programs } = spec;
  // ctr waits for nobody: until the socket exists and answers, it fails.
  const ready = `i=0; until ${programs.ctr} --connect-timeout 1s version >/dev/null 2>&1; do i=$((i+1)); [ $i -lt 300 ] || exit 1; sleep 0.05; done`;
  await machine.run(["sh", "-c", ready], { timeoutMs: 30_000 });
  const label = ["--label", "io.cri-containerd.image=managed"];
  for (const image of spec.images) {
    await machine.run([programs.ctr, "-n", "k8s.io", "images", "import", ...label, image]);
  }
}

function cniConfig(site: NodeSite): string {
  return JSON.stringify({
    cniVersion: "1.0.0",
    name: "lab",
    plugins: [
      {
        type: "bridge",
        bridge: "cni0",
        isGateway: true,
        hairpinMode: true,
        ipMasq: false,
        ipam: {
          type: "host-local",
          ranges: bothFamilies(site.podRange, site.ipv6?.podRange).map((subnet) => [{ subnet }]),
          routes: bothFamilies("0.0.0.0/0", site.ipv6 && "::/0").map((dst) => ({ dst })),
        },
      },
      { type: "portmap", capabilities: { portMappings: true } },
    ],
  });
}

function containerdConfig(spec: NodeSpec): string {
  return `version = 3
imports = []
disabled_plugins = [
  'io.containerd.snapshotter.v1.erofs', 'io.containerd.snapshotter.v1.blockfile',
  'io.containerd.differ.v1.erofs', 'io.containerd.nri.v1.nri', 'io.containerd.image-verifier.v1.bindir',
]
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '${spec.pauseImage}'
[plugins.'io.containerd.cri.v1.runtime']
  # Without CAP_SYS_RESOURCE no sandbox starts: "can't get final child's PID from pipe: EOF".
  restrict_oom_score_adj = true
  enable_unprivileged_ports = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['/usr/lib/cni']
  conf_dir = '${join(spec.folder, "cni")}'
  use_internal_loopback = true
[plugins.'io.containerd.metadata.v1.bolt']
  no_sync = true
`;
}

function kubeletConfig(spec: NodeSpec): string {
  const { keys, site } = spec;
  return stringify({
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    failCgroupV1: false,
    cgroupDriver: "cgroupfs",
    enforceNodeAllocatable: [],
    failSwapOn: false,
    address: "0.0.0.0",
    tlsCertFile: keys.file(`${site.name}.crt`),
    tlsPrivateKeyFile: keys.file(`${site.name}.key`),
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true, cacheTTL: "30s" },
      x509: { clientCAFile: keys.file("ca.crt") },
    },
    authorization: { mode: "Webhook" },
    containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock",
    clusterDNS: [spec.clusterDns],
    clusterDomain: "cluster.local",
    resolvConf: "",
    nodeStatusUpdateFrequency: "4s",
    evictionHard: {
      "memory.available": "0%",
      "nodefs.available": "0%",
      "nodefs.inodesFree": "0%",
      "imagefs.available": "0%",
    },
    imageGCHighThresholdPercent: 100,
    imageGCLowThresholdPercent: 99,
    serializeImagePulls: false,
  });
}

function proxyConfig(spec: NodeSpec, kubeconfig: string): string {
  return stringify({
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode: "nftables",
    clusterCIDR: bothFamilies(spec.ranges.pods, spec.ranges6?.pods).join(","),
    hostnameOverride: spec.site.name,
    clientConnection: { kubeconfig },
    healthzBindAddress: "0.0.0.0:10256",
    metricsBindAddress: "0.0.0.0:10249",
    // Zero: leave the sysctls alone, for some are read-only outside the host's network namespace.
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
  });
}
