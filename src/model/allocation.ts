/** What the allocator of address ranges works with, as plain data: seeds, pools, domains, claims, blocks. */

import type { Cidr } from "./cidr.ts";
import type { Family } from "./ip.ts";

/** What a cluster uses a range for. */
export type RangeKind = "nodes" | "pods" | "services";

export const RANGE_KINDS: readonly RangeKind[] = ["nodes", "pods", "services"];

/** `SeedNetwork` after parsing: ranges that no shoot on this seed may have. */
export interface SeedNetwork {
  readonly name: string;
  readonly nodes: readonly Cidr[];
  readonly pods: readonly Cidr[];
  readonly services: readonly Cidr[];
  /** Inner addresses of this seed's tunnels. */
  readonly transit: readonly Cidr[];
  /** Where address maps of adopted shoots come from. */
  readonly mapped: readonly Cidr[];
  /** Whatever else must stay free of shoots, e.g. an office network. */
  readonly reserved: readonly Cidr[];
}

/** The lists of a `SeedNetwork`. */
export type SeedUse = RangeKind | "transit" | "mapped" | "reserved";

export const SEED_USES: readonly SeedUse[] = [...RANGE_KINDS, "transit", "mapped", "reserved"];

/** What a claim asks for one kind and one family. */
export type RangeWish =
  | { readonly kind: "fixed"; readonly cidr: Cidr }
  /** Any free block of this prefix length from a pool. */
  | { readonly kind: "size"; readonly length: number };

/** Null: nothing is asked of this family. */
export interface FamilyWishes {
  readonly ipv4: RangeWish | null;
  readonly ipv6: RangeWish | null;
}

export interface ClaimRef {
  readonly namespace: string;
  readonly name: string;
  /** Tells an object from a later one of the same name. */
  readonly uid: string;
}

/** `NetworkClaim` after parsing. */
export interface NetworkClaim extends ClaimRef {
  readonly generation: number;
  /** It has a deletionTimestamp: nothing more is granted, what it has stays until its UID is gone. */
  readonly isDeleting: boolean;
  /** Milliseconds since 1970. */
  readonly createdMs: number;
  /** The network domain whose clusters reach each other. */
  readonly vpc: string;
  /** Seeds that the shoot runs on or may move to. */
  readonly seeds: readonly string[];
  readonly ranges: Readonly<Record<RangeKind, FamilyWishes>>;
  /** An existing cluster: its fixed ranges may overlap its seeds', which address maps or proxy mode then bridge. */
  readonly isAdopted: boolean;
}

/** One block of one claim, before it has a name in Kubernetes. */
export interface BlockGrant {
  readonly cidr: Cidr;
  readonly vpc: string;
  readonly kind: RangeKind;
  readonly owner: ClaimRef;
  /** Under which revision of its domain it was granted. */
  readonly domain: DomainRevision;
}

export interface DomainRevision {
  /** UID of the `NetworkDomain`: a domain that was deleted and made again counts from one again. */
  readonly uid: string;
  readonly revision: number;
}

/** `NetworkBlock` after parsing. */
export interface NetworkBlock extends BlockGrant {
  /** The object's name: `blockName(cidr, vpc)`. */
  readonly name: string;
  readonly uid: string;
}

/** `NetworkPool` after parsing: where wishes for a size are served from. */
export interface NetworkPool {
  readonly name: string;
  readonly cidrs: readonly Cidr[];
  readonly kinds: readonly RangeKind[];
  /** Null: for every VPC. */
  readonly vpcs: readonly string[] | null;
}

/** `NetworkDomain` after parsing: the one object of a VPC that every grant has to replace (compare and swap). */
export interface NetworkDomain {
  /** The VPC. */
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Counts grants; zero before the first. */
  readonly revision: number;
  /** The grant of this revision: its blocks exist, or have to be made before the next grant. */
  readonly pending: readonly BlockGrant[];
}

export const familyKey = (family: Family): "ipv4" | "ipv6" => (family === 4 ? "ipv4" : "ipv6");

/** The order in which claims are served: by age, then by UID, so that every allocator agrees. */
export const olderClaimFirst = (a: NetworkClaim, b: NetworkClaim): number =>
  a.createdMs - b.createdMs || (a.uid < b.uid ? -1 : a.uid > b.uid ? 1 : 0);
