/** `kubectl exec true` through the tunnel and over a plain route, one after the other. */

import { execIn } from "#netsim/cluster/tunnel-cluster.ts";
import type { Namespace } from "#netsim/lab/namespace.ts";
import type { BenchCluster } from "./bench-cluster.ts";
import { type Row, rowOf } from "./report.ts";
import { countTunnelPackets, tunnelPackets } from "./tunnel-packets.ts";
import { median } from "./statistics.ts";

const rounds = 30;
/** An exec takes more than thirty; a keepalive or a probe beside a plain one takes few. */
const tunnelPacketsMin = 12;
/** A routing table of the benchmark's own, and its place before all others. */
const plainTable = "5050";
const rule = ["pref", "50", "iif", "lo", "lookup", plainTable];

/** Alternates between both ways while both are open: a rule before all others prefers the plain one. */
export const measureExec = async ({ cluster, product, say }: BenchCluster): Promise<Row[]> => {
  const nodes = cluster.site.nodes.map(({ name }) => name);
  const namespace = cluster.lab.namespace(cluster.site.apiserver.machine);
  await product.gateways.apiserver.ready();
  say(`kubectl exec, ${rounds} times each way`);
  await countTunnelPackets(namespace);
  await cluster.plainRoutes.open();
  const times: Record<Way, number[]> = { tunnel: [], plain: [] };
  try {
    await preparePlainTable(namespace, Object.values(cluster.site.ranges));
    for (let round = -1; round < rounds; round += 1) {
      const node = nodes[Math.max(round, 0) % nodes.length] ?? "";
      const ways: readonly Way[] = round % 2 === 0 ? ["tunnel", "plain"] : ["plain", "tunnel"];
      for (const way of ways) {
        const ms = await execOver({ way, namespace, exec: () => execIn(cluster, node) });
        // The first round only warms both ways up.
        if (round >= 0) times[way].push(ms);
      }
    }
  } finally {
    await namespace.run(["ip", "route", "flush", "table", plainTable], { check: false });
    await cluster.plainRoutes.close();
  }
  return [
    rowOf({
      figure: "kubectl exec true",
      unit: "ms",
      values: times.tunnel,
      peers: { "plain route": times.plain },
    }),
    rowOf({
      figure: "kubectl exec true, medians: tunnel / plain route",
      unit: "x",
      values: [median(times.tunnel) / median(times.plain)],
      goal: 1.1,
    }),
  ];
};

type Way = "tunnel" | "plain";

interface ExecOver {
  readonly way: Way;
  readonly namespace: Namespace;
  readonly exec: () => Promise<number>;
}

/** One exec over one way; the datagrams beside it prove which way it took. */
const execOver = async ({ way, namespace, exec }: ExecOver): Promise<number> => {
  if (way === "plain") await namespace.run(["ip", "rule", "add", ...rule]);
  try {
    const before = await tunnelPackets(namespace);
    const ms = await exec();
    const packets = (await tunnelPackets(namespace)) - before;
    const isTunnel = packets >= tunnelPacketsMin;
    if (isTunnel !== (way === "tunnel"))
      throw new Error(`an exec over the ${way} way made ${packets} datagrams of the tunnel`);
    return ms;
  } finally {
    if (way === "plain") await namespace.run(["ip", "rule", "del", ...rule]);
  }
};

/** Leads the shoot's ranges to the pod's default router, as if there were no tunnel. */
const preparePlainTable = async (
  namespace: Namespace,
  ranges: readonly string[],
): Promise<void> => {
  const { stdout } = await namespace.run(["ip", "-4", "route", "show", "default"]);
  const router = /^default via (\S+)/m.exec(stdout)?.[1];
  if (router === undefined) throw new Error(`no default route: ${stdout.trim()}`);
  for (const range of ranges)
    await namespace.run(["ip", "route", "replace", range, "via", router, "table", plainTable]);
};
