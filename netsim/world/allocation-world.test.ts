/** Explores how several allocators may be interleaved, and that planted bugs are found (A5, A13). */

import t from "tap";
import type { Kube } from "#src/ports/kube.ts";
import { NETWORK_CLAIMS, NETWORK_DOMAINS, objectKey } from "#src/ports/kube-resource.ts";
import { HostError } from "#src/ports/host-error.ts";
import { AllocationWorld, type AllocationWorldOptions } from "./allocation-world.ts";
import { replayedChoices, seededChoices, shrinkChoices } from "./choices.ts";

// Conflicts are thrown by the thousand here; nobody reads where.
Error.stackTraceLimit = 0;

/** Schedules to explore: few in the inner loop; the whole test run says 100000. */
const schedules = Number(process.env["XYLEM_SCHEDULES"] ?? 800);
const first = Number(process.env["XYLEM_SCHEDULE_FIRST"] ?? 1);

const run = (choices: readonly number[], options: AllocationWorldOptions) =>
  new AllocationWorld(replayedChoices(choices), options).run();

/** Runs seeds until a rule is broken; answers the shortest such schedule that was found. */
const explore = async (options: AllocationWorldOptions, count: number) => {
  const distinct = new Set<string>();
  for (let seed = first; seed < first + count; seed += 1) {
    const choices = seededChoices(seed);
    const { broken } = await new AllocationWorld(choices, options).run();
    distinct.add(choices.made.join());
    if (broken === null) continue;
    const short = await shrinkChoices(
      choices.made,
      async (candidate) => (await run(candidate, options)).broken !== null,
    );
    const result = await run(short, options);
    const { trace } = result;
    const isShrunk = short.length < choices.made.length;
    return { seed, distinct: distinct.size, broken: result.broken, trace, isShrunk };
  }
  return { seed: null, distinct: distinct.size, broken: null, trace: [], isShrunk: false };
};

for (const allocators of [2, 3]) {
  void t.test(
    `A5 ${allocators} allocators at once never allocate twice, free what lives, leak or forget, however they are interleaved`,
    { timeout: 600_000 },
    async (t) => {
      const count = Math.ceil(schedules / 2);
      const { broken, trace, seed, distinct } = await explore({ allocators }, count);
      t.equal(broken, null, `seed ${seed}`);
      if (broken !== null) t.comment(trace.join("\n"));
      t.comment(`${count} schedules, ${distinct} of them distinct`);
    },
  );
}

const PLANTED: readonly {
  readonly name: string;
  readonly want: RegExp;
  readonly spoil: NonNullable<AllocationWorldOptions["spoil"]>;
}[] = [
  {
    name: "skips the check of the domain's revision",
    want: /overlaps/u,
    spoil: (kube) =>
      spoiled(kube, {
        replace: (resource, object) => {
          if (resource !== NETWORK_DOMAINS) return kube.replace(resource, object);
          const { resourceVersion: _, ...metadata } = object.metadata;
          return kube.replace(resource, {
            ...object,
            metadata: { ...metadata, name: object.metadata.name },
          });
        },
      }),
  },
  {
    name: "believes its watch that an owner is gone (A13)",
    want: /was freed, but its owner/u,
    spoil: (kube, seen) =>
      spoiled(kube, {
        get: async (resource, name) => {
          if (resource !== NETWORK_CLAIMS) return await kube.get(resource, name);
          const object = seen().claims?.get(objectKey(name));
          if (object === undefined) throw new HostError("not-found", "not in the cache");
          return object;
        },
      }),
  },
  {
    name: "reads the domain from its watch and swaps it unconditionally",
    want: /overlaps|was freed|has not|has nothing|come to rest/u,
    spoil: (kube, seen) =>
      spoiled(kube, {
        get: async (resource, name) =>
          (resource === NETWORK_DOMAINS ? seen().domains?.get(objectKey(name)) : undefined) ??
          (await kube.get(resource, name)),
        replace: (resource, object) => {
          const { resourceVersion: _, ...metadata } = object.metadata;
          return kube.replace(resource, {
            ...object,
            metadata: { ...metadata, name: object.metadata.name },
          });
        },
      }),
  },
];

for (const { name, want, spoil } of PLANTED) {
  void t.test(`a planted bug is found: an allocator that ${name}`, async (t) => {
    const { broken, trace, seed, isShrunk } = await explore({ allocators: 2, spoil }, 20_000);
    t.match(broken, want);
    t.comment(`seed ${seed}, ${trace.length} steps: ${broken}\n${trace.join("\n")}`);
    t.ok(isShrunk);
  });
}

const spoiled = (kube: Kube, change: Partial<Kube>): Kube => ({
  get: (resource, name) => kube.get(resource, name),
  list: (resource, options) => kube.list(resource, options),
  create: (resource, object) => kube.create(resource, object),
  replace: (resource, object) => kube.replace(resource, object),
  replaceStatus: (resource, object) => kube.replaceStatus(resource, object),
  patch: (resource, name, patch) => kube.patch(resource, name, patch),
  patchStatus: (resource, name, patch) => kube.patchStatus(resource, name, patch),
  delete: (resource, name, options) => kube.delete(resource, name, options),
  reflect: (resource, options) => kube.reflect(resource, options),
  close: () => {
    kube.close();
  },
  ...change,
});
