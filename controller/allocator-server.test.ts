/** The allocator with the real API server that XYLEM_TEST_KUBECONFIG names: kill -9 in a loop, nothing leaked, nothing double. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import t from "tap";
import { parseAllDocuments } from "yaml";
import { parseNetworkBlock } from "#src/codec/network-block-codec.ts";
import { realClock } from "#src/host/clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { kubeconfigFile } from "#src/host/kube/kubeconfig.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import { realRandom, seededRandom } from "#src/host/random.ts";
import { CidrIndex } from "#src/model/cidr-index.ts";
import { valueOf } from "#src/model/parsed.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject, KubeResource } from "#src/ports/kube.ts";
import { NAMESPACES, NETWORK_BLOCKS, NETWORK_CLAIMS } from "#src/ports/kube-resource.ts";
import {
  claimSample,
  poolSample,
  seedSample,
  type Sample,
} from "#src/reconcile/allocation-samples.ts";
import { inParallel } from "#src/reconcile/parallel-work.ts";
import { AllocatorLoop } from "./allocator-loop.ts";

const file = process.env["XYLEM_TEST_KUBECONFIG"] ?? "";
const options = {
  timeout: 240_000,
  ...(file === "" ? { skip: "XYLEM_TEST_KUBECONFIG names no API server" } : {}),
};
const CLAIMS = Number(process.env["XYLEM_TEST_CLAIMS"] ?? 300);
const CHURN_MS = 12_000;
const SETTLE_MS = 60_000;

const CRDS: KubeResource = {
  group: "apiextensions.k8s.io",
  version: "v1",
  plural: "customresourcedefinitions",
  kind: "CustomResourceDefinition",
  isNamespaced: false,
};

const applySchemas = async (kube: Kube): Promise<void> => {
  const folder = join(import.meta.dirname, "../charts/seed/schemas");
  const names: string[] = [];
  await inParallel(await readdir(folder), 4, async (name) => {
    for (const document of parseAllDocuments(await readFile(join(folder, name), "utf8"))) {
      const object = document.toJS({ maxAliasCount: -1 }) as KubeObject;
      await kube.create(CRDS, object);
      names.push(object.metadata.name);
    }
  });
  for (const name of names) {
    for (;;) {
      const conditions: unknown = Object((await kube.get(CRDS, { name }))["status"]).conditions;
      const isEstablished =
        Array.isArray(conditions) &&
        conditions.some((c) => Object(c).type === "Established" && Object(c).status === "True");
      if (isEstablished) break;
      await pause(50);
    }
  }
};

void t.test("the allocator on a real API server", options, async (t) => {
  const log = new FakeLog();
  const kube = connectKube({
    credentials: kubeconfigFile(file),
    clock: realClock,
    random: realRandom,
    log,
    userAgent: "xylem-test/0",
  });
  t.teardown(() => {
    kube.close();
  });
  await applySchemas(kube);

  await t.test(
    "two allocators are killed in a loop while claims come and go: nothing leaked, nothing double",
    { timeout: 180_000 },
    async (t) => {
      await create(kube, poolSample("p", ["10.0.0.0/12"]));
      await create(kube, seedSample("eu-1"));
      const random = seededRandom(7);
      const folder = await mkdtemp(join(tmpdir(), "xylem-allocator-"));
      let isOver = false;
      const kills = { count: 0 };
      const killers = [0, 1].map(async () => {
        while (!isOver) {
          const child = startController(folder);
          await pause(1_500 + 3_000 * random.unit());
          child.kill("SIGKILL");
          await once(child, "exit");
          kills.count += 1;
        }
      });
      await churn(kube, { random, untilMs: realClock.nowMs() + CHURN_MS });
      isOver = true;
      await Promise.all(killers);
      t.comment(`${kills.count} kills`);
      t.ok(kills.count >= 4);
      const last = new AllocatorLoop({ kube, clock: realClock, random: realRandom, log });
      const claims = await settledClaims(kube, realClock.nowMs() + SETTLE_MS);
      const blocks = await settledBlocks(kube, claims, realClock.nowMs() + SETTLE_MS);
      t.equal(claims.length > 0 && claims.every(isAllocated), true, "every claim has its ranges");
      t.strictSame(problemsOf(claims, blocks), []);
      await last.stop();
      await rm(folder, { recursive: true });
    },
  );

  await t.test("a full resync of a new allocator costs no writes", async (t) => {
    const before = await versions(kube);
    const loop = new AllocatorLoop({ kube, clock: realClock, random: realRandom, log });
    while (loop.problem() !== null) await pause(20);
    t.match(await loop.resync(), { kind: "reached" });
    t.strictSame(await versions(kube), before);
    await loop.stop();
  });
});

const startController = (folder: string): ChildProcess =>
  spawn(
    process.execPath,
    [
      join(import.meta.dirname, "main.ts"),
      "--allocator",
      ...["--seed-kubeconfig", file, "--shoot-kubeconfig-dir", folder],
      ...["--status-port", "0", "--log-level", "error"],
    ],
    { stdio: ["ignore", "ignore", "inherit"] },
  );

/** Makes and deletes claims in four VPCs until the time is over and all were made. */
const churn = async (
  kube: Kube,
  options: { readonly random: { unit: () => number }; readonly untilMs: number },
): Promise<void> => {
  const { random, untilMs } = options;
  for (let at = 0; at < 20; at += 1) await ensureNamespace(kube, `shoot--${at}`);
  const names = Array.from({ length: CLAIMS }, (_, at) => at);
  const restMs = (untilMs - realClock.nowMs()) / CLAIMS;
  for (const at of names) {
    const startMs = realClock.nowMs();
    await create(kube, claimAt(at));
    if (random.unit() < 0.4) {
      const gone = claimAt(Math.floor(random.unit() * (at + 1))).object.metadata;
      const name = { namespace: gone.namespace ?? "", name: gone.name };
      await kube.delete(NETWORK_CLAIMS, name);
    }
    await pause(Math.max(0, restMs - (realClock.nowMs() - startMs)));
  }
};

/** Sizes and fixed places that collide now and then with nobody: the fixed ones lie outside of the pool. */
const claimAt = (at: number): Sample => {
  const isFixed = at % 5 === 0;
  const wanted = isFixed
    ? { nodes: `172.${16 + Math.floor(at / 256)}.${at % 256}.0/24`, pods: 22 }
    : { nodes: 24 + (at % 4), pods: 22 - (at % 3), services: 26 };
  const { resource, object } = claimSample(String(at % 20), wanted, { vpc: `vpc-${at % 4}` });
  return { resource, object: { ...object, metadata: { ...object.metadata, name: `net-${at}` } } };
};

const isAllocated = (claim: KubeObject): boolean =>
  Object(Object(Object(claim["status"]).conditions)[0]).status === "True";

const settledClaims = async (kube: Kube, untilMs: number): Promise<readonly KubeObject[]> => {
  for (;;) {
    const claims = await kube.list(NETWORK_CLAIMS);
    if (claims.every(isAllocated) || realClock.nowMs() > untilMs) return claims;
    await pause(250);
  }
};

/** Waits until orphans are freed. */
const settledBlocks = async (
  kube: Kube,
  claims: readonly KubeObject[],
  untilMs: number,
): Promise<readonly KubeObject[]> => {
  for (;;) {
    const blocks = await kube.list(NETWORK_BLOCKS);
    if (problemsOf(claims, blocks).length === 0 || realClock.nowMs() > untilMs) return blocks;
    await pause(250);
  }
};

/** Blocks without an owner, overlaps in one VPC, statuses that are not what is there. */
const problemsOf = (
  claims: readonly KubeObject[],
  objects: readonly KubeObject[],
): readonly string[] => {
  const problems: string[] = [];
  const held = new Map(claims.map(({ metadata }) => [metadata.uid ?? "", new Set<string>()]));
  const vpcs = new Map<string, CidrIndex<string>>();
  for (const object of objects) {
    const block = valueOf(parseNetworkBlock(object));
    const mine = held.get(block.owner.uid);
    if (mine === undefined) problems.push(`${block.name} is leaked`);
    mine?.add(block.name);
    const index = vpcs.get(block.vpc) ?? new CidrIndex<string>();
    vpcs.set(block.vpc, index);
    const other = index.firstOverlap(block.cidr);
    if (other !== null) problems.push(`${block.name} overlaps ${other.holder}`);
    index.add(block.cidr, block.name);
  }
  for (const { metadata, status } of claims) {
    const told: unknown = Object(status).blocks;
    const mine = [...(held.get(metadata.uid ?? "") ?? [])].toSorted();
    if (JSON.stringify(told) !== JSON.stringify(mine)) {
      problems.push(`${metadata.name} has ${mine.join()} and is told ${JSON.stringify(told)}`);
    }
  }
  return problems;
};

const versions = async (kube: Kube): Promise<readonly string[]> =>
  [...(await kube.list(NETWORK_CLAIMS)), ...(await kube.list(NETWORK_BLOCKS))].map(
    ({ metadata }) => `${metadata.name} ${metadata.resourceVersion ?? ""}`,
  );

const create = async (kube: Kube, { resource, object }: Sample): Promise<void> => {
  await kube.create(resource, object);
};

const ensureNamespace = async (kube: Kube, name: string): Promise<void> => {
  try {
    await kube.create(NAMESPACES, { metadata: { name } });
  } catch (error) {
    if (!isHostError(error) || error.code !== "already-exists") throw error;
  }
};
