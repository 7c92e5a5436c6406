/** What Prometheus is told of a shoot: nodes and pods, at the addresses that this gateway can dial. */

import { mappedOf, type AddressMap } from "#src/model/address-map.ts";
import { containsIp, type Cidr } from "#src/model/cidr.ts";
import { familyOf, type IpAddress } from "#src/model/ip.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import type { ScrapePod, TargetGroup } from "#src/model/scrape-pod.ts";
import type { NodeFacts, Tunnel } from "#src/model/tunnel.ts";
import { shareApproved } from "./approved.ts";
import { usableMaps } from "./address-map-use.ts";

export interface DiscoveryFacts {
  readonly tunnel: Tunnel;
  readonly maps: readonly AddressMap[];
}

/** Above this Prometheus is told nothing: it then keeps what it knows, which is better than a list that was cut. */
export const TARGETS_MAX = 20_000;
const KUBELET_PORT = 10_250;
/** Labels that Prometheus forgets after relabelling. */
const META = "__meta_xylem_";

/** One target for each node that the tunnel carries: its kubelet. */
export const discoverNodes = (
  facts: DiscoveryFacts & { readonly nodes: readonly NodeFacts[] },
): Parsed<readonly TargetGroup[]> => {
  const dial = dialer(facts);
  const { shares } = shareApproved({ ranges: facts.tunnel.ranges, nodes: facts.nodes });
  const groups = facts.nodes.flatMap(({ name, isReady }): readonly TargetGroup[] => {
    const [address] = shares.get(name)?.addresses ?? [];
    if (address === undefined) return [];
    const labels = {
      [`${META}node_name`]: name,
      [`${META}node_address`]: address,
      [`${META}node_ready`]: String(isReady),
    };
    return [{ targets: [hostPort(dial(address), KUBELET_PORT)], labels }];
  });
  return bounded(groups, "nodes");
};

/** One target for each TCP port of each pod that the tunnel carries; a pod without ports has its address alone. */
export const discoverPods = (
  facts: DiscoveryFacts & { readonly pods: readonly ScrapePod[] },
): Parsed<readonly TargetGroup[]> => {
  const dial = dialer(facts);
  const { nodes, pods } = facts.tunnel.ranges;
  const isCarried = (address: IpAddress): boolean =>
    [...pods, ...nodes].some((range: Cidr) => containsIp(range, address));
  const groups = facts.pods.flatMap((pod): readonly TargetGroup[] => {
    const address = pod.addresses.find(isCarried);
    if (address === undefined) return [];
    const labels = podLabels(pod, address);
    const dialed = dial(address);
    if (pod.ports.length === 0) return [{ targets: [host(dialed)], labels }];
    return pod.ports.map(({ container, name, number }) => ({
      targets: [hostPort(dialed, number)],
      labels: {
        ...labels,
        [`${META}pod_container_name`]: container,
        [`${META}pod_container_port_name`]: name,
        [`${META}pod_container_port_number`]: String(number),
      },
    }));
  });
  return bounded(groups, "pods");
};

/** The mapped address where there is one. */
const dialer = ({ tunnel, maps }: DiscoveryFacts): ((address: IpAddress) => IpAddress) => {
  const { ranges } = usableMaps({ ...tunnel, maps, object: "Tunnel" });
  return (address) => mappedOf(ranges, address) ?? address;
};

const podLabels = (pod: ScrapePod, address: IpAddress): Readonly<Record<string, string>> => ({
  [`${META}namespace`]: pod.namespace,
  [`${META}pod_name`]: pod.name,
  [`${META}pod_node_name`]: pod.node,
  [`${META}pod_address`]: address,
  [`${META}pod_ready`]: String(pod.isReady),
  ...labelled(`${META}pod_label_`, pod.labels),
  ...labelled(`${META}pod_annotation_`, pod.annotations),
});

/** Prometheus allows letters, digits and underscores; two names that become one keep the first. */
const labelled = (
  prefix: string,
  texts: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> => {
  const labels = new Map<string, string>();
  for (const [name, text] of Object.entries(texts)) {
    const label = `${prefix}${name.replaceAll(/[^A-Za-z0-9_]/gu, "_")}`;
    if (!labels.has(label)) labels.set(label, text);
  }
  return Object.fromEntries(labels);
};

const host = (address: IpAddress): string => (familyOf(address) === 6 ? `[${address}]` : address);

const hostPort = (address: IpAddress, port: number): string => `${host(address)}:${port}`;

const bounded = (
  groups: readonly TargetGroup[],
  what: "nodes" | "pods",
): Parsed<readonly TargetGroup[]> => {
  if (groups.length <= TARGETS_MAX) return parsed(groups);
  const fix = what === "pods" ? "; select fewer with --discover-pods" : "";
  return problem(`${groups.length} targets are more than ${TARGETS_MAX}, so none is told${fix}`);
};
