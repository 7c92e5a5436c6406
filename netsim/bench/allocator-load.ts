/**
 * Gives an allocator many claims on the API server that XYLEM_TEST_KUBECONFIG names; prints what it took as JSON.
 *   node netsim/bench/allocator-load.ts CLAIMS
 */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseAllDocuments } from "yaml";
import { AllocatorLoop } from "../../controller/allocator-loop.ts";
import { realClock } from "#src/host/clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { kubeconfigFile } from "#src/host/kube/kubeconfig.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import { realRandom } from "#src/host/random.ts";
import type { Kube, KubeObject, KubeResource } from "#src/ports/kube.ts";
import { NAMESPACES, NETWORK_BLOCKS, NETWORK_CLAIMS } from "#src/ports/kube-resource.ts";
import { claimSample, poolSample, seedSample } from "#src/reconcile/allocation-samples.ts";
import { inParallel } from "#src/reconcile/parallel-work.ts";

export interface AllocatorLoad {
  readonly claims: number;
  readonly blocks: number;
  readonly allocateS: number;
  readonly resyncS: number;
  readonly rssMb: number;
  readonly resyncWrites: number;
}

const NAMESPACES_COUNT = 100;
const CALLS_MAX = 16;

const CRDS: KubeResource = {
  group: "apiextensions.k8s.io",
  version: "v1",
  plural: "customresourcedefinitions",
  kind: "CustomResourceDefinition",
  isNamespaced: false,
};

const applySchemas = async (kube: Kube): Promise<void> => {
  const folder = join(import.meta.dirname, "../../charts/seed/schemas");
  for (const name of await readdir(folder)) {
    for (const document of parseAllDocuments(await readFile(join(folder, name), "utf8"))) {
      await kube.create(CRDS, document.toJS({ maxAliasCount: -1 }) as KubeObject);
    }
  }
  await pause(3_000);
};

/** Three blocks a claim, four VPCs. */
const makeClaims = async (kube: Kube, count: number): Promise<void> => {
  for (const { resource, object } of [poolSample("p", ["10.0.0.0/8"]), seedSample("eu-1")]) {
    await kube.create(resource, object);
  }
  for (let at = 0; at < NAMESPACES_COUNT; at += 1) {
    await kube.create(NAMESPACES, { metadata: { name: `shoot--${at}` } });
  }
  await inParallel(Array(count).keys(), CALLS_MAX, async (at) => {
    const { resource, object } = claimSample(
      String(at % NAMESPACES_COUNT),
      { nodes: 27, pods: 25, services: 28 },
      { vpc: `vpc-${at % 4}` },
    );
    await kube.create(resource, { ...object, metadata: { ...object.metadata, name: `net-${at}` } });
  });
};

const isAllocated = (claim: KubeObject): boolean =>
  Object(Object(Object(claim["status"]).conditions)[0]).status === "True";

const measure = async (count: number): Promise<AllocatorLoad> => {
  const log = new FakeLog();
  const common = { clock: realClock, random: realRandom, log };
  const credentials = kubeconfigFile(process.env["XYLEM_TEST_KUBECONFIG"] ?? "");
  const kube = connectKube({
    ...common,
    credentials,
    userAgent: "xylem-bench/0",
    callMsMax: 60_000,
  });
  await applySchemas(kube);
  await makeClaims(kube, count);
  const startMs = performance.now();
  const loop = new AllocatorLoop({ kube, ...common });
  const isDone = () => {
    const { claims } = loop.items();
    return claims !== null && claims.size === count && claims.values().every(isAllocated);
  };
  while (!isDone()) await pause(100);
  const allocateS = (performance.now() - startMs) / 1_000;
  await loop.stop();
  const blocks = await kube.list(NETWORK_BLOCKS);
  const before = await kube.list(NETWORK_CLAIMS);
  const resyncMs = performance.now();
  const second = new AllocatorLoop({ kube, ...common });
  while (second.problem() !== null) await pause(10);
  await second.resync();
  const resyncS = (performance.now() - resyncMs) / 1_000;
  const rssMb = process.memoryUsage.rss() / 1e6;
  const versions = new Map(before.map(({ metadata }) => [metadata.uid, metadata.resourceVersion]));
  const resyncWrites = (await kube.list(NETWORK_CLAIMS)).filter(
    ({ metadata }) => versions.get(metadata.uid) !== metadata.resourceVersion,
  ).length;
  await second.stop();
  kube.close();
  return { claims: count, blocks: blocks.length, allocateS, resyncS, rssMb, resyncWrites };
};

if (import.meta.main) {
  const load = await measure(Number(process.argv[2] ?? 10_000));
  process.stdout.write(`${JSON.stringify(load)}\n`);
}
