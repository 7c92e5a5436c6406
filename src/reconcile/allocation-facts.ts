/** What an allocator knows: reflectors' objects taken into the ledger as they are shown, and when space came free. */

import type {
  NetworkBlock,
  NetworkClaim,
  NetworkDomain,
  NetworkPool,
  SeedNetwork,
} from "#src/model/allocation.ts";
import type { Finding } from "#src/model/finding.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { Ledger } from "#src/plan/allocation/ledger.ts";
import type { KubeObject } from "#src/ports/kube.ts";
import { codecReadings, type AllocationReadings } from "./allocation-readings.ts";

/** The items of a reflector; null: its first list is not here yet. */
export type ShownItems = ReadonlyMap<string, KubeObject> | null;

export interface AllocationItems {
  readonly claims: ShownItems;
  readonly blocks: ShownItems;
  readonly domains: ShownItems;
  readonly pools: ShownItems;
  readonly seeds: ShownItems;
}

export interface ShownClaim {
  readonly object: KubeObject;
  readonly read: Parsed<NetworkClaim>;
}

interface Shown<T> {
  readonly object: KubeObject;
  readonly read: Parsed<T>;
}

/** One kind: parses each version of an object once, and says what came and what went. */
class Mirror<T> {
  readonly kind: string;
  readonly #parse: (object: unknown) => Parsed<T>;
  readonly #shown = new Map<string, Shown<T>>();
  #items: ShownItems = null;

  constructor(kind: string, parse: (object: unknown) => Parsed<T>) {
    this.kind = kind;
    this.#parse = parse;
  }

  get isSynced(): boolean {
    return this.#items !== null;
  }

  get shown(): ReadonlyMap<string, Shown<T>> {
    return this.#shown;
  }

  *values(): Generator<T> {
    for (const { read } of this.#shown.values()) if (read.ok) yield read.value;
  }

  /** What went is told before what came, so that a name that changed hands ends with the new owner. */
  update(
    items: ShownItems,
    told: { readonly gone: (value: T) => void; readonly come: (value: T) => void },
  ): void {
    if (items === null) return;
    this.#items = items;
    const come: T[] = [];
    for (const [name, object] of items) {
      const before = this.#shown.get(name);
      if (before?.object === object) continue;
      const read = this.#parse(object);
      this.#shown.set(name, { object, read });
      if (before !== undefined && JSON.stringify(before.read) === JSON.stringify(read)) continue;
      if (before?.read.ok === true) told.gone(before.read.value);
      if (read.ok) come.push(read.value);
    }
    for (const [name, { read }] of this.#shown) {
      if (items.has(name)) continue;
      this.#shown.delete(name);
      if (read.ok) told.gone(read.value);
    }
    for (const value of come) told.come(value);
  }
}

/**
 * The ledger holds exactly what the reflectors show, never more: what an allocator has just made is known to it when the
 * watch shows it. So the ledger is always the state of some moment, and nothing in it has to be taken back.
 */
export class AllocationFacts {
  readonly ledger = new Ledger();
  readonly #blocks: Mirror<NetworkBlock>;
  readonly #claims: Mirror<NetworkClaim>;
  readonly #domains: Mirror<NetworkDomain>;
  readonly #pools: Mirror<NetworkPool>;
  readonly #seeds: Mirror<SeedNetwork>;
  readonly #claimsByUid = new Map<string, ShownClaim>();
  readonly #vpcEpochs = new Map<string, number>();
  /** By an owner's UID: its blocks that are shown. */
  readonly #shares = new Map<string, number>();
  #epoch = 0;
  #seedEpoch = 0;

  constructor(readings: AllocationReadings = codecReadings) {
    this.#blocks = new Mirror("NetworkBlock", readings.block);
    this.#claims = new Mirror("NetworkClaim", readings.claim);
    this.#domains = new Mirror("NetworkDomain", readings.domain);
    this.#pools = new Mirror("NetworkPool", readings.pool);
    this.#seeds = new Mirror("SeedNetwork", readings.seed);
  }

  /** Takes over what the reflectors show now. */
  sync(items: AllocationItems): void {
    this.#blocks.update(items.blocks, {
      gone: (block) => {
        this.ledger.forgetBlock(block);
        this.#bump(block.vpc);
        this.#share(block.owner.uid, -1);
      },
      come: (block) => {
        this.ledger.observeBlock(block);
        this.#share(block.owner.uid, 1);
      },
    });
    this.#seeds.update(items.seeds, {
      gone: ({ name }) => {
        this.ledger.forgetSeed(name);
        this.#seedEpoch += 1;
      },
      come: (seed) => {
        this.ledger.observeSeed(seed);
        this.#seedEpoch += 1;
      },
    });
    this.#pools.update(items.pools, {
      gone: ({ name }) => {
        this.ledger.forgetPool(name);
        this.#epoch += 1;
      },
      come: (pool) => {
        this.ledger.observePool(pool);
        this.#epoch += 1;
      },
    });
    this.#domains.update(items.domains, { gone: () => undefined, come: () => undefined });
    this.#claims.update(items.claims, { gone: () => undefined, come: () => undefined });
    this.#indexClaims();
  }

  #bump(vpc: string): void {
    this.#vpcEpochs.set(vpc, (this.#vpcEpochs.get(vpc) ?? 0) + 1);
  }

  #share(uid: string, change: 1 | -1): void {
    const shares = (this.#shares.get(uid) ?? 0) + change;
    if (shares > 0) this.#shares.set(uid, shares);
    else this.#shares.delete(uid);
  }

  /** How many blocks of a claim are shown. */
  sharesOf(uid: string): number {
    return this.#shares.get(uid) ?? 0;
  }

  #indexClaims(): void {
    this.#claimsByUid.clear();
    for (const shown of this.#claims.shown.values()) {
      const { uid } = shown.object.metadata;
      if (uid !== undefined) this.#claimsByUid.set(uid, shown);
    }
  }

  /** Kinds whose first list is not here yet; nothing is decided before this is empty (A1). */
  get unsynced(): readonly string[] {
    return [this.#blocks, this.#claims, this.#domains, this.#pools, this.#seeds]
      .filter(({ isSynced }) => !isSynced)
      .map(({ kind }) => `${kind}s`);
  }

  /** By UID; those that can't be read too, because their blocks are theirs all the same. */
  get claims(): ReadonlyMap<string, ShownClaim> {
    return this.#claimsByUid;
  }

  blocks(): Iterable<NetworkBlock> {
    return this.#blocks.values();
  }

  domains(): Iterable<NetworkDomain> {
    return this.#domains.values();
  }

  /** Domains that somebody wants to be gone, as they were read. */
  *deletingDomains(): Generator<KubeObject> {
    for (const { object } of this.#domains.shown.values()) {
      if (object.metadata.deletionTimestamp !== undefined) yield object;
    }
  }

  pools(): Iterable<NetworkPool> {
    return this.#pools.values();
  }

  seeds(): Iterable<SeedNetwork> {
    return this.#seeds.values();
  }

  /** Moves whenever a claim of this VPC that was told to wait could have a better answer. */
  epochOf(vpc: string): string {
    return `${this.#epoch}.${this.#seedEpoch}.${this.#vpcEpochs.get(vpc) ?? 0}`;
  }

  /** Moves whenever a seed's ranges change: then also what a claim has may be in a seed's way. */
  get seedEpoch(): number {
    return this.#seedEpoch;
  }

  /** A ledger of one moment: these blocks, and seeds and pools as shown. */
  ledgerOf(blocks: Iterable<NetworkBlock>): Ledger {
    return new Ledger({ blocks, seeds: this.seeds(), pools: this.pools() });
  }

  /** Objects of the allocator that can't be read; a claim's problem is in its status instead. */
  findings(): readonly Finding[] {
    return [this.#blocks, this.#domains, this.#pools, this.#seeds].flatMap((mirror) =>
      [...mirror.shown].flatMap(([name, { read }]) =>
        read.ok
          ? []
          : [{ code: "unreadable", object: `${mirror.kind} ${name}`, message: read.problem }],
      ),
    );
  }
}
