/** Cuts a block of addresses into parts within which no policy can tell one address from another. */

import { compareCidrs, containsCidr, hostCidr, cidrParts, type Cidr } from "#src/model/cidr.ts";
import { subtract } from "#src/model/cidr-set.ts";
import { bigintToIp, type IpAddress } from "#src/model/ip.ts";
import type { NetworkPolicy, ClusterNetworkPolicy, PolicyWorld } from "#src/model/policy.ts";

/** A part of a block, and one address that stands for all of it. */
export interface AddressAtom {
  readonly address: IpAddress;
  /** E.g. `10.0.0.0/8 except 10.1.0.0/16`. */
  readonly text: string;
}

const SHOWN_EXCEPTIONS_MAX = 3;

/** Every block and address that a verdict could depend on. */
export const boundaryBlocks = (world: PolicyWorld): Cidr[] => {
  const known = [...world.pods, ...world.nodes].flatMap(({ addresses }) => addresses);
  const nodes = world.pods.flatMap(({ nodeAddresses }) => nodeAddresses);
  return [
    ...new Set([
      ...world.policies.flatMap(blocksOfPolicy),
      ...world.clusterPolicies.flatMap(blocksOfClusterPolicy),
      ...[...known, ...nodes].map(hostCidr),
    ]),
  ];
};

const blocksOfPolicy = ({ ingress, egress }: NetworkPolicy): Cidr[] =>
  [...(ingress ?? []), ...(egress ?? [])]
    .flatMap(({ peers }) => peers)
    .flatMap((peer) => (peer.kind === "block" ? [peer.cidr, ...peer.except] : []));

const blocksOfClusterPolicy = ({ ingress, egress }: ClusterNetworkPolicy): Cidr[] =>
  [...ingress, ...egress]
    .flatMap(({ peers }) => peers)
    .flatMap((peer) => (peer.kind === "networks" ? peer.cidrs : []));

/** The parts of `block`, in order; together they are all of it. */
export const addressAtoms = (block: Cidr, boundaries: readonly Cidr[]): AddressAtom[] => {
  const inside = boundaries
    .filter((inner) => inner !== block && containsCidr({ outer: block, inner }))
    .toSorted(compareCidrs);
  return [block, ...inside].flatMap((outer, at) => {
    const holes = topBlocks(
      // Blocks in order: what is inside of `outer` comes right after it.
      inside.slice(at).filter((inner) => inner !== outer && containsCidr({ outer, inner })),
    );
    const [first] = subtract(outer, holes);
    return first === undefined
      ? []
      : [{ address: firstAddress(first), text: textOf(outer, holes) }];
  });
};

/** Of blocks in order, those that are in no other. */
const topBlocks = (blocks: readonly Cidr[]): Cidr[] => {
  const top: Cidr[] = [];
  for (const inner of blocks) {
    const outer = top.at(-1);
    if (outer === undefined || !containsCidr({ outer, inner })) top.push(inner);
  }
  return top;
};

const firstAddress = (cidr: Cidr): IpAddress => {
  const { base, family } = cidrParts(cidr);
  return bigintToIp(base, family);
};

const textOf = (outer: Cidr, holes: readonly Cidr[]): string => {
  const host = hostCidr(firstAddress(outer)) === outer;
  if (host) return firstAddress(outer);
  if (holes.length === 0) return outer;
  const shown = holes.slice(0, SHOWN_EXCEPTIONS_MAX).join(", ");
  const more = holes.length - SHOWN_EXCEPTIONS_MAX;
  return `${outer} except ${shown}${more > 0 ? ` and ${more} more` : ""}`;
};
