/** What each node owns of the approved ranges: its own addresses and pod CIDRs, first owner wins. */

import { hostCidr, intersect, type Cidr } from "#src/model/cidr.ts";
import type { Finding } from "#src/model/finding.ts";
import type { IpAddress } from "#src/model/ip.ts";
import type { ApprovedRanges, NodeFacts } from "#src/model/tunnel.ts";
import { byAge } from "./age.ts";
import { BlockOwners } from "./block-owners.ts";

/** A node's part of the approved ranges. */
export interface NodeShare {
  readonly node: string;
  /** In the order of the Node object. */
  readonly addresses: readonly IpAddress[];
  readonly podCidrs: readonly Cidr[];
}

export interface ApprovedShares {
  /** Keyed by node name; every node is there, maybe with nothing. */
  readonly shares: ReadonlyMap<string, NodeShare>;
  readonly findings: readonly Finding[];
}

/**
 * Cuts what nodes claim to the approved ranges. Older nodes go first (then by UID); a block that overlaps another
 * node's is refused whole and reported, and is granted by a later call when the owner has withdrawn.
 */
export const shareApproved = (facts: {
  readonly ranges: ApprovedRanges;
  readonly nodes: readonly NodeFacts[];
}): ApprovedShares => {
  const owners = { nodes: new BlockOwners(), pods: new BlockOwners() };
  const findings: Finding[] = [];
  const shares = new Map<string, NodeShare>();
  for (const node of facts.nodes.toSorted(byAge)) {
    const addresses = node.addresses.filter((address) => {
      const claim = {
        node,
        block: hostCidr(address),
        ranges: facts.ranges.nodes,
        word: "address",
      } as const;
      return grant(claim, owners.nodes, findings).length > 0;
    });
    const podCidrs = node.podCidrs.flatMap((block) =>
      grant({ node, block, ranges: facts.ranges.pods, word: "pod CIDR" }, owners.pods, findings),
    );
    shares.set(node.name, {
      node: node.name,
      addresses: [...new Set(addresses)],
      podCidrs: [...new Set(podCidrs)],
    });
  }
  return { shares, findings };
};

interface BlockClaim {
  readonly node: NodeFacts;
  readonly block: Cidr;
  readonly ranges: readonly Cidr[];
  readonly word: "address" | "pod CIDR";
}

/** The parts of a block that the node gets; adds a finding for what it does not get. */
const grant = (claim: BlockClaim, owners: BlockOwners, findings: Finding[]): Cidr[] => {
  const { node, block, ranges, word } = claim;
  const object = `Node ${node.name}`;
  const code = word === "address" ? "node-address" : "pod-cidr";
  const parts = ranges.map((range) => intersect(range, block)).filter((part) => part !== null);
  if (!parts.includes(block)) {
    const cut = parts.length === 0 ? "is not carried" : `is cut to ${parts.join(", ")}`;
    findings.push({
      code: `${code}-not-approved`,
      object,
      message: `${object} has the ${word} ${block}, which is outside of the approved ranges ${ranges.join(", ")} and ${cut}: correct the node or the Tunnel`,
    });
  }
  return parts.filter((part) => {
    const result = owners.claim(part, node.name);
    if (result.kind === "owned") return true;
    findings.push({
      code: `${code}-conflict`,
      object,
      message: `${object} has the ${word} ${part}, which overlaps ${result.block} of the older Node ${result.by}: ${result.by} keeps it until it withdraws`,
    });
    return false;
  });
};
