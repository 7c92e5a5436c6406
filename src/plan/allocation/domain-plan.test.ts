/** Tests of the revision protocol: several allocators with caches that lag, stopped anywhere, on every kind of schedule. */

import assert from "node:assert/strict";
import fc from "fast-check";
import t from "tap";
import type {
  BlockGrant,
  NetworkBlock,
  NetworkClaim,
  NetworkDomain,
} from "#src/model/allocation.ts";
import { blockName } from "#src/model/allocation-name.ts";
import { overlaps } from "#src/model/cidr.ts";
import { blockOf, claimOf, domainOf, heldBlock, poolOf, seedOf } from "./claim-samples.ts";
import { planClaim } from "./claim-plan.ts";
import { grantedDomain, planDomain } from "./domain-plan.ts";
import { Ledger } from "./ledger.ts";
import { cleanedDomain, planRelease } from "./release-plan.ts";
import { planRetry } from "./retry-plan.ts";

const nobody = new Set<string>();
const promise = heldBlock({ cidr: "10.0.0.0/24", owner: "a", revision: 3 });

t.test(
  "what is promised and missing is made first, but not for owners that are gone",
  async (t) => {
    const domain = domainOf({ revision: 3, pending: [promise] });
    const ledger = new Ledger();
    t.same(planDomain({ domain, ledger, goneUids: nobody }), {
      kind: "complete",
      create: [promise],
    });
    const goneUids = new Set(["uid-a"]);
    t.same(planDomain({ domain, ledger, goneUids }), {
      kind: "list",
      uid: "uid-domain",
      revision: 3,
    });
  },
);

t.test("a cache that has not seen the last revision is not believed", async (t) => {
  const domain = domainOf({ revision: 3 });
  const older = heldBlock({ cidr: "10.0.1.0/24", owner: "b", revision: 2 });
  const ledger = new Ledger({ blocks: [older] });
  t.same(planDomain({ domain, ledger, goneUids: nobody }), {
    kind: "list",
    uid: "uid-domain",
    revision: 3,
  });
  ledger.markComplete("vpc-a", { uid: "uid-domain", revision: 3 });
  t.same(planDomain({ domain, ledger, goneUids: nobody }), { kind: "ready" });
  const anew = domainOf({ uid: "uid-second", revision: 2 });
  t.match(planDomain({ domain: anew, ledger, goneUids: nobody }), { kind: "list" });
});

t.test("a cache that saw the last revision has seen all before it", async (t) => {
  const domain = domainOf({ revision: 3, pending: [promise] });
  const ledger = new Ledger({ blocks: [promise] });
  t.same(planDomain({ domain, ledger, goneUids: nobody }), { kind: "ready" });
  ledger.forgetBlock(promise);
  t.same(planDomain({ domain: domainOf({ revision: 3 }), ledger, goneUids: nobody }), {
    kind: "ready",
  });
});

t.test("the first grant needs no list", async (t) => {
  t.same(planDomain({ domain: domainOf(), ledger: new Ledger(), goneUids: nobody }), {
    kind: "ready",
  });
});

/** Enough to find a broken step in a second or two; netsim/world explores many more. */
const SCHEDULES = 150;
/** Longer than one pass of all allocators. */
const QUIET_ROUNDS = 50;
const SETTLE_ROUNDS_MAX = 3000;

/** What the API server has: one order of all writes of blocks, and one domain. */
interface Store {
  readonly events: { readonly kind: "put" | "delete"; readonly block: NetworkBlock }[];
  readonly blocks: Map<string, NetworkBlock>;
  domain: NetworkDomain;
  claims: NetworkClaim[];
}

const make = (store: Store, grant: BlockGrant): void => {
  const name = blockName(grant);
  if (store.blocks.has(name)) return;
  const block = { ...blockOf(grant), uid: `${name}#${store.events.length}` };
  store.blocks.set(name, block);
  store.events.push({ kind: "put", block });
};

const swap = (store: Store, next: NetworkDomain): boolean => {
  if (next.resourceVersion !== store.domain.resourceVersion) return false;
  store.domain = { ...next, resourceVersion: String(Number(next.resourceVersion) + 1) };
  return true;
};

const POOLS = [poolOf("p", ["10.0.0.0/26"])];
const SEEDS = [seedOf("eu-1")];

/** One allocator: yields before every call to the API server; its cache follows the events when `watch` is run. */
class Allocator {
  readonly #store: Store;
  #ledger = new Ledger({ seeds: SEEDS, pools: POOLS });
  readonly #cached = new Map<string, NetworkBlock>();
  #seen = 0;
  #run: Generator<void, void> | null = null;

  constructor(store: Store) {
    this.#store = store;
    this.#list();
  }

  watch(): void {
    const event = this.#store.events[this.#seen];
    if (event === undefined) return;
    this.#seen += 1;
    if (event.kind === "put") {
      this.#ledger.observeBlock(event.block);
      this.#cached.set(event.block.name, event.block);
    } else {
      this.#ledger.forgetBlock(event.block);
      this.#cached.delete(event.block.name);
    }
  }

  step(): void {
    this.#run ??= this.#pass();
    if (this.#run.next().done === true) this.#run = null;
  }

  #list(): void {
    const { blocks, events } = this.#store;
    this.#ledger = new Ledger({ seeds: SEEDS, pools: POOLS, blocks: blocks.values() });
    this.#cached.clear();
    for (const [name, block] of blocks) this.#cached.set(name, block);
    this.#seen = events.length;
  }

  *#pass(): Generator<void, void> {
    const store = this.#store;
    const claims = [...store.claims];
    const uids = new Set(claims.map(({ uid }) => uid));
    yield;
    const domain = store.domain;
    yield;
    const goneUids = new Set<string>();
    for (const { owner } of [...this.#cached.values(), ...domain.pending]) {
      yield;
      if (!store.claims.some(({ uid }) => uid === owner.uid)) goneUids.add(owner.uid);
    }
    const release = planRelease({
      blocks: this.#cached.values(),
      claimUids: uids,
      isSynced: true,
      goneUids,
      domains: [domain],
    });
    for (const block of release.free) {
      yield;
      if (store.blocks.get(block.name)?.uid !== block.uid) continue;
      const isLive = store.claims.some(({ uid }) => uid === block.owner.uid);
      assert.equal(isLive, false, `${block.name} was freed under its owner`);
      store.blocks.delete(block.name);
      store.events.push({ kind: "delete", block });
    }
    if (release.clean.length > 0) {
      yield;
      swap(store, cleanedDomain(domain, goneUids));
      return;
    }
    const next = planDomain({ domain, ledger: this.#ledger, goneUids });
    if (next.kind === "complete") {
      for (const grant of next.create) {
        yield;
        make(store, grant);
      }
      return;
    }
    if (next.kind === "list") {
      yield;
      this.#list();
      this.#ledger.markComplete(domain.name, next);
    }
    const retry = planRetry({
      claims,
      ledger: this.#ledger,
      domains: new Map([["vpc-a", domain]]),
      unsynced: [],
    });
    const grants = retry.grants.get("vpc-a") ?? [];
    if (grants.length === 0) return;
    yield;
    if (!swap(store, grantedDomain(domain, grants))) return;
    for (const grant of grants) {
      yield;
      make(store, grant);
    }
  }
}

type Move =
  | { readonly kind: "step" | "watch"; readonly who: number; readonly times: number }
  | { readonly kind: "restart"; readonly who: number }
  | { readonly kind: "claim" | "unclaim"; readonly which: number; readonly length: number };

/** Long runs let one allocator finish while the others sleep in the middle of something. */
const times = fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 25 }));

const arbitraryMove: fc.Arbitrary<Move> = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.record({ kind: fc.constant("step" as const), who: fc.nat(2), times }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant("watch" as const), who: fc.nat(2), times }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("restart" as const), who: fc.nat(2) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constantFrom("claim" as const, "unclaim" as const),
      which: fc.nat(7),
      length: fc.integer({ min: 27, max: 30 }),
    }),
  },
);

/** No two blocks of owners that exist, made or promised, overlap. */
const assertDisjoint = (store: Store): void => {
  const alive = new Set(store.claims.map(({ uid }) => uid));
  const all = new Map<string, BlockGrant>();
  for (const grant of [...store.domain.pending, ...store.blocks.values()]) {
    if (alive.has(grant.owner.uid)) all.set(`${blockName(grant)} ${grant.owner.uid}`, grant);
  }
  const list = [...all.values()];
  for (const [at, a] of list.entries()) {
    for (const b of list.slice(at + 1)) {
      assert.equal(
        overlaps(a.cidr, b.cidr),
        false,
        `${a.owner.uid} ${a.cidr}, ${b.owner.uid} ${b.cidr}`,
      );
    }
  }
};

t.test(
  "A4 A5 A13 three allocators with old caches, stopped anywhere, never grant an address twice",
  async () => {
    fc.assert(
      fc.property(fc.array(arbitraryMove, { minLength: 30, maxLength: 120 }), (moves) => {
        const store: Store = { events: [], blocks: new Map(), domain: domainOf(), claims: [] };
        const allocators = [0, 1, 2].map(() => new Allocator(store));
        let made = 0;
        for (const move of moves) {
          switch (move.kind) {
            case "step":
              allocators[move.who]?.step();
              break;
            case "watch":
              allocators[move.who]?.watch();
              break;
            case "restart":
              allocators[move.who] = new Allocator(store);
              break;
            case "claim": {
              const name = `c${move.which}`;
              if (store.claims.some((claim) => claim.namespace === `shoot--${name}`)) break;
              made += 1;
              store.claims.push(
                claimOf(
                  name,
                  { nodes: `/${move.length}` },
                  { uid: `uid-${made}`, createdMs: made },
                ),
              );
              break;
            }
            case "unclaim":
              store.claims = store.claims.filter(
                (claim) => claim.namespace !== `shoot--c${move.which}`,
              );
              break;
          }
          assertDisjoint(store);
        }
        settle(store, allocators);
      }),
      { numRuns: SCHEDULES },
    );
  },
);

/** Left alone, the allocators finish: writes end, every block has an owner that exists, whoever waits has to. */
const settle = (store: Store, allocators: readonly Allocator[]): void => {
  const version = () => `${store.events.length} ${store.domain.resourceVersion}`;
  for (let quiet = 0, round = 0; quiet < QUIET_ROUNDS; round += 1) {
    assert.ok(round < SETTLE_ROUNDS_MAX, "never settles");
    const before = version();
    for (const allocator of allocators) {
      allocator.watch();
      allocator.step();
    }
    quiet = version() === before ? quiet + 1 : 0;
  }
  assertDisjoint(store);
  const owners = new Set([...store.blocks.values()].map(({ owner }) => owner.uid));
  for (const uid of owners)
    assert.ok(
      store.claims.some((claim) => claim.uid === uid),
      `leaked ${uid}`,
    );
  const waiting = store.claims.filter(({ uid }) => !owners.has(uid));
  const ledger = new Ledger({ seeds: SEEDS, pools: POOLS, blocks: store.blocks.values() });
  for (const claim of waiting) {
    const verdict = planClaim({ claim, ledger, domain: domainOf(), unsynced: [] });
    assert.equal(verdict.kind, "waiting", `${claim.uid} waits in vain`);
  }
};
