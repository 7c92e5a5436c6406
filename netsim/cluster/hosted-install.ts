/** Installs the product as docs/install.md says: its commands are taken from the page and run. */

import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { enterNamespace } from "#netsim/lab/namespace.ts";
import { runCommand } from "#netsim/lab/process.ts";
import { twoNetworksPlan } from "#netsim/lab/two-networks.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import { openHelm } from "../../scripts/helm.ts";
import { imageNames, imageSpec } from "../../scripts/images.ts";
import type { ImageName } from "../../scripts/images.ts";
import { writeImage } from "../../scripts/oci-archive.ts";
import type { HostedCluster } from "./hosted-cluster.ts";
import { publishBalancer } from "./product.ts";

/** One block of commands. */
export interface InstallStep {
  /** First line that does something, for people. */
  readonly title: string;
  readonly durationMs: number;
}

/** Where the lab's images "come from": their names only, for the nodes have them. */
const imagePrefix = "lab.local/";
export const hostedTunnel = "alpha";
const root = join(import.meta.dirname, "../..");
const section = "## From nothing to `kubectl exec`";
const stepTimeoutMs = 150_000;

/** Writes the product's images as OCI archives; the paths by name. */
export async function writeProductImages(
  folder: string,
): Promise<Readonly<Record<ImageName, string>>> {
  await mkdir(folder, { recursive: true });
  const path = (name: ImageName): string => join(folder, `${name}.tar`);
  for (const name of imageNames) {
    await writeImage(path(name), await imageSpec(name, { prefix: imagePrefix }));
  }
  return { gateway: path("gateway"), agent: path("agent"), controller: path("controller") };
}

/** Runs the page's commands one block after the other; rejects with the words of the one that failed. */
export async function installFromPage(
  cluster: HostedCluster,
  onStep: (step: InstallStep) => void,
): Promise<void> {
  const [values = "", ...blocks] = await commandBlocks();
  const given = valuesOf(cluster);
  const named = [...values.matchAll(/(\w+)=/gu)].map(([, name = ""]) => name);
  if (named.toSorted().join() !== Object.keys(given).toSorted().join()) {
    throw new Error(`docs/install.md names ${named.join(", ")}; the lab has others`);
  }
  const home = join(cluster.folder, "install");
  await prepareShell(cluster, home);
  const shell = [...enterNamespace(cluster.lab.namespace("seed").name), ...["sh", "-euc"]];
  const env = {
    ...given,
    HOME: home,
    PATH: `${join(home, "bin")}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin`,
  };
  const balancer = answerAsCloud(cluster);
  for (const block of blocks) {
    const startMs = performance.now();
    await runCommand([...shell, block], { cwd: home, env, timeoutMs: stepTimeoutMs });
    const [title = ""] = block.split("\n");
    onStep({ title, durationMs: performance.now() - startMs });
  }
  await balancer;
}

/** The values of the page's first block in the lab. */
function valuesOf({ seed, shoot, namespace, ranges }: HostedCluster): Record<string, string> {
  return {
    SEED: seed.kubeconfigs.private,
    SHOOT: shoot.kubectl.kubeconfig,
    IMAGES: imagePrefix,
    NAMESPACE: namespace,
    TUNNEL: hostedTunnel,
    SHOOT_SERVER: shoot.server,
    NODES: ranges.nodes,
    PODS: ranges.pods,
    SERVICES: ranges.services,
  };
}

async function commandBlocks(): Promise<readonly string[]> {
  const page = await readFile(join(root, "docs/install.md"), "utf8");
  const start = page.indexOf(section);
  const text = page.slice(start, page.indexOf("\n## ", start + section.length));
  return [...text.matchAll(/^```sh\n(.*?)^```$/gmsu)].map(([, block = ""]) => block);
}

/** A folder that looks like the repository to the commands, with helm and kubectl on the path. */
async function prepareShell({ programs }: HostedCluster, home: string): Promise<void> {
  await mkdir(join(home, "bin"), { recursive: true });
  await symlink(join(root, "charts"), join(home, "charts"));
  await symlink(await openHelm(), join(home, "bin/helm"));
  const kubectl = `#!/bin/sh\nexec ${programs.hyperkube} kubectl "$@"\n`;
  await writeFile(join(home, "bin/kubectl"), kubectl, { mode: 0o755 });
}

/** What a cloud's controller does when it meets the agents' Service. */
async function answerAsCloud({ shoot }: HostedCluster): Promise<void> {
  const { kubectl } = shoot;
  const look = ["get", "service", "xylem-agent", "-n", "kube-system"];
  await waitFor(
    "the agents' Service is there",
    async () => (await kubectl.run(look, { check: false })).code === 0,
    { timeoutMs: stepTimeoutMs, intervalMs: 200 },
  );
  await publishBalancer(kubectl, twoNetworksPlan.balancerAddress);
}
