/** Whether two firewall tables mean the same, whatever the order of their chains and the spelling of their sets. */

import { mergeCidrs } from "#src/model/cidr-set.ts";
import { cidrParts, type Cidr } from "#src/model/cidr.ts";
import type { FirewallRule, FirewallTable } from "#src/model/network.ts";

/** True when both let pass, drop and masquerade the same packets in the same order. */
export const isSameFirewall = (a: FirewallTable, b: FirewallTable): boolean =>
  meaningOf(a) === meaningOf(b);

/** Canonical text: chains by hook without empty ones, one line per rule and family, merged prefixes. */
function meaningOf(table: FirewallTable): string {
  const lines = table.chains
    .toSorted((a, b) => (a.hook < b.hook ? -1 : a.hook > b.hook ? 1 : 0))
    .flatMap((chain) => chain.rules.flatMap(ruleMeaning).map((rule) => `${chain.hook}: ${rule}`));
  return lines.length === 0 ? "" : [table.interface, ...lines].join("\n");
}

function ruleMeaning(rule: FirewallRule): readonly string[] {
  switch (rule.kind) {
    case "accept-replies":
    case "drop-new":
    case "drop-new-into":
      return [rule.kind];
    case "only-destinations":
      // An empty family still drops: everything of that family.
      return ([4, 6] as const).map((f) => `${rule.kind} ipv${f} ${ofFamily(rule.destinations, f)}`);
    case "masquerade":
      return ([4, 6] as const)
        .map((family) => ofFamily(rule.sources, family))
        .filter((sources) => sources !== "")
        .map((sources) => `${rule.kind} ${sources}`);
  }
}

const ofFamily = (cidrs: readonly Cidr[], family: 4 | 6): string =>
  mergeCidrs(cidrs.filter((cidr) => cidrParts(cidr).family === family)).join(" ");
