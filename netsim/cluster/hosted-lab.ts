/** A lab with a whole seed and the product's images on its nodes, for tests: brought up, watched on failure, taken down. */

import { join } from "node:path";
import type { Test } from "tap";
import { hostedNetworks } from "#netsim/lab/hosted-networks.ts";
import { openLab } from "#netsim/lab/lab.ts";
import { captureTunnel } from "#netsim/lab/tunnel-test.ts";
import { type HostedCluster, openHostedCluster } from "./hosted-cluster.ts";
import { writeProductImages } from "./hosted-install.ts";
import { writePrometheusImage } from "./hosted-prometheus.ts";
import { openPrograms } from "./programs.ts";

/** Runs `run` with both clusters up and nothing of the product installed; keeps evidence of a failure. */
export const withHostedCluster = async (
  t: Test,
  run: (cluster: HostedCluster) => Promise<void>,
): Promise<void> => {
  const programs = await openPrograms({ onProgress: ({ step }) => t.comment(`building ${step}`) });
  const lab = await openLab(hostedNetworks("hosted"));
  try {
    await captureTunnel(lab);
    const images = await writeProductImages(join(lab.ram, "product-images"));
    const prometheus = await writePrometheusImage(join(lab.ram, "prometheus.tar"));
    const cluster = await openHostedCluster(lab, {
      programs,
      images: { seed: [images.controller, images.gateway, prometheus], shoot: [images.agent] },
      onProgress: (step, ms) => t.comment(`${Math.round(ms)} ms: ${step}`),
    });
    await run(cluster);
    await cluster.close();
  } catch (error) {
    t.comment(`evidence: ${await lab.evidence()}`);
    throw error;
  } finally {
    if (!t.passing()) t.comment(`evidence: ${await lab.evidence()}`);
    await lab.close();
  }
};
