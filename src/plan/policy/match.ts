/** Whether a peer or a port of a NetworkPolicy's rule matches a flow (networking.k8s.io/v1). */

import { containsIp, type Cidr } from "#src/model/cidr.ts";
import { familyOf, type IpAddress } from "#src/model/ip.ts";
import type { Flow, FlowEnd, Labels, PolicyPeer, PolicyPort } from "#src/model/policy.ts";
import { isSelected } from "./selector.ts";

/** True when `address` is known and in the block. */
export const isInBlock = (cidr: Cidr, address: IpAddress | null): boolean =>
  address !== null && cidr.includes(":") === (familyOf(address) === 6) && containsIp(cidr, address);

/** Selectors match pods of the pod network, blocks match any known address. */
export const isPeer = (options: {
  readonly peer: PolicyPeer;
  readonly end: FlowEnd;
  /** The policy's own namespace. */
  readonly namespace: string;
  readonly labelsOf: (namespace: string) => Labels;
}): boolean => {
  const { peer, end, namespace, labelsOf } = options;
  switch (peer.kind) {
    case "block":
      return (
        isInBlock(peer.cidr, end.address) &&
        !peer.except.some((cidr) => isInBlock(cidr, end.address))
      );
    case "pods":
      if (end.kind === "address" || end.pod.isHostNetwork) return false;
      return (
        (peer.namespaces === null
          ? end.pod.namespace === namespace
          : isSelected(peer.namespaces, labelsOf(end.pod.namespace))) &&
        isSelected(peer.pods, end.pod.labels)
      );
  }
};

/** True when protocol and port match; a name is looked up in the destination's containers. */
export const isPort = (wanted: PolicyPort, flow: Flow): boolean => {
  if (wanted.protocol !== flow.protocol) return false;
  const { port, endPort } = wanted;
  if (port === null) return true;
  if (typeof port === "string") return hasNamedPort(flow, port);
  return endPort === null ? flow.port === port : flow.port >= port && flow.port <= endPort;
};

/** True when the destination is a pod whose containers call the flow's port and protocol `name`. */
export const hasNamedPort = ({ to, port, protocol }: Flow, name: string): boolean =>
  to.kind === "pod" &&
  !to.pod.isHostNetwork &&
  to.pod.ports.some(
    (known) => known.name === name && known.port === port && known.protocol === protocol,
  );
