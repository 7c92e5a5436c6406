/**
 * One pass of the allocator of address ranges: frees what nobody owns, grants what is asked, then says so. Any number of
 * allocators may run at once, and each may die anywhere: docs/decisions/cidr-revision.md.
 *
 *   reflectors' items -> facts -> free what is owned by nobody -> plan each claim that may have a new answer
 *     -> VPC by VPC: swap the domain, make its blocks -> write statuses
 */

import { olderClaimFirst, type NetworkClaim } from "#src/model/allocation.ts";
import { blockName } from "#src/model/allocation-name.ts";
import { planClaim } from "#src/plan/allocation/claim-plan.ts";
import { cleanedDomain, planRelease, type ReleasePlan } from "#src/plan/allocation/release-plan.ts";
import { isRetryable } from "#src/plan/allocation/retry-plan.ts";
import type { Clock } from "#src/ports/clock.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject } from "#src/ports/kube.ts";
import { AllocationFacts, type AllocationItems } from "./allocation-facts.ts";
import { codecReadings, type AllocationReadings } from "./allocation-readings.ts";
import { grantInDomain } from "./allocation-grant.ts";
import { blocksIn, heldAfter, planClaimStatus, type ClaimOutcome } from "./allocation-status.ts";
import { AllocationStore } from "./allocation-store.ts";
import { inParallel } from "./parallel-work.ts";

export interface AllocatorOptions {
  readonly kube: Kube;
  readonly clock: Clock;
  /** What the reflectors show at this moment. */
  readonly items: () => AllocationItems;
  /** Calls that may be on their way at once. */
  readonly callsMax?: number;
  /** How long to wait for the watch, or for another allocator, before its work is done for it. */
  readonly graceMs?: number;
  /** How objects are read; absent: by the codecs. */
  readonly readings?: AllocationReadings;
}

/** What a pass did. */
export interface AllocationReport {
  /** Empty: everything is known; else nothing was done. */
  readonly unsynced: readonly string[];
  readonly granted: number;
  readonly freed: number;
  readonly statuses: number;
  /** Run again after this time, if no change comes first; null: when something changes. */
  readonly againMs: number | null;
  /** The first failure; the rest of the pass was done all the same. */
  readonly problem: string | null;
}

/** How a claim was answered last. */
interface Answer {
  readonly claim: KubeObject;
  readonly outcome: ClaimOutcome;
  readonly epoch: string;
  readonly seedEpoch: number;
  /** How many of its blocks were shown then; others may make more. */
  readonly shares: number;
  /** Version of the object whose status was found right or was written. */
  checked: KubeObject | null;
  /** The object has said it once. */
  isTold: boolean;
}

const CALLS_MAX = 8;
const GRACE_MS = 300;

export class Allocator {
  readonly facts: AllocationFacts;
  readonly #options: Required<AllocatorOptions>;
  readonly #store: AllocationStore;
  /** By UID. */
  readonly #answers = new Map<string, Answer>();
  /** By `vpc NAME`, `claim UID`, `told UID`: since when it waits for what is not shown. */
  readonly #waits = new Map<string, { readonly revision: string; readonly sinceMs: number }>();
  #report = emptyReport();

  constructor(options: AllocatorOptions) {
    const { readings = codecReadings } = options;
    this.#options = { callsMax: CALLS_MAX, graceMs: GRACE_MS, ...options, readings };
    this.facts = new AllocationFacts(readings);
    this.#store = new AllocationStore(options.kube, readings);
  }

  /** Forgets all answers, so that the next pass looks at every claim. */
  forgetAnswers(): void {
    this.#answers.clear();
  }

  /** Claims by the kind of their last answer. */
  answers(): ReadonlyMap<ClaimOutcome["kind"], number> {
    const counts = new Map<ClaimOutcome["kind"], number>();
    for (const { outcome } of this.#answers.values()) {
      counts.set(outcome.kind, (counts.get(outcome.kind) ?? 0) + 1);
    }
    return counts;
  }

  /** Runs one pass; passes must not overlap. A failed call ends its own part of the pass only. */
  async pass(): Promise<AllocationReport> {
    this.facts.sync(this.#options.items());
    this.#report = emptyReport(this.facts.unsynced);
    if (this.facts.unsynced.length > 0) return this.#report;
    await this.#guarded(() => this.#release());
    const hungry = this.#plan();
    for (const [vpc, claims] of hungry) {
      await this.#guarded(() => this.#grant(vpc, claims));
    }
    await this.#guarded(() => this.#writeStatuses());
    return this.#report;
  }

  async #guarded(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!isHostError(error)) throw error;
      this.#tell({ problem: this.#report.problem ?? error.message });
    }
  }

  #tell(change: Partial<AllocationReport>): void {
    this.#report = { ...this.#report, ...change };
  }

  async #release(): Promise<void> {
    const { callsMax } = this.#options;
    let plan = this.#releasePlan();
    if (plan.confirm.length > 0) {
      await inParallel(plan.confirm, callsMax, async (owner) => {
        await this.#store.isGone(owner);
      });
      plan = this.#releasePlan();
    }
    for (const domain of plan.clean) {
      await this.#store.replaceDomain(cleanedDomain(domain, this.#store.goneUids));
    }
    await inParallel(plan.free, callsMax, async (block) => {
      await this.#store.free(block);
      this.#tell({ freed: this.#report.freed + 1 });
    });
    for (const domain of this.facts.deletingDomains()) await this.#store.releaseDomain(domain);
  }

  #releasePlan(): ReleasePlan {
    const named = new Set<string>();
    for (const { owner } of this.facts.blocks()) named.add(owner.uid);
    for (const { pending } of this.facts.domains()) {
      for (const { owner } of pending) named.add(owner.uid);
    }
    this.#store.keepGone((uid) => named.has(uid));
    return planRelease({
      blocks: this.facts.blocks(),
      claimUids: new Set(this.facts.claims.keys()),
      isSynced: true,
      goneUids: this.#store.goneUids,
      domains: this.facts.domains(),
    });
  }

  /** Answers all claims that need no new block; the others by VPC, the oldest first. */
  #plan(): ReadonlyMap<string, readonly NetworkClaim[]> {
    const { ledger, claims } = this.facts;
    for (const uid of this.#answers.keys()) {
      if (claims.has(uid)) continue;
      this.#answers.delete(uid);
      this.#waits.delete(`claim ${uid}`);
      this.#waits.delete(`told ${uid}`);
    }
    const hungry: NetworkClaim[] = [];
    for (const [uid, { object, read }] of claims) {
      if (!this.#isOpen(uid, object)) continue;
      if (!read.ok) {
        const held = ledger.blocksOf(uid);
        this.#answer(uid, { kind: "invalid", reason: read.problem, held });
        continue;
      }
      const verdict = planClaim({ claim: read.value, ledger, domain: null, unsynced: [] });
      if (verdict.kind === "granted" && verdict.create.length > 0) hungry.push(read.value);
      else this.#answer(uid, verdict);
    }
    return Map.groupBy(hungry.toSorted(olderClaimFirst), ({ vpc }) => vpc);
  }

  /** False: it was answered, and nothing that matters to the answer has changed since. */
  #isOpen(uid: string, object: KubeObject): boolean {
    const answer = this.#answers.get(uid);
    if (answer === undefined) return true;
    const before = answer.claim.metadata;
    const { generation, deletionTimestamp } = object.metadata;
    if (before.generation !== generation || before.deletionTimestamp !== deletionTimestamp) {
      return true;
    }
    if (answer.shares !== this.facts.sharesOf(uid)) return true;
    if (answer.seedEpoch !== this.facts.seedEpoch) return true;
    return canImprove(answer.outcome) && answer.epoch !== this.#epochOf(object);
  }

  #epochOf(object: KubeObject): string {
    const read = this.facts.claims.get(object.metadata.uid ?? "")?.read;
    return read?.ok === true ? this.facts.epochOf(read.value.vpc) : "";
  }

  #answer(uid: string, outcome: ClaimOutcome): void {
    const object = this.facts.claims.get(uid)?.object;
    if (object === undefined) return;
    const epoch = this.#epochOf(object);
    const shares = this.facts.sharesOf(uid);
    const { seedEpoch } = this.facts;
    const told = { checked: null, isTold: false };
    this.#answers.set(uid, { claim: object, outcome, epoch, seedEpoch, shares, ...told });
  }

  async #grant(vpc: string, claims: readonly NetworkClaim[]): Promise<void> {
    const result = await grantInDomain({
      vpc,
      claims,
      facts: this.facts,
      store: this.#store,
      sync: () => {
        this.facts.sync(this.#options.items());
      },
      callsMax: this.#options.callsMax,
      isPatient: (revision) => this.#isPatient(`vpc ${vpc}`, revision),
    });
    for (const [uid, verdict] of result.verdicts) this.#answer(uid, verdict);
    this.#tell({ granted: this.#report.granted + result.granted });
    if (result.isDone) this.#waits.delete(`vpc ${vpc}`);
    else this.#tell({ againMs: this.#options.graceMs });
  }

  /** True while it is too early to do the work of others, or to distrust the watch. */
  #isPatient(what: string, revision: string): boolean {
    const { clock, graceMs } = this.#options;
    const wait = this.#waits.get(what);
    if (wait?.revision === revision) return clock.nowMs() - wait.sinceMs < graceMs;
    this.#waits.set(what, { revision, sinceMs: clock.nowMs() });
    return graceMs > 0;
  }

  /**
   * True when the status names blocks that are not known here: another allocator has just made them, and the watch will
   * show them. After the grace they are taken for lost.
   */
  #isBehind(uid: string, answer: Answer, object: KubeObject): boolean {
    const known = new Set(heldAfter(answer.outcome).map(blockName));
    const isKnown = blocksIn(object["status"]).every((name) => known.has(name));
    const key = `claim ${uid}`;
    if (!isKnown) return this.#isPatient(key, object.metadata.resourceVersion ?? "");
    this.#waits.delete(key);
    return false;
  }

  /**
   * True for a while when somebody has changed what was told: another allocator may know more, and the watch will show
   * it. So two that see different moments for long write a few times a second, not as fast as they can.
   */
  #isDisputed(uid: string, { isTold }: Answer, object: KubeObject): boolean {
    return isTold && this.#isPatient(`told ${uid}`, object.metadata.resourceVersion ?? "");
  }

  async #writeStatuses(): Promise<void> {
    const { clock, callsMax } = this.#options;
    const due: { readonly object: KubeObject; readonly answer: Answer; readonly status: object }[] =
      [];
    for (const [uid, answer] of this.#answers) {
      const object = this.facts.claims.get(uid)?.object;
      if (object === undefined || answer.checked === object) continue;
      const { status, change } = planClaimStatus({
        outcome: answer.outcome,
        generation: answer.claim.metadata.generation ?? 0,
        previous: object["status"],
        nowMs: clock.wallMs(),
      });
      // Words of an allocator that looked at another moment: to insist on ours would be a quarrel without an end.
      const isRight = change === "none" || (change === "words" && answer.isTold);
      if (isRight) Object.assign(answer, { checked: object, isTold: true });
      else if (this.#isBehind(uid, answer, object) || this.#isDisputed(uid, answer, object)) {
        this.#tell({ againMs: this.#options.graceMs });
      } else due.push({ object, answer, status });
    }
    await inParallel(due, callsMax, async ({ object, answer, status }) => {
      const isWritten = await this.#store.writeStatus(object, status);
      answer.checked = object;
      if (!isWritten) return;
      answer.isTold = true;
      this.#tell({ statuses: this.#report.statuses + 1 });
    });
  }
}

const emptyReport = (unsynced: readonly string[] = []): AllocationReport => ({
  unsynced,
  granted: 0,
  freed: 0,
  statuses: 0,
  againMs: null,
  problem: null,
});

const canImprove = (outcome: ClaimOutcome): boolean =>
  outcome.kind !== "invalid" && isRetryable(outcome);
