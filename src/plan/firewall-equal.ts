/** Whether two firewall tables mean the same. */

import { mergeCidrs } from "#src/model/cidr-set.ts";
import type { Cidr } from "#src/model/cidr.ts";
import type { FirewallChain, FirewallRule, FirewallTable } from "#src/model/network.ts";

/**
 * The order of chains and of addresses has no meaning, nor how addresses are cut into blocks; the order of rules has.
 * A chain without rules is as good as none.
 */
export const isSameFirewall = (a: FirewallTable, b: FirewallTable): boolean =>
  meaningOf(a) === meaningOf(b);

const meaningOf = (table: FirewallTable): string =>
  JSON.stringify([
    table.interface,
    table.chains
      .filter((chain) => chain.rules.length > 0)
      .map(chainMeaning)
      .toSorted(),
  ]);

const chainMeaning = ({ hook, rules }: FirewallChain): string =>
  JSON.stringify([hook, rules.map(ruleMeaning)]);

const ruleMeaning = (rule: FirewallRule): readonly string[] => {
  switch (rule.kind) {
    case "accept-replies":
    case "drop-new":
    case "drop-new-into":
      return [rule.kind];
    case "only-destinations":
      return [rule.kind, ...blocks(rule.destinations)];
    case "masquerade":
      return [rule.kind, ...blocks(rule.sources)];
    case "map-destination":
      return [rule.kind, rule.real, rule.mapped];
    case "map-source":
      return [rule.kind, rule.real, rule.mapped, ...blocks(rule.destinations)];
    case "mark-answers":
      return [rule.kind];
  }
};

const blocks = (cidrs: readonly Cidr[]): readonly Cidr[] => mergeCidrs(cidrs);
