/** Our firewall table as nftables says it: text to write (nft(8)), JSON to read (libnftables-json(5)). */

import { mergeCidrs } from "#src/model/cidr-set.ts";
import { cidrParts, type Cidr } from "#src/model/cidr.ts";
import { bigintToIp, bitsOf } from "#src/model/ip.ts";
import type {
  FirewallChain,
  FirewallHook,
  FirewallRule,
  FirewallTable,
} from "#src/model/network.ts";

/** Our mark in the kernel's ruleset; docs/objects.md lists all marks. */
export const NFT_TABLE = "xylem";

/** How nft names what a base chain hangs on, and the number that it prints for the priority. */
export interface NftHook {
  readonly type: "filter" | "nat" | "route";
  readonly hook: string;
  readonly priorityText: string;
  readonly priority: number;
}

export const NFT_HOOKS: Readonly<Record<FirewallHook, NftHook>> = {
  input: { type: "filter", hook: "input", priorityText: "filter", priority: 0 },
  forward: { type: "filter", hook: "forward", priorityText: "filter", priority: 0 },
  output: { type: "filter", hook: "output", priorityText: "filter", priority: 0 },
  postrouting: { type: "nat", hook: "postrouting", priorityText: "srcnat", priority: 100 },
  // Before conntrack (-200), so that it and everybody's NAT see the real address.
  arrival: { type: "filter", hook: "prerouting", priorityText: "raw", priority: -300 },
  // After source NAT (100) and conntrack's own last step.
  departure: { type: "filter", hook: "postrouting", priorityText: "300", priority: 300 },
  answer: { type: "route", hook: "output", priorityText: "mangle", priority: -150 },
};

/** Our mark on packets (`meta mark`); docs/objects.md lists all marks. */
export const PACKET_MARK = 158;

/** Conntrack states of a packet that belongs to something already open. */
export const REPLY_STATES = ["established", "related"] as const;
/** All other states; listed, so that the rule says what it means without the rule before it. */
export const NEW_STATES = ["invalid", "new", "untracked"] as const;

/** Interface names that can't end a quoted string; the kernel allows 15 bytes. */
const INTERFACE_NAME = /^[A-Za-z0-9_.-]{1,15}$/;

/**
 * Renders one nft transaction that replaces the whole table, whatever was in it.
 * Equal meaning gives equal text: prefixes are merged and sorted.
 */
export function renderNft(table: FirewallTable): string {
  if (!INTERFACE_NAME.test(table.interface)) {
    throw new RangeError(
      `Interface name ${JSON.stringify(table.interface)} is not usable in a rule.`,
    );
  }
  const chains = table.chains.flatMap((chain) => renderChain(table.interface, chain));
  return [
    ...renderNftRemoval().trimEnd().split("\n"),
    `table inet ${NFT_TABLE} {`,
    ...chains,
    "}",
    "",
  ].join("\n");
}

/** Renders the removal of the table; the first line makes "absent" a success. */
export const renderNftRemoval = (): string =>
  `add table inet ${NFT_TABLE}\ndelete table inet ${NFT_TABLE}\n`;

function renderChain(interfaceName: string, chain: FirewallChain): readonly string[] {
  const hook = NFT_HOOKS[chain.hook];
  const rules = chain.rules.flatMap((rule) => renderRule(interfaceName, rule));
  return [
    `\tchain ${chain.hook} {`,
    `\t\ttype ${hook.type} hook ${hook.hook} priority ${hook.priorityText}; policy accept;`,
    ...rules.map((rule) => `\t\t${rule}`),
    "\t}",
  ];
}

function renderRule(interfaceName: string, rule: FirewallRule): readonly string[] {
  const from = `iifname "${interfaceName}"`;
  const comment = `comment "${rule.kind}"`;
  switch (rule.kind) {
    case "accept-replies":
      return [`${from} ct state ${REPLY_STATES.join(",")} counter accept ${comment}`];
    case "drop-new":
      return [`${from} ct state ${NEW_STATES.join(",")} counter drop ${comment}`];
    case "drop-new-into":
      return [
        `oifname "${interfaceName}" ct state ${NEW_STATES.join(",")} counter drop ${comment}`,
      ];
    case "only-destinations":
      return ([4, 6] as const).map((family) => {
        const wanted = ofFamily(rule.destinations, family);
        const outside =
          wanted.length === 0
            ? `meta nfproto ipv${family}`
            : `${ipWord(family)} daddr != ${renderSet(wanted)}`;
        return `${from} ${outside} counter drop ${comment}`;
      });
    case "masquerade":
      return ([4, 6] as const).flatMap((family) => {
        const sources = ofFamily(rule.sources, family);
        if (sources.length === 0) return [];
        const match = `${ipWord(family)} saddr ${renderSet(sources)}`;
        return [`${from} oifname != "${interfaceName}" ${match} counter masquerade ${comment}`];
      });
    case "map-destination": {
      const rewrite = renderRewrite({ field: "daddr", from: rule.mapped, to: rule.real });
      return [`${from} ${rewrite} ${comment}`];
    }
    case "map-source": {
      const { family } = cidrParts(rule.real);
      const destinations = ofFamily(rule.destinations, family);
      if (destinations.length === 0) return [];
      const towards = `oifname "${interfaceName}" ${ipWord(family)} daddr ${renderSet(destinations)}`;
      const rewrite = renderRewrite({ field: "saddr", from: rule.real, to: rule.mapped });
      return [`${towards} ${rewrite} ${comment}`];
    }
    case "mark-answers": {
      const answers = `oifname "${interfaceName}" ct direction reply`;
      return [`${answers} counter meta mark set ${PACKET_MARK} ${comment}`];
    }
  }
}

/** Replaces the prefix of an address and keeps the rest; nft puts L4 checksums right. */
const renderRewrite = (rewrite: {
  readonly field: "daddr" | "saddr";
  readonly from: Cidr;
  readonly to: Cidr;
}): string => {
  const { family, base, length } = cidrParts(rewrite.to);
  const field = `${ipWord(family)} ${rewrite.field}`;
  const rest = bigintToIp((1n << BigInt(bitsOf(family) - length)) - 1n, family);
  const prefix = bigintToIp(base, family);
  const value = length === bitsOf(family) ? prefix : `${field} & ${rest} | ${prefix}`;
  return `${field} ${rewrite.from} counter ${field} set ${value}`;
};

/** nft merges the elements of an anonymous set by itself; doing it here keeps reading and writing equal. */
const ofFamily = (cidrs: readonly Cidr[], family: 4 | 6): readonly Cidr[] =>
  mergeCidrs(cidrs.filter((cidr) => cidrParts(cidr).family === family));

const ipWord = (family: 4 | 6): string => (family === 4 ? "ip" : "ip6");

const renderSet = (cidrs: readonly Cidr[]): string => `{ ${cidrs.join(", ")} }`;
