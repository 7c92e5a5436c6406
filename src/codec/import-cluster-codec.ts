/** Address ranges that a cluster tells itself: ServiceCIDR (networking.k8s.io/v1), kubeadm's ClusterConfiguration, Nodes. */

import { cidrFromParts, cidrParts, hostCidr, type Cidr } from "#src/model/cidr.ts";
import type { Family } from "#src/model/ip.ts";
import type { Parsed } from "#src/model/parsed.ts";
import type { NodeFacts } from "#src/model/tunnel.ts";
import { enclosingAll } from "#src/model/cidr-enclosing.ts";
import { fieldAt, fieldAtIfPresent, isAbsent, parseName, reading, take } from "./fields.ts";
import { RangeReader, type ImportedRange, type ImportedRanges } from "./import-fields.ts";

/** What kubeadm takes where nothing is said (cmd/kubeadm/app/apis/kubeadm/v1beta4/defaults.go). */
const KUBEADM_SERVICES = "10.96.0.0/12";

export const parseServiceCidr = (object: unknown): Parsed<ImportedRanges> =>
  reading({ kind: "ServiceCIDR", object }, (root) => {
    const name = take(fieldAt(root, "metadata", "name"), parseName);
    const reader = new RangeReader(`ServiceCIDR ${name}`);
    reader.list("services", fieldAtIfPresent(root, "spec", "cidrs"));
    return { ranges: reader.ranges, notes: reader.notes };
  });

export const parseKubeadmConfig = (object: unknown): Parsed<ImportedRanges> =>
  reading({ kind: "ClusterConfiguration", object }, (root) => {
    const reader = new RangeReader("ClusterConfiguration");
    reader.commas("pods", fieldAtIfPresent(root, "networking", "podSubnet"));
    const services = fieldAtIfPresent(root, "networking", "serviceSubnet");
    reader.commas(
      "services",
      isAbsent(services) || services.value === ""
        ? { path: `${services.path} (kubeadm's default)`, value: KUBEADM_SERVICES }
        : services,
    );
    return { ranges: reader.ranges, notes: reader.notes };
  });

/** A subnet is seldom smaller than this. */
const SUBNET_LENGTH_MAX: Record<Family, number> = { 4: 24, 6: 64 };
/** What holds addresses of all the world is no subnet. */
const GUESS_LENGTH_MIN: Record<Family, number> = { 4: 9, 6: 16 };

/**
 * Guesses ranges from what Nodes have: nobody but the network's owner knows where a subnet ends. `knows` names the uses
 * that somebody has said already.
 */
export const guessFromNodes = (
  nodes: readonly NodeFacts[],
  knows: ReadonlySet<ImportedRange["use"]>,
): ImportedRanges => {
  const addresses = nodes.flatMap((node) => node.addresses.map(hostCidr));
  const pods = nodes.flatMap(({ podCidrs }) => podCidrs);
  const guesses = ([4, 6] as const).flatMap((family) => [
    ...(knows.has("nodes")
      ? []
      : guess({ use: "nodes", family, from: addresses, lengthMax: SUBNET_LENGTH_MAX[family] })),
    ...(knows.has("pods") ? [] : guess({ use: "pods", family, from: pods, lengthMax: 128 })),
  ]);
  return {
    ranges: guesses.flatMap(({ ranges }) => ranges),
    notes: guesses.flatMap(({ notes }) => notes),
  };
};

const guess = (of: {
  readonly use: "nodes" | "pods";
  readonly family: Family;
  readonly from: readonly Cidr[];
  readonly lengthMax: number;
}): ImportedRanges[] => {
  const { use, family, from, lengthMax } = of;
  const parts = from.map(cidrParts).filter((block) => block.family === family);
  if (parts.length === 0) return [];
  const outer = enclosingAll(parts);
  const cidr = cidrFromParts({ ...outer, length: Math.min(outer.length, lengthMax) });
  const what = use === "nodes" ? "the addresses" : "the pod CIDRs";
  if (outer.length < GUESS_LENGTH_MIN[family]) {
    const note = `${what} of Nodes are too far apart for one range (${cidr}): give --${use} CIDR`;
    return [{ ranges: [], notes: [note] }];
  }
  const note = `${use} ${cidr} is guessed from ${what} of ${parts.length === 1 ? "one Node" : "Nodes"}: compare it with the network's own plan, or give --${use} CIDR`;
  return [{ ranges: [{ use, cidr }], notes: [note] }];
};
