/** Which transit addresses belong to a slot. */

import { addressAt, type Cidr } from "#src/model/cidr.ts";
import type { IpAddress } from "#src/model/ip.ts";
import type { Slot } from "#src/model/slot.ts";

/** The slot's address in each transit range, `base + 1 + slot`; a range that is too small gives none. */
export const slotAddresses = (transit: readonly Cidr[], slot: Slot): IpAddress[] =>
  transit.map((cidr) => addressAt(cidr, slot + 1)).filter((address) => address !== null);
