/** A lab with both clusters and the product installed, for tests: brought up, watched on failure, taken down. */

import type { Test } from "tap";
import { openLab } from "#netsim/lab/lab.ts";
import { captureTunnel } from "#netsim/lab/tunnel-test.ts";
import { twoNetworks } from "#netsim/lab/two-networks.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import {
  type CheckResult,
  mainJob,
  type MainJobOptions,
  runMainJob,
  settleApis,
} from "./main-job.ts";
import {
  installProduct,
  type Product,
  type ProductOptions,
  tunnelName,
  tunnelNamespace,
} from "./product.ts";
import { openPrograms } from "./programs.ts";

export interface TunnelCluster {
  readonly cluster: Cluster;
  readonly product: Product;
}

/** Runs `run` with everything installed and nothing of the product started; keeps evidence of a failure. */
export const withTunnelCluster = async (
  t: Test,
  name: string,
  run: (site: TunnelCluster) => Promise<void>,
  options: ProductOptions = {},
): Promise<void> => {
  const programs = await openPrograms({ onProgress: ({ step }) => t.comment(`building ${step}`) });
  const lab = await openLab(twoNetworks({ name }));
  try {
    await captureTunnel(lab);
    const cluster = await openCluster(lab, { programs });
    await cluster.installAgentsIdentity();
    const product = await installProduct(cluster, options);
    await run({ cluster, product });
    await product.stop();
    await cluster.close();
  } catch (error) {
    t.comment(`evidence: ${await lab.evidence()}`);
    throw error;
  } finally {
    if (!t.passing()) t.comment(`evidence: ${await lab.evidence()}`);
    await lab.close();
  }
};

const shown = ({ name, durationMs, outcome }: CheckResult): string => {
  const text = outcome.kind === "passed" ? outcome.evidence : outcome.error;
  return `${name}: ${outcome.kind} after ${Math.round(durationMs)} ms: ${text.trim().split("\n").at(-1)}`;
};

/** Every line of the main job must fail, and as networks fail. */
export const wantNoWay = async (t: Test, cluster: Cluster): Promise<void> => {
  for (const result of await runMainJob(mainJob(cluster), { inParallel: true })) {
    t.equal(result.outcome.kind, "network-failure", shown(result));
  }
};

/** Every line of the main job must pass. */
export const wantMainJob = async (
  t: Test,
  cluster: Cluster,
  options: MainJobOptions = {},
): Promise<void> => {
  await settleApis(cluster);
  for (const result of await runMainJob(mainJob(cluster, options), { inParallel: false })) {
    t.equal(result.outcome.kind, "passed", shown(result));
  }
};

/** Makes every watcher of the Tunnel look again without changing its spec. */
export const touchTunnel = async ({ seed }: Cluster): Promise<void> => {
  const where = ["tunnel", tunnelName, "-n", tunnelNamespace];
  await seed.kubectl.run([
    "annotate",
    "--overwrite",
    ...where,
    `test.xylem.dev/touched=${Date.now()}`,
  ]);
};

/** One exec; the milliseconds that it took. Throws kubectl's words when it fails. */
export const execIn = async ({ shoot }: Cluster, node: string): Promise<number> => {
  const startMs = performance.now();
  await shoot.kubectl.run(["exec", `web-${node}`, "--", "true"], { timeoutMs: 10_000 });
  return performance.now() - startMs;
};
