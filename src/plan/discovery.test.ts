/** What Prometheus is told: addresses that can be dialed, labels, bounds. */

import t from "tap";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { parseIp, type IpAddress } from "#src/model/ip.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { ScrapePod } from "#src/model/scrape-pod.ts";
import type { NodeFacts, Tunnel } from "#src/model/tunnel.ts";
import { discoverNodes, discoverPods, TARGETS_MAX } from "./discovery.ts";

const c = (text: string): Cidr => valueOf(parseCidr(text));
const ip = (text: string): IpAddress => valueOf(parseIp(text));

const tunnel: Tunnel = {
  namespace: "shoot--lab--alpha",
  name: "alpha",
  generation: 1,
  ranges: {
    nodes: [c("10.250.0.0/20"), c("fd25::/64")],
    pods: [c("10.128.0.0/17")],
    services: [c("172.28.0.0/22")],
  },
  endpoint: null,
  mode: "tun",
  transit: [c("198.18.0.0/23")],
  slots: 32,
  mtu: 1380,
  mapped: "overlapping",
  seedAddresses: [],
};
const maps = [
  { real: c("10.250.0.0/20"), mapped: c("10.64.0.0/20") },
  { real: c("198.18.0.0/23"), mapped: c("10.65.0.0/23") },
];

const node = (name: string, ...addresses: readonly string[]): NodeFacts => ({
  name,
  uid: `uid-${name}`,
  createdMs: 0,
  addresses: addresses.map(ip),
  podCidrs: [],
  isReady: name !== "n2",
});

const pod = (name: string, facts: Partial<ScrapePod>): ScrapePod => ({
  namespace: "default",
  name,
  node: "n1",
  isReady: true,
  addresses: [ip("10.128.1.7")],
  ports: [],
  labels: {},
  annotations: {},
  ...facts,
});

void t.test("a node is dialed at its mapped address, and named with its own", async (t) => {
  const nodes = [node("n1", "10.250.0.2"), node("n2", "fd25::2"), node("n3", "192.0.2.1")];
  t.same(valueOf(discoverNodes({ tunnel, maps, nodes })), [
    {
      targets: ["10.64.0.2:10250"],
      labels: {
        __meta_xylem_node_name: "n1",
        __meta_xylem_node_address: "10.250.0.2",
        __meta_xylem_node_ready: "true",
      },
    },
    {
      targets: ["[fd25::2]:10250"],
      labels: {
        __meta_xylem_node_name: "n2",
        __meta_xylem_node_address: "fd25::2",
        __meta_xylem_node_ready: "false",
      },
    },
  ]);
});

void t.test(
  "of two nodes with one address only the older is a target, as in the tunnel",
  async (t) => {
    const nodes = [{ ...node("young", "10.250.0.2"), createdMs: 9 }, node("old", "10.250.0.2")];
    const groups = valueOf(discoverNodes({ tunnel, maps: [], nodes }));
    t.same(
      groups.map(({ labels }) => labels["__meta_xylem_node_name"]),
      ["old"],
    );
  },
);

void t.test(
  "a pod has a target for each port, or its address; a host's pod is where its node is",
  async (t) => {
    const ports = [
      { container: "web", name: "metrics", number: 8080 },
      { container: "side", name: "", number: 9 },
    ];
    const labels = { "app.kubernetes.io/name": "web", "app-kubernetes-io/name": "lost" };
    const annotations = { "prometheus.io/path": "/m" };
    const pods = [
      pod("web", { ports, labels, annotations }),
      pod("bare", { addresses: [ip("fd00::1"), ip("10.128.1.8")] }),
      pod("host", { addresses: [ip("10.250.0.2")] }),
      pod("elsewhere", { addresses: [ip("203.0.113.9")] }),
      pod("pending", { addresses: [] }),
    ];
    const groups = valueOf(discoverPods({ tunnel, maps, pods }));
    t.same(
      groups.flatMap(({ targets }) => targets),
      ["10.128.1.7:8080", "10.128.1.7:9", "10.128.1.8", "10.64.0.2"],
    );
    t.same(groups[0]?.labels, {
      __meta_xylem_namespace: "default",
      __meta_xylem_pod_name: "web",
      __meta_xylem_pod_node_name: "n1",
      __meta_xylem_pod_address: "10.128.1.7",
      __meta_xylem_pod_ready: "true",
      __meta_xylem_pod_label_app_kubernetes_io_name: "web",
      __meta_xylem_pod_annotation_prometheus_io_path: "/m",
      __meta_xylem_pod_container_name: "web",
      __meta_xylem_pod_container_port_name: "metrics",
      __meta_xylem_pod_container_port_number: "8080",
    });
  },
);

void t.test("too many targets are told as none, with the number and what to do", async (t) => {
  const pods = Array.from({ length: TARGETS_MAX + 1 }, (_, at) => pod(`p${at}`, {}));
  const told = discoverPods({ tunnel, maps, pods });
  t.match(told, { ok: false, problem: /^20001 targets are more than 20000.*--discover-pods/u });
  t.ok(discoverPods({ tunnel, maps, pods: pods.slice(1) }).ok);
});
