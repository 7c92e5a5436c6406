/** A Firewall in memory, for tests, with counters, faults and the hand of somebody else. */

import { renderNft } from "#src/codec/nft.ts";
import type { FirewallTable } from "#src/model/network.ts";
import type { Firewall, FirewallObserved } from "#src/ports/firewall.ts";
import { Faults } from "../faults.ts";

export class FakeFirewall implements Firewall {
  /** Faults by call: `observe`, `replace`, `remove`. */
  readonly faults = new Faults();
  writes = 0;
  #isSeen = false;
  #held: { readonly table: FirewallTable; foreignRules: number } | null = null;

  async hasChanged(): Promise<boolean> {
    return !this.#isSeen;
  }

  async observe(): Promise<FirewallObserved | null> {
    this.#isSeen = false;
    this.faults.hit("observe");
    this.#isSeen = true;
    return this.#held === null ? null : { ...this.#held, counters: {} };
  }

  async replace(table: FirewallTable): Promise<void> {
    this.faults.hit("replace");
    this.writes++;
    this.#isSeen = false;
    this.#held = { table, foreignRules: 0 };
  }

  async remove(): Promise<void> {
    this.faults.hit("remove");
    this.writes++;
    this.#isSeen = false;
    this.#held = null;
  }

  /** Somebody runs `nft flush table inet xylem`: chains stay, rules go. */
  flush(): void {
    this.#isSeen = false;
    if (this.#held === null) return;
    const { table } = this.#held;
    const chains = table.chains.map((chain) => ({ ...chain, rules: [] }));
    this.#held = { table: { ...table, chains }, foreignRules: 0 };
  }

  /** Somebody runs `nft flush ruleset`. */
  flushRuleset(): void {
    this.#isSeen = false;
    this.#held = null;
  }

  /** Somebody adds a rule of his own to our table. */
  addForeignRule(): void {
    this.#isSeen = false;
    if (this.#held !== null) this.#held.foreignRules++;
  }

  /** The ruleset as text, for golden tests; what nft would be told. */
  print(): string {
    if (this.#held === null) return "no firewall table";
    const foreign =
      this.#held.foreignRules === 0 ? "" : `${this.#held.foreignRules} foreign rules\n`;
    return foreign + renderNft(this.#held.table).split("\n").slice(2).join("\n").trimEnd();
  }
}
