/** Claims that are granted while their seed's ranges change, on a real API server. */

import type { Test } from "tap";
import { overlaps, type Cidr } from "#src/model/cidr.ts";
import { NETWORK_CLAIMS, SEED_NETWORKS } from "#src/ports/kube-resource.ts";
import type { Kube, KubeObject } from "#src/ports/kube.ts";
import { claimSample } from "#src/reconcile/allocation-samples.ts";
import { inParallel } from "#src/reconcile/parallel-work.ts";
import { AllocatorLoop } from "../../controller/allocator-loop.ts";
import { common, eventually } from "./cidr-server.ts";

/** Two allocators grant while the seed's ranges change; then everybody has what is free, or is told what is in the way. */
export const raceWithSeed = async (t: Test, kube: Kube): Promise<void> => {
  const second = new AllocatorLoop({ ...common, kube });
  const claims = 40;
  const reserve = (reserved: readonly string[]) =>
    kube.patch(SEED_NETWORKS, { name: "eu-1" }, { spec: { reserved } });
  const edits = async (): Promise<void> => {
    for (let round = 0; round < 30; round += 1) await reserve([`10.0.${(round % 10) * 4}.0/22`]);
    await reserve(["10.0.4.0/22"]);
  };
  const claiming = inParallel(Array(claims).keys(), 4, async (at) => {
    const { resource, object } = claimSample("race", { nodes: 24 }, { vpc: "vpc-race" });
    const metadata = { ...object.metadata, name: `net-${at}` };
    await kube.create(resource, { ...object, metadata });
  });
  await Promise.all([claiming, edits()]);
  const [told, forbidden] = await eventually(async () => {
    const all = (await kube.list(NETWORK_CLAIMS, { namespace: "shoot--race" })).map(statusOf);
    const reserved = "10.0.4.0/22" as Cidr;
    const wrong = all.filter(({ nodes, reason }) => {
      const isInside = nodes.some((cidr) => overlaps(cidr, reserved));
      return nodes.length !== 1 || reason !== (isInside ? "Overlap" : "Allocated");
    });
    if (wrong.length > 0) throw new Error(JSON.stringify(wrong.slice(0, 3)));
    return [all, all.filter(({ reason }) => reason === "Overlap")] as const;
  });
  const nodes = told.flatMap((status) => status.nodes);
  t.equal(new Set(nodes).size, claims, "all have a range, none has another's");
  t.comment(`${forbidden.length} were granted what the seed took a moment later, and are told so`);
  await second.stop();
};

interface ToldStatus {
  readonly nodes: readonly Cidr[];
  readonly reason: string;
}

const statusOf = (claim: KubeObject): ToldStatus => {
  const status = Object(claim["status"]);
  return {
    nodes: status.nodes ?? [],
    reason: String(Object(Object(status.conditions)[0]).reason),
  };
};
