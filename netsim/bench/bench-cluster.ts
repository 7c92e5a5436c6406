/** The clusters and the product as benchmarks need them: up, and able to fall silent. */

import { openLab, type Lab } from "#netsim/lab/lab.ts";
import type { Topology } from "#netsim/lab/topology.ts";
import { twoNetworks, twoNetworksPlan } from "#netsim/lab/two-networks.ts";
import { type Cluster, openCluster } from "#netsim/cluster/cluster.ts";
import { installProduct, type Product } from "#netsim/cluster/product.ts";
import { openPrograms } from "#netsim/cluster/programs.ts";

export interface BenchCluster {
  readonly lab: Lab;
  readonly cluster: Cluster;
  readonly product: Product;
  /** Tells a person what goes on. */
  readonly say: (text: string) => void;
}

/** Machines of the seed that have nothing but a way to the API servers, for gateways of no API server. */
export const spareMachines: readonly string[] = Array.from({ length: 10 }, (_, i) => `spare${i}`);

/** The standard drawing, and ten more pod namespaces in the seed. */
export const benchTopology = (name: string): Topology => {
  const drawing = twoNetworks({ name });
  const { routes = [] } = drawing.machines["prometheus"] ?? {};
  const length = twoNetworksPlan.seedRange.split("/")[1] ?? "";
  const spares = spareMachines.map((machine, index) => [
    machine,
    {
      interfaces: {
        eth0: { network: "seed-net", addresses: [`172.20.13.${index + 10}/${length}`] },
      },
      routes: routes.filter(({ via }) => !via.includes(":")),
    },
  ]);
  return { ...drawing, machines: { ...drawing.machines, ...Object.fromEntries(spares) } };
};

/** Opens the lab alone; close it whatever happens after. */
export const openBenchLab = (name: string): Promise<Lab> => openLab(benchTopology(name));

/** Brings both clusters and the product up in a lab; resolves when everything is ready. */
export const openBenchCluster = async (
  lab: Lab,
  say: (text: string) => void,
): Promise<BenchCluster> => {
  const programs = await openPrograms({ onProgress: ({ step }) => say(`building ${step}`) });
  const cluster = await openCluster(lab, { programs });
  say("the clusters are up");
  await cluster.installAgentsIdentity();
  const product = await installProduct(cluster);
  await product.start();
  say("gateways and agents are ready");
  return { lab, cluster, product, say };
};

/**
 * Ends what talks through the tunnel by itself: Prometheus, and the API server's looks at the APIs and webhooks that
 * live in the shoot. Calling it again changes nothing.
 */
export const silence = async ({ cluster }: BenchCluster): Promise<void> => {
  await cluster.prometheus.stop();
  const gone = ["delete", "--ignore-not-found"];
  const { kubectl } = cluster.shoot;
  await kubectl.run([...gone, "apiservice", "v1.lab.example", "v1beta1.metrics.k8s.io"]);
  await kubectl.run([...gone, "validatingwebhookconfiguration", "lab"]);
};
