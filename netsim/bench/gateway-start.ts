/** How long a gateway takes from its start to the first kubectl exec that works. */

import { execIn } from "#netsim/cluster/tunnel-cluster.ts";
import type { BenchCluster } from "./bench-cluster.ts";
import { type Row, rowOf } from "./report.ts";

const starts = 7;

/** A clean stop releases the slot, so that each start claims one, as a new pod does. */
export const measureGatewayStart = async ({
  cluster,
  product,
  say,
}: BenchCluster): Promise<Row[]> => {
  const gateway = product.gateways.apiserver;
  const [node] = cluster.site.nodes;
  if (node === undefined) throw new Error("the shoot has no node");
  say(`starting a gateway ${starts} times`);
  const readyMs: number[] = [];
  const execMs: number[] = [];
  for (let round = 0; round < starts; round += 1) {
    await gateway.stop();
    const startMs = performance.now();
    gateway.start();
    await gateway.ready();
    readyMs.push(performance.now() - startMs);
    await execIn(cluster, node.name);
    execMs.push(performance.now() - startMs);
  }
  return [
    rowOf({ figure: "gateway: start to ready", unit: "ms", values: readyMs }),
    rowOf({
      figure: "gateway: start to first kubectl exec",
      unit: "ms",
      values: execMs,
      goal: 1500,
    }),
  ];
};
