/**
 * Plain routes from the seed to the shoot: what the product replaces, for the lab's own tests and for comparison.
 * They lead through the balancer's machine, which masquerades, so that the answers come back the same way.
 */

import type { Namespace } from "#netsim/lab/namespace.ts";
import type { ClusterSite } from "./site.ts";

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
  /** Its interface into the shoot's network. */
  readonly passageInside: string;
}

/** Prepares the switch; nothing is routed until it is opened. */
export async function preparePlainRoutes(spec: PlainRoutesSpec): Promise<PlainRoutes> {
  const { ranges, nodes } = spec.site;
  const all = [ranges.nodes, ranges.pods, ranges.services];
  const [first] = nodes;
  const inside = [
    ...nodes.map(({ podRange, address }) => [podRange, address] as const),
    ...(first === undefined ? [] : [[ranges.services, first.address] as const]),
  ];
  const table = "ip plain-routes";
  const rules = `table ${table} {
  chain postrouting { type nat hook postrouting priority srcnat; policy accept;
    oifname "${spec.passageInside}" ip daddr { ${all.join(", ")} } meta l4proto { tcp, icmp } masquerade;
  }
}`;
  const routes = async (verb: "replace" | "del"): Promise<void> => {
    const outer = all.map((range) =>
      spec.internet.run(["ip", "route", verb, range, "via", spec.passageAddress]),
    );
    const inner = inside.map(([range, via]) =>
      spec.passage.run(["ip", "route", verb, range, "via", via]),
    );
    await Promise.all([...outer, ...inner]);
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
