/** All that stands in the way of one claim: reserved ranges, its seeds, its VPC, its own other ranges. */

import type { BlockGrant, NetworkClaim, NetworkDomain } from "#src/model/allocation.ts";
import { cidrParts, parseCidr, type Cidr } from "#src/model/cidr.ts";
import { CidrIndex, firstFreeInAll, type Held } from "#src/model/cidr-index.ts";
import { RESERVED_RANGES } from "#src/model/cidr-reserved.ts";
import { bitsOf, type Family } from "#src/model/ip.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { Ledger, SeedHolder } from "./ledger.ts";
import type { Place } from "./sentence.ts";

const RESERVED = new CidrIndex(
  RESERVED_RANGES.map((range) => ({ cidr: range.cidr, holder: range })),
);

/** Where a suggestion comes from when no pool has one: RFC 1918, RFC 4193 (its locally assigned half). */
const PRIVATE: readonly Cidr[] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8"].map(
  (text) => valueOf(parseCidr(text)),
);

export interface Conflicts {
  /** What refuses it; null: nothing does. */
  readonly blocking: Place | null;
  /** Ranges of seeds that it overlaps and, as an adopted cluster, may. */
  readonly bridgeable: readonly Place[];
}

export class Obstacles {
  readonly #claim: NetworkClaim;
  readonly #vpc: CidrIndex<BlockGrant>;
  readonly #pending: CidrIndex<BlockGrant>;
  readonly #seeds: readonly CidrIndex<SeedHolder>[];
  readonly #own = new CidrIndex<Place>();

  constructor(facts: {
    readonly claim: NetworkClaim;
    readonly ledger: Ledger;
    readonly domain: NetworkDomain | null;
  }) {
    const { claim, ledger, domain } = facts;
    this.#claim = claim;
    this.#vpc = ledger.blocksIn(claim.vpc);
    this.#pending = new CidrIndex(
      (domain?.pending ?? []).map((grant) => ({ cidr: grant.cidr, holder: grant })),
    );
    this.#seeds = claim.seeds.flatMap((name) => ledger.rangesOfSeed(name) ?? []);
  }

  /** Counts a range as this claim's own from now on. */
  place(place: Place): void {
    this.#own.add(place.cidr, place);
  }

  /** Looks for what overlaps a range, in the order in which a person would want to hear of it. */
  conflictsOf({ cidr }: Place): Conflicts {
    const reserved = RESERVED.firstOverlap(cidr);
    if (reserved !== null) {
      const { purpose } = reserved.holder;
      return blockedBy({ cidr: reserved.cidr, party: { kind: "reserved", purpose } });
    }
    const own = this.#own.firstOverlap(cidr);
    if (own !== null) return blockedBy(own.holder);
    const bridgeable: Place[] = [];
    for (const seed of this.#seeds) {
      for (const held of seed.overlapping(cidr)) {
        const place = seedPlace(held);
        if (!this.#claim.isAdopted || !isBridgeable(held.holder)) return blockedBy(place);
        bridgeable.push(place);
      }
    }
    return { blocking: this.#neighbour(cidr), bridgeable };
  }

  /** A block of another claim in the same VPC. */
  #neighbour(cidr: Cidr): Place | null {
    for (const index of [this.#vpc, this.#pending]) {
      for (const { holder } of index.overlapping(cidr)) {
        if (holder.owner.uid === this.#claim.uid) continue;
        const { owner, kind: use } = holder;
        return { cidr: holder.cidr, party: { kind: "claim", ...owner, use } };
      }
    }
    return null;
  }

  #all(): readonly Pick<CidrIndex<unknown>, "firstFree">[] {
    return [this.#vpc, this.#pending, this.#own, RESERVED, ...this.#seeds];
  }

  /** The lowest free block in the first region that has one. */
  firstFree(regions: readonly Cidr[], length: number): Cidr | null {
    const all = this.#all();
    for (const within of regions) {
      const found = firstFreeInAll(all, { within, length });
      if (found !== null) return found;
    }
    return null;
  }

  /** The largest free block that is smaller than a /`length`; null: nothing is free. */
  largestFree(regions: readonly Cidr[], length: number): Cidr | null {
    const [first] = regions;
    if (first === undefined) return null;
    const bits = bitsOf(cidrParts(first).family);
    for (let shorter = length + 1; shorter <= bits; shorter += 1) {
      const found = this.firstFree(regions, shorter);
      if (found !== null) return found;
    }
    return null;
  }

  /** A free block of a size: from pools, else from private ranges. */
  suggest(wish: {
    readonly pools: readonly Cidr[];
    readonly family: Family;
    readonly length: number;
  }): Cidr | null {
    const regions = [...wish.pools, ...PRIVATE].filter(
      (cidr) => cidrParts(cidr).family === wish.family,
    );
    return this.firstFree(regions, wish.length);
  }
}

const blockedBy = (place: Place): Conflicts => ({ blocking: place, bridgeable: [] });

const seedPlace = ({ cidr, holder }: Held<SeedHolder>): Place => ({
  cidr,
  party: { kind: "seed", name: holder.seed, use: holder.use },
});

/** A map or a proxy can tell a seed's cluster ranges from a shoot's; what is set aside stays set aside. */
const isBridgeable = ({ use }: SeedHolder): boolean =>
  use === "nodes" || use === "pods" || use === "services";
