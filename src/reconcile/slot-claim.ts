/** Holds one of a tunnel's slots for a gateway through a Lease in the seed (docs/objects.md, "Lease"). */

import { parseSlotLease, slotLeaseName, slotLeaseObject } from "#src/codec/lease-codec.ts";
import type { SlotLease } from "#src/codec/lease-codec.ts";
import { type Slot, parseSlot, slotsUpTo } from "#src/model/slot.ts";
import { fnv1a } from "#src/plan/agent-id-plan.ts";
import type { Cancel, Clock } from "#src/ports/clock.ts";
import { HostError, isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject } from "#src/ports/kube.ts";
import { LEASES } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import type { SlotMemory } from "#src/ports/slot-memory.ts";

/** A quarter of the time that a claim is good for: three renewals may fail. */
export const RENEW_MS = 10 * 60_000;
/** An expired claim is taken over only after this, because clocks differ. */
export const EXPIRY_GRACE_MS = 60_000;
const BACKOFF_MS_BASE = 500;
const BACKOFF_MS_MAX = 30_000;
/** A stop does not wait longer for the seed's API server. */
const RELEASE_MS_MAX = 3_000;

export interface SlotClaimOptions {
  readonly kube: Kube;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly memory: SlotMemory;
  readonly namespace: string;
  readonly tunnel: string;
  /** How many slots the tunnel has, 1 to 256. */
  readonly slots: number;
  /** Unique in the tunnel and the same after a restart: the pod's UID. */
  readonly identity: string;
  /** For people: the pod's name. */
  readonly gatewayName: string;
  /** When this gateway last heard a handshake, in milliseconds since 1970; null: never. Told with every renewal. */
  readonly lastHandshakeMs?: () => number | null;
  /** Somebody else holds the slot now: stop using its key at once, then claim anew. */
  readonly onLost: (problem: string) => void;
}

/*
 *  claiming -lease made, resumed or taken over-> held -lease is another's-> lost
 *     |  ^ failed: backoff                         |  ^ renewal failed: goes on, tries again
 *     +------------------- release ----------------+-----> released
 */
export type SlotClaimState =
  | { readonly kind: "claiming"; readonly problem: string | null }
  | { readonly kind: "held"; readonly slot: Slot; readonly problem: string | null }
  | { readonly kind: "lost"; readonly problem: string }
  | { readonly kind: "released" };

/** What the memory holds; good only for the same gateway of the same tunnel. */
interface Remembered {
  readonly namespace: string;
  readonly tunnel: string;
  readonly identity: string;
  readonly slot: Slot;
  readonly expiresMs: number;
}

/**
 * Claims a slot and keeps it: a remembered one whose Lease is still good at once, without asking anybody
 * (the seed's API server may be down), else by the Leases. A holder that can't renew keeps its slot: nobody
 * who can't reach the API server either can take it, and others prefer free slots to expired ones.
 */
export class SlotClaim {
  readonly #options: SlotClaimOptions;
  readonly #held = Promise.withResolvers<Slot>();
  #state: SlotClaimState = { kind: "claiming", problem: null };
  #cancel: Cancel | null = null;
  #failures = 0;
  /** The call to the API server that runs now; a release waits for it, or a Lease could be left behind. */
  #working: Promise<void> = Promise.resolve();

  /** Does nothing before `start`. */
  constructor(options: SlotClaimOptions) {
    this.#options = options;
    this.#held.promise.catch(() => undefined);
  }

  get state(): SlotClaimState {
    return this.#state;
  }

  /** Begins to claim. */
  start(): this {
    this.#working = this.#begin();
    return this;
  }

  /** The slot, once it is held; rejects with HostError `released` when released before. */
  held(): Promise<Slot> {
    return this.#held.promise;
  }

  /** Writes the Lease once out of turn, when there is news to tell with it; nothing unless a slot is held. */
  renew(): void {
    if (this.#state.kind !== "held") return;
    this.#working = this.#working.then(async () => {
      const state = this.#state;
      if (state.kind !== "held") return;
      this.#cancel?.();
      await this.#attempt(() => this.#renew(state.slot));
    });
  }

  /** Gives the slot back, so that a successor need not wait; bounded, never throws. */
  async release(): Promise<void> {
    const before = this.#state;
    this.#state = { kind: "released" };
    this.#cancel?.();
    this.#cancel = null;
    this.#held.reject(new HostError("released", "The slot was released before it was held."));
    const ended = this.#working.then(async () => {
      if (before.kind === "held") await this.#giveBack(before.slot);
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#options.clock.after(RELEASE_MS_MAX, resolve);
    await Promise.race([promise, ended]);
    cancel();
  }

  async #begin(): Promise<void> {
    const remembered = parseRemembered(await this.#options.memory.read(), this.#options);
    if (this.#isOver()) return;
    if (remembered !== null) {
      this.#hold(remembered.slot);
      return this.#renewSoon(0);
    }
    await this.#attempt(() => this.#claim());
  }

  /** Runs a claim or renewal; failures of the API server are retried with capped full jitter. */
  async #attempt(work: () => Promise<void>): Promise<void> {
    const { clock, random, log } = this.#options;
    try {
      await work();
      this.#failures = 0;
    } catch (error) {
      if (!isHostError(error)) throw error;
      if (this.#isOver()) return;
      this.#failures += 1;
      const window = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_BASE * 2 ** Math.min(this.#failures, 10));
      if (this.#state.kind === "claiming" || this.#state.kind === "held") {
        this.#state = { ...this.#state, problem: error.message };
      }
      log.warn({ code: error.code, tunnel: this.#options.tunnel }, `Slot claim: ${error.message}`);
      this.#cancel = clock.after(random.unit() * window, () => {
        this.#working = this.#attempt(work);
      });
    }
  }

  async #claim(): Promise<void> {
    const { kube, namespace, tunnel, slots, identity, clock } = this.#options;
    const labelSelector = `xylem.dev/tunnel=${tunnel}`;
    const objects = await kube.list(LEASES, { namespace, labelSelector });
    const leases = readLeases(objects, tunnel);
    const wallMs = clock.wallMs();
    for (const candidate of slotCandidates({ leases, slots, identity, wallMs })) {
      if (this.#isOver()) return;
      if (await this.#take(candidate)) {
        if (this.#isOver()) return this.#giveBack(candidate.slot);
        this.#hold(candidate.slot);
        return this.#renewSoon(RENEW_MS);
      }
    }
    throw new HostError(
      "no-free-slot",
      `Tunnel ${namespace}/${tunnel} has no free slot: all ${slots} are held; raise spec.slots or stop a gateway.`,
    );
  }

  /** False: another gateway was quicker. */
  async #take(candidate: SlotCandidate): Promise<boolean> {
    const { kube, clock } = this.#options;
    const wallMs = clock.wallMs();
    const lease = this.#leaseOf(candidate.slot, wallMs);
    try {
      if (candidate.object === null) await kube.create(LEASES, lease);
      else {
        const { resourceVersion } = candidate.object.metadata;
        const metadata = {
          ...lease.metadata,
          ...(resourceVersion === undefined ? {} : { resourceVersion }),
        };
        await kube.replace(LEASES, { ...lease, metadata });
      }
    } catch (error) {
      if (isHostError(error) && ["already-exists", "conflict", "not-found"].includes(error.code)) {
        return false;
      }
      throw error;
    }
    await this.#remember(candidate.slot, wallMs);
    return true;
  }

  async #renew(slot: Slot): Promise<void> {
    const { kube, namespace, tunnel, identity, clock } = this.#options;
    const name = { namespace, name: slotLeaseName(tunnel, slot) };
    const object = await kube.get(LEASES, name).catch((error: unknown) => {
      if (isHostError(error) && error.code === "not-found") return null;
      throw error;
    });
    if (this.#isOver()) return;
    const holder = object === null ? null : holderOf(object);
    if (object !== null && holder !== null && holder !== identity) {
      return this.#lose(`Slot ${slot} is held by ${holder} now.`);
    }
    if (!(await this.#take({ slot, object }))) {
      throw new HostError(
        "conflict",
        `Lease ${namespace}/${name.name} changed while it was renewed.`,
      );
    }
    if (this.#isOver()) return;
    this.#state = { kind: "held", slot, problem: null };
    this.#renewSoon(RENEW_MS * (0.9 + 0.1 * this.#options.random.unit()));
    this.#options.log.debug({ slot, wallMs: clock.wallMs() }, "Slot renewed");
  }

  #renewSoon(delayMs: number): void {
    this.#cancel = this.#options.clock.after(delayMs, () => {
      const state = this.#state;
      if (state.kind === "held") this.#working = this.#attempt(() => this.#renew(state.slot));
    });
  }

  #hold(slot: Slot): void {
    const { log, namespace, tunnel } = this.#options;
    this.#state = { kind: "held", slot, problem: null };
    this.#held.resolve(slot);
    log.info({ slot, tunnel: `${namespace}/${tunnel}` }, `Slot ${slot} is held`);
  }

  #lose(problem: string): void {
    this.#state = { kind: "lost", problem };
    this.#options.log.error({ tunnel: this.#options.tunnel }, problem);
    void this.#options.memory.forget();
    this.#options.onLost(problem);
  }

  async #giveBack(slot: Slot): Promise<void> {
    const { kube, namespace, tunnel, identity, log, memory } = this.#options;
    const name = { namespace, name: slotLeaseName(tunnel, slot) };
    try {
      const object = await kube.get(LEASES, name);
      const { uid, resourceVersion } = object.metadata;
      if (holderOf(object) === identity) {
        await kube.delete(LEASES, name, {
          ...(uid === undefined ? {} : { uid }),
          ...(resourceVersion === undefined ? {} : { resourceVersion }),
        });
      }
      await memory.forget();
    } catch (error) {
      if (isHostError(error) && error.code === "not-found") return await memory.forget();
      // The memory stays: the next start resumes the slot, or the Lease expires by itself.
      if (!isHostError(error)) throw error;
      log.warn({ code: error.code, slot }, `Slot ${slot} was not released: ${error.message}`);
    }
  }

  async #remember(slot: Slot, renewedMs: number): Promise<void> {
    const { namespace, tunnel, identity, memory, log } = this.#options;
    const lease = parseSlotLease(this.#leaseOf(slot, renewedMs));
    const expiresMs = lease.ok ? lease.value.expiresMs : renewedMs;
    const remembered: Remembered = { namespace, tunnel, identity, slot, expiresMs };
    try {
      await memory.write(JSON.stringify(remembered));
    } catch (error) {
      if (!isHostError(error)) throw error;
      log.warn({ code: error.code }, `The slot is not remembered: ${error.message}`);
    }
  }

  #leaseOf(slot: Slot, nowMs: number): KubeObject {
    const { namespace, tunnel, identity, gatewayName } = this.#options;
    const claim = { namespace, tunnel, slot, gatewayName, acquiredMs: nowMs, nowMs };
    const lastHandshakeMs = this.#options.lastHandshakeMs?.() ?? null;
    return slotLeaseObject({ ...claim, holder: identity, lastHandshakeMs });
  }

  #isOver(): boolean {
    return this.#state.kind === "released" || this.#state.kind === "lost";
  }
}

/** A slot to try, with the Lease that has to be replaced; null: create it. */
export interface SlotCandidate {
  readonly slot: Slot;
  readonly object: KubeObject | null;
}

interface ReadLease {
  readonly lease: SlotLease;
  readonly object: KubeObject;
}

/**
 * Slots in the order of trying: the own one, then free ones from the identity's hash on, so that gateways that
 * start together seldom meet, then expired ones, the oldest first. Held ones are left out.
 */
export const slotCandidates = (facts: {
  readonly leases: readonly ReadLease[];
  readonly slots: number;
  readonly identity: string;
  readonly wallMs: number;
}): readonly SlotCandidate[] => {
  const all = slotsUpTo(facts.slots);
  const bySlot = new Map(facts.leases.map((read) => [read.lease.slot, read]));
  const start = fnv1a(facts.identity) % all.length;
  const inOrder = [...all.slice(start), ...all.slice(0, start)];
  const own = facts.leases.filter(
    ({ lease }) => lease.holder === facts.identity && lease.slot < facts.slots,
  );
  const free = inOrder.filter((slot) => (bySlot.get(slot)?.lease.holder ?? null) === null);
  const expired = facts.leases
    .filter(({ lease }) => lease.holder !== null && lease.holder !== facts.identity)
    .filter(({ lease }) => lease.slot < facts.slots)
    .filter(({ lease }) => lease.expiresMs + EXPIRY_GRACE_MS < facts.wallMs)
    .toSorted((a, b) => a.lease.expiresMs - b.lease.expiresMs);
  return [
    ...own.map(({ lease, object }) => ({ slot: lease.slot, object })),
    ...free.map((slot) => ({ slot, object: bySlot.get(slot)?.object ?? null })),
    ...expired.map(({ lease, object }) => ({ slot: lease.slot, object })),
  ];
};

const readLeases = (objects: readonly KubeObject[], tunnel: string): readonly ReadLease[] =>
  objects.flatMap((object) => {
    const lease = parseSlotLease(object);
    return lease.ok && lease.value.tunnel === tunnel ? [{ lease: lease.value, object }] : [];
  });

const holderOf = (object: KubeObject): string | null => {
  const lease = parseSlotLease(object);
  return lease.ok ? lease.value.holder : null;
};

const parseRemembered = (text: string | null, options: SlotClaimOptions): Remembered | null => {
  if (text === null) return null;
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) return null;
    const fields = new Map<string, unknown>(Object.entries(value));
    const slot = parseSlot(fields.get("slot"));
    const expiresMs = fields.get("expiresMs");
    const isOurs = (["namespace", "tunnel", "identity"] as const).every(
      (name) => fields.get(name) === options[name],
    );
    if (!isOurs || !slot.ok || slot.value >= options.slots || typeof expiresMs !== "number") {
      return null;
    }
    if (expiresMs <= options.clock.wallMs()) return null;
    const { namespace, tunnel, identity } = options;
    return { namespace, tunnel, identity, slot: slot.value, expiresMs };
  } catch {
    return null;
  }
};
