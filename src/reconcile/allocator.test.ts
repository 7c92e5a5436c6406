/** Passes of allocators that see different moments: they are slow to contradict each other. */

import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import type { KubeObject, KubeResource } from "#src/ports/kube.ts";
import {
  NETWORK_BLOCKS,
  NETWORK_CLAIMS,
  NETWORK_DOMAINS,
  NETWORK_POOLS,
  objectKey,
} from "#src/ports/kube-resource.ts";
import { claimSample, poolSample, seedSample } from "./allocation-samples.ts";
import { Allocator } from "./allocator.ts";

const GRACE_MS = 300;

const world = () => {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock, log: new FakeLog() });
  for (const { resource, object } of [
    poolSample("p", ["10.0.0.0/22"]),
    claimSample("a", { nodes: 24 }),
  ]) {
    kube.seed(resource, object);
  }
  const all = (resource: KubeResource): ReadonlyMap<string, KubeObject> =>
    new Map(kube.peekAll(resource).map((object) => [objectKey(object.metadata), object]));
  /** One that sees everything but for the seed, which it sees as it was or will be. */
  const allocatorThatSees = (reserved: readonly string[]): Allocator => {
    const seeds = new Map([["eu-1", seedSample("eu-1", { reserved }).object]]);
    return new Allocator({
      kube,
      clock,
      graceMs: GRACE_MS,
      items: () => ({
        claims: all(NETWORK_CLAIMS),
        blocks: all(NETWORK_BLOCKS),
        domains: all(NETWORK_DOMAINS),
        pools: all(NETWORK_POOLS),
        seeds,
      }),
    });
  };
  const told = (): number => kube.writes.filter(({ verb }) => verb === "patchStatus").length;
  return { clock, kube, allocatorThatSees, told };
};

void t.test(
  "two that see a seed differently contradict each other only now and then",
  async (t) => {
    const { clock, allocatorThatSees, told } = world();
    const [behind, ahead] = [allocatorThatSees([]), allocatorThatSees(["10.0.0.0/24"])];
    await behind.pass();
    const before = told();
    for (let elapsedMs = 0; elapsedMs < 10 * GRACE_MS; elapsedMs += 10) {
      await clock.advance(10);
      await behind.pass();
      await ahead.pass();
    }
    t.ok(told() > before, "both say what they see");
    t.ok(told() - before <= 22, `${told() - before} statuses in ${10 * GRACE_MS} ms`);
  },
);
