/** All that allocation decides from, indexed: blocks of each VPC, ranges of each seed, pools. */

import {
  SEED_USES,
  type BlockGrant,
  type DomainRevision,
  type NetworkBlock,
  type NetworkDomain,
  type NetworkPool,
  type RangeKind,
  type SeedNetwork,
  type SeedUse,
} from "#src/model/allocation.ts";
import { blockName } from "#src/model/allocation-name.ts";
import type { Cidr } from "#src/model/cidr.ts";
import { CidrIndex } from "#src/model/cidr-index.ts";

/** Who holds a range of a seed. */
export interface SeedHolder {
  readonly seed: string;
  readonly use: SeedUse;
}

/** Blocks, seeds and pools as last seen. It is a value to plan with: changed by observing, never by planning. */
export class Ledger {
  readonly #blocks = new Map<string, BlockGrant>();
  readonly #vpcs = new Map<string, CidrIndex<BlockGrant>>();
  readonly #owners = new Map<string, Map<string, BlockGrant>>();
  readonly #seeds = new Map<string, CidrIndex<SeedHolder>>();
  readonly #pools = new Map<string, NetworkPool>();
  /** By VPC: the newest revision whose predecessors' blocks have all been seen. */
  readonly #seen = new Map<string, DomainRevision>();

  constructor(
    facts: {
      readonly blocks?: Iterable<NetworkBlock>;
      readonly seeds?: Iterable<SeedNetwork>;
      readonly pools?: Iterable<NetworkPool>;
    } = {},
  ) {
    for (const block of facts.blocks ?? []) this.observeBlock(block);
    for (const seed of facts.seeds ?? []) this.observeSeed(seed);
    for (const pool of facts.pools ?? []) this.observePool(pool);
  }

  /** How many blocks are held. */
  get size(): number {
    return this.#blocks.size;
  }

  /** Takes a block in as a watch, or a list, shows it: in the order of the API server, or `isComplete` lies. */
  observeBlock(block: NetworkBlock): void {
    this.hold(block);
    const seen = this.#seen.get(block.vpc);
    const isNewer = seen?.uid !== block.domain.uid || seen.revision < block.domain.revision;
    if (isNewer) this.#seen.set(block.vpc, block.domain);
  }

  /** The block's object is gone. */
  forgetBlock(block: { readonly cidr: Cidr; readonly vpc: string }): void {
    const name = blockName(block);
    const held = this.#blocks.get(name);
    if (held === undefined) return;
    this.#blocks.delete(name);
    this.#vpcs.get(held.vpc)?.remove(held.cidr, held);
    const owned = this.#owners.get(held.owner.uid);
    owned?.delete(name);
    if (owned?.size === 0) this.#owners.delete(held.owner.uid);
  }

  /** A list that was begun after the domain was read at `domain` has been taken in whole. */
  markComplete(vpc: string, domain: DomainRevision): void {
    this.#seen.set(vpc, domain);
  }

  /** True when every block of revisions before the domain's is known (or was, until it was freed). */
  isComplete(domain: NetworkDomain): boolean {
    if (domain.revision <= 1) return true;
    const seen = this.#seen.get(domain.name);
    return seen?.uid === domain.uid && seen.revision >= domain.revision;
  }

  /** Counts a grant as held before its object is seen. */
  hold(grant: BlockGrant): void {
    this.forgetBlock(grant);
    const name = blockName(grant);
    this.#blocks.set(name, grant);
    const index = this.#vpcs.get(grant.vpc) ?? new CidrIndex<BlockGrant>();
    this.#vpcs.set(grant.vpc, index);
    index.add(grant.cidr, grant);
    const owned = this.#owners.get(grant.owner.uid) ?? new Map<string, BlockGrant>();
    this.#owners.set(grant.owner.uid, owned);
    owned.set(name, grant);
  }

  observeSeed(seed: SeedNetwork): void {
    const index = new CidrIndex<SeedHolder>();
    for (const use of SEED_USES) {
      for (const cidr of seed[use]) index.add(cidr, { seed: seed.name, use });
    }
    this.#seeds.set(seed.name, index);
  }

  forgetSeed(name: string): void {
    this.#seeds.delete(name);
  }

  observePool(pool: NetworkPool): void {
    this.#pools.set(pool.name, pool);
  }

  forgetPool(name: string): void {
    this.#pools.delete(name);
  }

  hasBlock(block: { readonly cidr: Cidr; readonly vpc: string }): boolean {
    return this.#blocks.has(blockName(block));
  }

  /** The holder of a block's name; null: nobody. */
  blockAt(block: { readonly cidr: Cidr; readonly vpc: string }): BlockGrant | null {
    return this.#blocks.get(blockName(block)) ?? null;
  }

  /** What a claim has, by its UID. */
  blocksOf(uid: string): readonly BlockGrant[] {
    return [...(this.#owners.get(uid)?.values() ?? [])];
  }

  /** All blocks of a VPC; not to be changed by the caller. */
  blocksIn(vpc: string): CidrIndex<BlockGrant> {
    return this.#vpcs.get(vpc) ?? new CidrIndex<BlockGrant>();
  }

  vpcs(): readonly string[] {
    return [...this.#vpcs.keys()].toSorted();
  }

  /** A seed's own ranges; null: no such `SeedNetwork` is known. */
  rangesOfSeed(name: string): CidrIndex<SeedHolder> | null {
    return this.#seeds.get(name) ?? null;
  }

  /** Pools that serve this use in this VPC, those made for this VPC first, then by name. */
  poolsFor(wish: { readonly use: RangeKind; readonly vpc: string }): readonly NetworkPool[] {
    return [...this.#pools.values()]
      .filter(({ kinds, vpcs }) => kinds.includes(wish.use) && (vpcs?.includes(wish.vpc) ?? true))
      .toSorted(
        (a, b) =>
          Number(a.vpcs === null) - Number(b.vpcs === null) ||
          (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
      );
  }
}
