/**
 * Plain routes from the seed to the shoot: what the product replaces, for the lab's own tests and for comparison.
 * They lead through the balancer's machine, which masquerades, so that the answers come back the same way.
 */

import type { Namespace } from "#netsim/lab/namespace.ts";
import type { ClusterSite, ShootRanges } from "./site.ts";

export interface PlainRoutes {
  readonly open: () => Promise<void>;
  /** Connections that are open hang from here on; new ones fail as `noRoute` says. */
  readonly close: () => Promise<void>;
}

/**
 * How the seed's machines learn that there is no way. "unreachable": a connect fails at once, by a route of the last
 * metric that any real route beats. "silent": packets vanish on the way, and a connect fails after a minute.
 */
export type NoRoute = "unreachable" | "silent";

const table = "inet plain-routes";
const lastMetric = "4294967294";

export interface PlainRoutesSpec {
  readonly noRoute: NoRoute;
  /** The machines of the seed. */
  readonly seed: readonly Namespace[];
  readonly site: ClusterSite;
  /** The router that knows only public addresses. */
  readonly internet: Namespace;
  /** A machine with a leg in the shoot's network. */
  readonly passage: Namespace;
  /** The passage's address towards the internet. */
  readonly passageAddress: string;
  readonly passageAddress6: string;
  /** Its interface into the shoot's network. */
  readonly passageInside: string;
}

/** Prepares the switch; nothing is routed until it is opened. */
export async function preparePlainRoutes(spec: PlainRoutesSpec): Promise<PlainRoutes> {
  const { ranges, ranges6 } = spec.site;
  const all = [...Object.values(ranges), ...Object.values(ranges6 ?? {})];
  const outside = all.map((range) => ({
    range,
    via: range.includes(":") ? spec.passageAddress6 : spec.passageAddress,
  }));
  const rules = masquerade(spec);
  const routes = async (verb: "replace" | "del"): Promise<void> => {
    const change = (machine: Namespace, { range, via }: Hop): Promise<unknown> =>
      machine.run(["ip", "route", verb, range, "via", via]);
    await Promise.all([
      ...outside.map((hop) => change(spec.internet, hop)),
      ...insideHops(spec.site).map((hop) => change(spec.passage, hop)),
    ]);
  };
  const refusals = async (verb: "add" | "del"): Promise<void> => {
    if (spec.noRoute === "silent") return;
    const refuse = (machine: Namespace, range: string): Promise<unknown> =>
      machine.run(["ip", "route", verb, "unreachable", range, "metric", lastMetric]);
    await Promise.all(spec.seed.flatMap((machine) => all.map((range) => refuse(machine, range))));
  };
  await refusals("add");
  return {
    open: async () => {
      await refusals("del");
      await spec.passage.run(["nft", "-f", "-"], { input: rules });
      await routes("replace");
    },
    close: async () => {
      await routes("del");
      await spec.passage.run(["nft", "delete", "table", ...table.split(" ")]);
      await refusals("add");
    },
  };
}

interface Hop {
  readonly range: string;
  readonly via: string;
}

/** From the passage on: each node has its pods, and the first one has the services. */
function insideHops({ nodes, ranges, ranges6 }: ClusterSite): readonly Hop[] {
  const pods = nodes.flatMap(({ podRange, address, ipv6 }) => [
    { range: podRange, via: address },
    ...(ipv6 === undefined ? [] : [{ range: ipv6.podRange, via: ipv6.address }]),
  ]);
  const [first] = nodes;
  if (first === undefined) return pods;
  const services = [{ range: ranges.services, via: first.address }];
  if (first.ipv6 === undefined || ranges6 === undefined) return [...pods, ...services];
  return [...pods, ...services, { range: ranges6.services, via: first.ipv6.address }];
}

function masquerade({ site, passageInside }: PlainRoutesSpec): string {
  const rule = (family: "ip" | "ip6", ranges: ShootRanges): string =>
    `    oifname "${passageInside}" ${family} daddr { ${Object.values(ranges).join(", ")} } ` +
    "meta l4proto { tcp, icmp, ipv6-icmp } masquerade;";
  const rules = [rule("ip", site.ranges)];
  if (site.ranges6 !== undefined) rules.push(rule("ip6", site.ranges6));
  return `table ${table} {
  chain postrouting { type nat hook postrouting priority srcnat; policy accept;
${rules.join("\n")}
  }
}`;
}
