/** Objects of the allocator as people write them, for tests of this room and of the rooms below. */

import { NETWORK_CLAIMS, NETWORK_POOLS, SEED_NETWORKS } from "#src/ports/kube-resource.ts";
import type { KubeObject, KubeResource } from "#src/ports/kube.ts";

/** One object and its kind. */
export interface Sample {
  readonly resource: KubeResource;
  readonly object: KubeObject;
}

/** A wish: a CIDR, or a prefix length of IPv4. */
type WishText = string | number;

const wishes = (wish: WishText): object =>
  typeof wish === "number"
    ? { ipv4: { prefixLength: wish } }
    : wish.includes(":")
      ? { ipv6: { cidr: wish } }
      : { ipv4: { cidr: wish } };

/** A claim `shoot--NAME/net`. */
export const claimSample = (
  name: string,
  wanted: Readonly<Partial<Record<"nodes" | "pods" | "services", WishText>>>,
  more: { readonly vpc?: string; readonly seeds?: readonly string[]; readonly spec?: object } = {},
): Sample => ({
  resource: NETWORK_CLAIMS,
  object: {
    metadata: { namespace: `shoot--${name}`, name: "net" },
    spec: {
      vpc: more.vpc ?? "vpc-a",
      seeds: more.seeds ?? ["eu-1"],
      ...Object.fromEntries(Object.entries(wanted).map(([use, wish]) => [use, wishes(wish)])),
      ...more.spec,
    },
  },
});

export const poolSample = (name: string, cidrs: readonly string[]): Sample => ({
  resource: NETWORK_POOLS,
  object: { metadata: { name }, spec: { cidrs } },
});

export const seedSample = (name: string, more: object = {}): Sample => ({
  resource: SEED_NETWORKS,
  object: {
    metadata: { name },
    spec: {
      nodes: ["10.240.0.0/16"],
      pods: ["10.241.0.0/17"],
      services: ["10.242.0.0/18"],
      ...more,
    },
  },
});

/** Spellings that are refused everywhere with one sentence (A27 of the failure catalogue), and what would be canonical. */
export const BAD_SPELLINGS: readonly { readonly text: string; readonly write?: string }[] = [
  { text: "010.0.0.0/8" },
  { text: "10.0.0.5/24", write: "10.0.0.0/24" },
  { text: "10/8", write: "10.0.0.0/8" },
  { text: "10.0.0.0/08", write: "10.0.0.0/8" },
  { text: "256.0.0.1/32" },
  { text: "10.0.0.0/33" },
  { text: " 10.0.0.0/8", write: "10.0.0.0/8" },
  { text: "[::1]/128", write: "::1/128" },
  { text: "1::2::3/64" },
  { text: "::ffff:10.0.0.0/104", write: "10.0.0.0/8" },
  { text: "fe80::%eth0/64", write: "fe80::/64" },
  { text: "2001:DB8::/32", write: "2001:db8::/32" },
  { text: "10.0.0.0" },
  { text: "no" },
];
