/** Groups whom policies are about into classes that no policy can tell apart: pods by labels, addresses by blocks. */

import type { Cidr } from "#src/model/cidr.ts";
import { familyOf, type IpAddress } from "#src/model/ip.ts";
import type {
  FlowEnd,
  LabelSelector,
  NetworkPolicy,
  PolicyPod,
  PolicyWorld,
} from "#src/model/policy.ts";
import { addressAtoms, boundaryBlocks } from "./address-atoms.ts";
import { isInBlock } from "./match.ts";

/** One or two ends that stand for all members. */
export interface PartyClass {
  readonly members: readonly string[];
  readonly first: FlowEnd;
  /** A second member, to ask whether members may speak to each other; null: there is none. */
  readonly second: FlowEnd | null;
}

/** Pods of the pod network, and addresses outside of it. */
export const partyClasses = (
  worlds: readonly PolicyWorld[],
  everywhere: readonly Cidr[],
): PartyClass[] => {
  // Pods and nodes are no boundaries of address blocks here, but for policies that select nodes.
  const boundaries = [...new Set(worlds.flatMap((world) => boundaryBlocks(withoutPods(world))))];
  const pods = uniquePods(worlds).filter(({ isHostNetwork }) => !isHostNetwork);
  return [
    ...podClasses([...pods, ...assumedPods(worlds, pods)], boundaries),
    ...everywhere
      .flatMap((block) => addressAtoms(block, boundaries))
      .map(({ address, text }): PartyClass => ({
        members: [text],
        first: { kind: "address", address },
        second: null,
      })),
  ];
};

const withoutPods = (world: PolicyWorld): PolicyWorld => {
  const rules = world.clusterPolicies.flatMap(({ egress }) => egress);
  const hasNodes = rules.some(({ peers }) => peers.some(({ kind }) => kind === "nodes"));
  return { ...world, pods: [], nodes: hasNodes ? world.nodes : [] };
};

const uniquePods = (worlds: readonly PolicyWorld[]): PolicyPod[] => [
  ...new Map(
    worlds.flatMap(({ pods }) => pods).map((pod) => [`${pod.namespace}/${pod.name}`, pod]),
  ).values(),
];

/** A pod by one of its addresses; null: it has none that is known. */
interface AddressedPod {
  readonly pod: PolicyPod;
  readonly address: IpAddress | null;
}

const podClasses = (pods: readonly PolicyPod[], boundaries: readonly Cidr[]): PartyClass[] => {
  const classes = new Map<string, AddressedPod[]>();
  for (const member of pods.flatMap(addressed)) {
    const { pod, address } = member;
    const signature = JSON.stringify([
      pod.namespace,
      Object.entries(pod.labels).toSorted(([a], [b]) => (a < b ? -1 : 1)),
      pod.ports,
      address === null ? null : familyOf(address),
      boundaries.filter((cidr) => isInBlock(cidr, address)),
    ]);
    const members = classes.get(signature);
    if (members === undefined) classes.set(signature, [member]);
    else members.push(member);
  }
  return [...classes.values()].flatMap((members) => {
    const [first, second] = members;
    if (first === undefined) return [];
    const other = second ?? (first.pod.isTemplate ? first : undefined);
    return [
      {
        members: members.map(memberName),
        first: endOf(first),
        second: other === undefined ? null : endOf(other),
      },
    ];
  });
};

const addressed = (pod: PolicyPod): AddressedPod[] =>
  pod.addresses.length === 0
    ? [{ pod, address: null }]
    : pod.addresses.map((address) => ({ pod, address }));

const memberName = ({ pod, address }: AddressedPod): string => {
  const name = `${pod.namespace}/${pod.name}`;
  return pod.addresses.length > 1 && address !== null ? `${name} (${address})` : name;
};

/** A pod's own node always reaches it, whatever policies say: that can't change. */
const endOf = ({ pod, address }: AddressedPod): FlowEnd => ({
  kind: "pod",
  pod: { ...pod, nodeAddresses: [] },
  address,
});

/** Where policies are and no pod is known: one pod for each set of labels they speak of, and one without labels. */
const assumedPods = (worlds: readonly PolicyWorld[], pods: readonly PolicyPod[]): PolicyPod[] => {
  const inhabited = new Set(pods.map(({ namespace }) => namespace));
  const assumed = new Map<string, PolicyPod>();
  for (const policy of worlds.flatMap(({ policies }) => policies)) {
    const { namespace } = policy;
    if (inhabited.has(namespace)) continue;
    for (const selector of [...selectorsOf(policy), { matchLabels: {}, matchExpressions: [] }]) {
      const labels = Object.entries(selector.matchLabels);
      const text = labels.map(([key, value]) => `${key}=${value}`).join(",");
      const name = text === "" ? "(other pods)" : `(${text})`;
      assumed.set(`${namespace}/${name}`, {
        namespace,
        name,
        labels: selector.matchLabels,
        addresses: [],
        nodeAddresses: [],
        isHostNetwork: false,
        isTemplate: true,
        ports: [],
      });
    }
  }
  return [...assumed.values()];
};

/** Selectors about pods of the policy's own namespace. */
const selectorsOf = ({ pods, ingress, egress }: NetworkPolicy): LabelSelector[] => [
  pods,
  ...[...(ingress ?? []), ...(egress ?? [])]
    .flatMap(({ peers }) => peers)
    .flatMap((peer) => (peer.kind === "pods" && peer.namespaces === null ? [peer.pods] : [])),
];
