/** Our nftables table in this machine's network namespace. */

import type { FirewallTable } from "#src/model/network.ts";

export interface FirewallObserved {
  readonly table: FirewallTable;
  /** Rules in our table that we did not write or can't read: drift. */
  readonly foreignRules: number;
  /** Packets by rule kind, since the table was written. */
  readonly counters: Readonly<Record<string, number>>;
}

/** Codes: `no-permission`, `no-nft`, `unsupported`, `io`. */
export interface Firewall {
  /** Reads the kernel; null: our table does not exist. */
  observe(): Promise<FirewallObserved | null>;
  /** False only when nobody has changed the machine's ruleset since the last `observe` began; true also where that can't be told. */
  hasChanged(): Promise<boolean>;
  /** Replaces the whole table in one transaction. */
  replace(table: FirewallTable): Promise<void>;
  /** Removes the table; absent is success. */
  remove(): Promise<void>;
}
