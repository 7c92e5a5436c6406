/** Addresses, routes and filters of one machine that Xylem owns, as plain data. */

import type { AddressMap } from "./address-map.ts";
import type { Cidr } from "./cidr.ts";
import type { Family, IpAddress } from "./ip.ts";

/** A route of ours; carries our route protocol number, which is how we know it again. */
export interface Route {
  readonly destination: Cidr;
  /** Source address that local sockets get (RTA_PREFSRC); null: the kernel chooses. */
  readonly source: IpAddress | null;
  /** Left out: through our interface. `keep-out`: not through it, the routes of others decide; only in our own table. */
  readonly way?: "keep-out";
  /** Left out: the main table. */
  readonly table?: "own";
}

/** Our interface and all that hangs on it. */
export interface NetworkDesired {
  readonly interface: string;
  readonly mtu: number;
  /** Host addresses, /32 or /128. */
  readonly addresses: readonly Cidr[];
  readonly routes: readonly Route[];
  /**
   * Families whose packets look into our own table first, unless they carry our mark: so our routes win over equal ones
   * of others, and answers can leave as their questions came. Left out: none.
   */
  readonly rules?: readonly Family[];
  /** Sysctls of our interface or namespace, e.g. {"net.ipv4.conf.xylem0.rp_filter": "2"}; only those we own. */
  readonly sysctls: Readonly<Record<string, string>>;
}

export interface NetworkObserved {
  /** Null: the interface does not exist. */
  readonly link: { readonly mtu: number; readonly isUp: boolean } | null;
  readonly addresses: readonly Cidr[];
  /** Routes with our protocol number, on any interface. */
  readonly routes: readonly (Route & { readonly interface: string })[];
  /** Families with our rule; left out: none. */
  readonly rules?: readonly Family[];
  readonly sysctls: Readonly<Record<string, string>>;
}

/** One change of the kernel's state; add is "already there" = success, remove is "absent" = success. */
export type NetworkOperation =
  | { readonly kind: "set-link"; readonly mtu: number; readonly up: boolean }
  | { readonly kind: "add-address"; readonly address: Cidr }
  | { readonly kind: "remove-address"; readonly address: Cidr }
  | { readonly kind: "add-route"; readonly route: Route }
  | { readonly kind: "remove-route"; readonly route: Route & { readonly interface: string } }
  | { readonly kind: "add-rule"; readonly family: Family }
  | { readonly kind: "remove-rule"; readonly family: Family }
  | { readonly kind: "set-sysctl"; readonly name: string; readonly value: string };

/** A filter rule as we mean it; codec/nft.ts knows how nftables says it. */
export type FirewallRule =
  /** Established and related traffic passes. */
  | { readonly kind: "accept-replies"; readonly from: "tunnel" }
  /** Anything new from the tunnel is dropped and counted. */
  | { readonly kind: "drop-new"; readonly from: "tunnel" }
  /** Anything new into the tunnel is dropped and counted. */
  | { readonly kind: "drop-new-into"; readonly to: "tunnel" }
  /** From the tunnel: only these destinations may be reached; the rest is dropped and counted. */
  | {
      readonly kind: "only-destinations";
      readonly from: "tunnel";
      readonly destinations: readonly Cidr[];
    }
  /** From these sources through the tunnel to anywhere else: source becomes this machine's own address. */
  | { readonly kind: "masquerade"; readonly from: "tunnel"; readonly sources: readonly Cidr[] }
  /** From the tunnel: a destination in `mapped` becomes the one at the same place of `real`; nothing is remembered. */
  | ({ readonly kind: "map-destination"; readonly from: "tunnel" } & AddressMap)
  /** Into the tunnel, towards these destinations: a source in `real` becomes the one at the same place of `mapped`. */
  | ({
      readonly kind: "map-source";
      readonly to: "tunnel";
      readonly destinations: readonly Cidr[];
    } & AddressMap)
  /** Answers to connections that others opened with this machine get our mark, and leave as those came. */
  | { readonly kind: "mark-answers"; readonly to: "tunnel" };

/**
 * `arrival` is before conntrack and routing, `departure` after every other rule; `answer` lets a mark choose the route
 * anew.
 */
export type FirewallHook =
  | "input"
  | "forward"
  | "output"
  | "postrouting"
  | "arrival"
  | "departure"
  | "answer";

export interface FirewallChain {
  readonly hook: FirewallHook;
  readonly rules: readonly FirewallRule[];
}

/** Our one nftables table (family inet, name `xylem`); there is nothing of ours outside it. */
export interface FirewallTable {
  readonly interface: string;
  readonly chains: readonly FirewallChain[];
}
