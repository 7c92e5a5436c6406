/** How the allocator reads its objects: by the codecs, or through a memory of what was read already. */

import { parseNetworkBlock } from "#src/codec/network-block-codec.ts";
import { parseNetworkClaim } from "#src/codec/network-claim-codec.ts";
import { parseNetworkDomain } from "#src/codec/network-domain-codec.ts";
import { parseNetworkPool } from "#src/codec/network-pool-codec.ts";
import { parseSeedNetwork } from "#src/codec/seed-network-codec.ts";
import type {
  NetworkBlock,
  NetworkClaim,
  NetworkDomain,
  NetworkPool,
  SeedNetwork,
} from "#src/model/allocation.ts";
import type { Parsed } from "#src/model/parsed.ts";

/** One parser a kind. */
export interface AllocationReadings {
  readonly claim: (object: unknown) => Parsed<NetworkClaim>;
  readonly block: (object: unknown) => Parsed<NetworkBlock>;
  readonly domain: (object: unknown) => Parsed<NetworkDomain>;
  readonly pool: (object: unknown) => Parsed<NetworkPool>;
  readonly seed: (object: unknown) => Parsed<SeedNetwork>;
}

export const codecReadings: AllocationReadings = {
  claim: parseNetworkClaim,
  block: parseNetworkBlock,
  domain: parseNetworkDomain,
  pool: parseNetworkPool,
  seed: parseSeedNetwork,
};

/** Reads each object once, whoever asks: only for objects that never change. */
export const rememberedReadings = (): AllocationReadings => ({
  claim: remembered(codecReadings.claim),
  block: remembered(codecReadings.block),
  domain: remembered(codecReadings.domain),
  pool: remembered(codecReadings.pool),
  seed: remembered(codecReadings.seed),
});

const remembered = <T>(read: (object: unknown) => Parsed<T>): ((object: unknown) => Parsed<T>) => {
  const known = new WeakMap<WeakKey, Parsed<T>>();
  return (object) => {
    if (typeof object !== "object" || object === null) return read(object);
    const before = known.get(object);
    if (before !== undefined) return before;
    const value = read(object);
    known.set(object, value);
    return value;
  };
};
