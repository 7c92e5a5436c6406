/** What each node owns of the approved ranges: its own addresses and pod CIDRs, first owner wins. */

import { hostCidr, intersectKnown, knownCidr, type Cidr, type KnownCidr } from "#src/model/cidr.ts";
import type { Finding } from "#src/model/finding.ts";
import type { IpAddress } from "#src/model/ip.ts";
import type { ApprovedRanges, NodeFacts } from "#src/model/tunnel.ts";
import { byAge } from "./age.ts";
import { BlockOwners } from "./block-owners.ts";
import { FindingList } from "./finding-list.ts";

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
  const addressRegister = newRegister("address", facts.ranges.nodes);
  const podRegister = newRegister("pod CIDR", facts.ranges.pods);
  const findings = new FindingList();
  const shares = new Map<string, NodeShare>();
  for (const { name, addresses, podCidrs } of facts.nodes.toSorted(byAge)) {
    const own = addresses.filter(
      (address) =>
        grant({ node: name, block: hostCidr(address), register: addressRegister, findings })
          .length > 0,
    );
    const ownPods = podCidrs.flatMap((block) =>
      grant({ node: name, block, register: podRegister, findings }),
    );
    shares.set(name, {
      node: name,
      addresses: [...new Set(own)],
      podCidrs: [...new Set(ownPods)],
    });
  }
  return { shares, findings: findings.all("the shoot's nodes") };
};

/** Who owns what of one kind of thing, and where it may be. */
interface Register {
  readonly word: "address" | "pod CIDR";
  readonly ranges: readonly KnownCidr[];
  readonly owners: BlockOwners;
}

const newRegister = (word: Register["word"], ranges: readonly Cidr[]): Register => ({
  word,
  ranges: ranges.map(knownCidr),
  owners: new BlockOwners(),
});

/** The parts of a block that the node gets; adds a finding for what it does not get. */
const grant = (claim: {
  readonly node: string;
  readonly block: Cidr;
  readonly register: Register;
  readonly findings: FindingList;
}): Cidr[] => {
  const { node, register, findings } = claim;
  const { word, ranges, owners } = register;
  const block = knownCidr(claim.block);
  const object = `Node ${node}`;
  const code = word === "address" ? "node-address" : "pod-cidr";
  const parts = ranges.map((range) => intersectKnown(range, block)).filter((part) => part !== null);
  if (!parts.some(({ cidr }) => cidr === block.cidr)) {
    findings.add(() => {
      const list = (blocks: readonly KnownCidr[]) => blocks.map(({ cidr }) => cidr).join(", ");
      const cut = parts.length === 0 ? "is not carried" : `is cut to ${list(parts)}`;
      const message = `${object} has the ${word} ${block.cidr}, which is outside of the approved ranges ${list(ranges)} and ${cut}: correct the node or the Tunnel`;
      return { code: `${code}-not-approved`, object, message };
    });
  }
  return parts.flatMap((part) => {
    const result = owners.claim(part, node);
    if (result.kind === "owned") return [part.cidr];
    findings.add(() => {
      const why =
        result.by === node
          ? `its own ${result.block}: correct the node`
          : `${result.block} of the older Node ${result.by}: ${result.by} keeps it until it withdraws`;
      const message = `${object} has the ${word} ${part.cidr}, which overlaps ${why}`;
      return { code: `${code}-conflict`, object, message };
    });
    return [];
  });
};
