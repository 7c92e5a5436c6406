/**
 * Gives the controller's allocator many claims on the API server that XYLEM_TEST_KUBECONFIG names; prints what it took
 * as JSON.
 *   node netsim/bench/allocator-load.ts CLAIMS
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { applySchemas, common, eventually, kubeconfig } from "#netsim/cluster/cidr-server.ts";
import { kubeconfigFile } from "#src/host/kube/kubeconfig.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import type { Kube } from "#src/ports/kube.ts";
import { NAMESPACES, NETWORK_BLOCKS, NETWORK_CLAIMS } from "#src/ports/kube-resource.ts";
import { claimSample, poolSample, seedSample } from "#src/reconcile/allocation-samples.ts";
import { inParallel } from "#src/reconcile/parallel-work.ts";
import { cpuMsOf, memoryOf } from "./process-cost.ts";

/** What a controller took until every claim was answered. */
interface Run {
  readonly seconds: number;
  readonly cpuS: number;
  readonly rssMb: number;
  readonly ussMb: number;
  /** Calls that change something, as the controller counts them. */
  readonly writes: number;
}

export interface AllocatorLoad {
  readonly claims: number;
  readonly blocks: number;
  readonly allocation: Run;
  /** A restart: everything is listed, and every claim is looked at. */
  readonly resync: Run;
  /** Objects that the resync changed, whoever changed them. */
  readonly changedObjects: number;
}

const NAMESPACES_COUNT = 100;
const CALLS_MAX = 16;
const STATUS_PORT = 19_448;
const root = join(import.meta.dirname, "../..");

/** Three blocks a claim, four VPCs. */
const makeClaims = async (kube: Kube, count: number): Promise<void> => {
  for (const { resource, object } of [poolSample("p", ["10.0.0.0/8"]), seedSample("eu-1")]) {
    await eventually(() => kube.create(resource, object));
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

const ask = async (path: string): Promise<string> => {
  const answer = await fetch(`http://127.0.0.1:${STATUS_PORT}${path}`);
  return await answer.text();
};

/** How many claims the controller has answered with ranges; -1: it does not say yet. */
const granted = async (): Promise<number> => {
  try {
    const { allocator } = JSON.parse(await ask("/status"));
    return allocator.result === null ? -1 : (allocator.claims.granted ?? 0);
  } catch {
    return -1;
  }
};

const writesOf = (metrics: string): number =>
  [...metrics.matchAll(/^xylem_controller_writes_total\{[^}]*\} (\d+)$/gmu)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );

/** Runs the program until it has granted all, and ends it. */
const runController = async (count: number): Promise<Run> => {
  const folder = await mkdtemp(join(tmpdir(), "xylem-bench-"));
  const startMs = performance.now();
  const child = spawn(
    process.execPath,
    [
      join(root, "dist/controller.js"),
      ...["--allocator", "--seed-kubeconfig", kubeconfig, "--shoot-kubeconfig-dir", folder],
      ...["--status-port", String(STATUS_PORT), "--log-level", "error"],
    ],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  try {
    while ((await granted()) !== count) {
      if (child.exitCode !== null) throw new Error("the controller has ended");
      await pause(100);
    }
    const seconds = (performance.now() - startMs) / 1_000;
    const { pid = 0 } = child;
    const { rss, uss } = memoryOf(pid);
    const writes = writesOf(await ask("/metrics"));
    return { seconds, cpuS: cpuMsOf(pid) / 1_000, rssMb: rss, ussMb: uss, writes };
  } finally {
    child.kill("SIGTERM");
    if (child.exitCode === null) await once(child, "exit");
    await rm(folder, { recursive: true });
  }
};

/** Versions of all that the allocator writes. */
const versionsOf = async (kube: Kube): Promise<ReadonlyMap<string, string>> => {
  const objects = [...(await kube.list(NETWORK_CLAIMS)), ...(await kube.list(NETWORK_BLOCKS))];
  return new Map(
    objects.map(({ metadata }) => [metadata.uid ?? "", metadata.resourceVersion ?? ""]),
  );
};

const measure = async (claims: number): Promise<AllocatorLoad> => {
  const credentials = kubeconfigFile(kubeconfig);
  const kube = connectKube({ ...common, credentials, callMsMax: 60_000 });
  await applySchemas(kube, { isLax: false, hasTunnels: true });
  await makeClaims(kube, claims);
  const allocation = await runController(claims);
  const before = await versionsOf(kube);
  const resync = await runController(claims);
  const after = await versionsOf(kube);
  const changedObjects = [...after].filter(([uid, version]) => before.get(uid) !== version).length;
  const blocks = (await kube.list(NETWORK_BLOCKS)).length;
  kube.close();
  return { claims, blocks, allocation, resync, changedObjects };
};

if (import.meta.main) {
  const load = await measure(Number(process.argv[2] ?? 10_000));
  process.stdout.write(`${JSON.stringify(load)}\n`);
}
