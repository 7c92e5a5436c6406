/** What an address of a seed or of its shoots is on the other side. */

import { mappedOf, realOf, type StoredMap, type TunnelRef } from "#src/model/address-map.ts";
import { compareCidrs, type Cidr } from "#src/model/cidr.ts";
import type { IpAddress } from "#src/model/ip.ts";

export interface Translation {
  /** `mapped`: what is dialed instead; `real`: what the shoot calls it. */
  readonly to: "mapped" | "real";
  readonly address: IpAddress;
  readonly tunnel: Pick<TunnelRef, "namespace" | "name">;
  readonly real: Cidr;
  readonly mapped: Cidr;
}

/**
 * All that an address may mean: many shoots have one real address, and each has its own mapped one; a mapped address
 * stands for one address of one shoot.
 */
export const translate = (
  entries: readonly StoredMap[],
  address: IpAddress,
): readonly Translation[] =>
  entries
    .flatMap(({ real, mapped, tunnel: { namespace, name } }): readonly Translation[] => {
      const map = { real, mapped };
      const tunnel = { namespace, name };
      const asMapped = mappedOf([map], address);
      const asReal = realOf([map], address);
      return [
        ...(asReal === null ? [] : [{ to: "real", address: asReal, tunnel, ...map } as const]),
        ...(asMapped === null
          ? []
          : [{ to: "mapped", address: asMapped, tunnel, ...map } as const]),
      ];
    })
    .toSorted((a, b) =>
      a.to === b.to ? compareCidrs(a.mapped, b.mapped) : a.to === "real" ? -1 : 1,
    );
