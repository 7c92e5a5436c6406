/** Keeps the allocator of address ranges running: watches its objects, runs its passes, tells how it is. */

import { whatIsMissing } from "#src/host/kube/readings.ts";
import type { Cancel, Clock } from "#src/ports/clock.ts";
import type { Kube, KubeObject, KubeResource, Reflector } from "#src/ports/kube.ts";
import {
  NETWORK_BLOCKS,
  NETWORK_CLAIMS,
  NETWORK_DOMAINS,
  NETWORK_POOLS,
  SEED_NETWORKS,
} from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import type { AllocationFacts, AllocationItems } from "#src/reconcile/allocation-facts.ts";
import { Allocator } from "#src/reconcile/allocator.ts";
import { type RunResult, WorkLoop } from "#src/reconcile/loop.ts";

export interface AllocatorLoopParts {
  readonly kube: Kube;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Calls that may be on their way at once. */
  readonly callsMax?: number;
}

/** Every claim is looked at anew this often: finds what no event told. */
const RESYNC_MS = 10 * 60_000;

export class AllocatorLoop {
  readonly #parts: AllocatorLoopParts;
  readonly #allocator: Allocator;
  readonly #loop: WorkLoop;
  readonly #reflectors: Readonly<Record<keyof AllocationItems, Reflector>>;
  #cancelAgain: Cancel | null = null;

  /** Starts to watch at once; nothing is granted before everything was listed. */
  constructor(parts: AllocatorLoopParts) {
    this.#parts = parts;
    const { kube, clock, random, log, callsMax } = parts;
    this.#loop = new WorkLoop({
      name: "allocator",
      run: ({ reasons }) => this.#pass(reasons),
      clock,
      random,
      log,
      resyncMs: RESYNC_MS,
    });
    const reflect = (resource: KubeResource): Reflector =>
      kube.reflect(resource, {
        prune: withoutForeignFields,
        onChange: () => {
          this.#loop.trigger(resource.plural);
        },
      });
    this.#reflectors = {
      claims: reflect(NETWORK_CLAIMS),
      blocks: reflect(NETWORK_BLOCKS),
      domains: reflect(NETWORK_DOMAINS),
      pools: reflect(NETWORK_POOLS),
      seeds: reflect(SEED_NETWORKS),
    };
    this.#allocator = new Allocator({
      kube,
      clock,
      items: () => this.items(),
      ...(callsMax === undefined ? {} : { callsMax }),
    });
  }

  /** What the reflectors show. */
  items(): AllocationItems {
    const { claims, blocks, domains, pools, seeds } = this.#reflectors;
    return {
      claims: claims.items,
      blocks: blocks.items,
      domains: domains.items,
      pools: pools.items,
      seeds: seeds.items,
    };
  }

  /** What is known, as of now: for webhook and REST, which only read. */
  facts(): AllocationFacts {
    this.#allocator.facts.sync(this.items());
    return this.#allocator.facts;
  }

  /** Null once everything was listed; else the sentence that says why not. */
  problem(): string | null {
    return whatIsMissing("the seed's API server", Object.values(this.#reflectors));
  }

  /** For people. */
  status(): object {
    return {
      result: this.#loop.lastResult,
      claims: Object.fromEntries(this.#allocator.answers()),
      objects: Object.fromEntries(
        Object.entries(this.#reflectors).map(([kind, { items }]) => [kind, items?.size ?? null]),
      ),
      findings: this.#allocator.facts.findings().slice(0, FINDINGS_MAX),
    };
  }

  /** Claims by their last answer, and blocks; for metrics. */
  counts(): { readonly answers: ReadonlyMap<string, number>; readonly blocks: number } {
    return { answers: this.#allocator.answers(), blocks: this.#reflectors.blocks.items?.size ?? 0 };
  }

  /** Runs a pass that looks at every claim, and waits for it. */
  async resync(): Promise<RunResult | { readonly kind: "stopped" }> {
    return (await this.#loop.settled(this.#loop.trigger("resync"))).result;
  }

  /** Ends all work; whatever was begun is found by the next start. */
  async stop(): Promise<void> {
    for (const reflector of Object.values(this.#reflectors)) reflector.stop();
    this.#cancelAgain?.();
    await this.#loop.stop();
    this.#cancelAgain?.();
  }

  async #pass(reasons: readonly string[]): Promise<RunResult> {
    if (reasons.includes("resync")) this.#allocator.forgetAnswers();
    const report = await this.#allocator.pass();
    const { granted, freed, statuses, againMs, problem, unsynced } = report;
    if (granted + freed + statuses > 0) {
      this.#parts.log.info({ granted, freed, statuses }, "address ranges were allocated or freed");
    }
    if (unsynced.length > 0) return { kind: "reached" };
    if (problem !== null) return { kind: "retry", problem };
    this.#cancelAgain?.();
    this.#cancelAgain =
      againMs === null
        ? null
        : this.#parts.clock.after(againMs, () => {
            this.#loop.trigger("again");
          });
    return { kind: "reached" };
  }
}

const FINDINGS_MAX = 16;

/** Nothing here reads annotations or managed fields, and there may be very many blocks. */
const withoutForeignFields = (object: KubeObject): KubeObject => {
  const { annotations: _, managedFields: _fields, ...metadata } = object.metadata;
  return { ...object, metadata: { ...metadata, name: object.metadata.name } };
};
