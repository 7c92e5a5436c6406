/** The rotation of certificates: each phase's end, what goes wrong in between, and that nobody ever meets an unknown authority. */

import fc from "fast-check";
import t from "tap";
import { parseRotationSecret, rotationData } from "#src/codec/webhook-certificates-codec.ts";
import type {
  CertificateGeneration,
  CertificateRotation,
} from "#src/model/webhook-certificates.ts";
import {
  ANNOUNCE_MS,
  bundleOf,
  OVERLAP_MS,
  type RotationFacts,
  servingOf,
  stepCertificates,
  VALID_MS,
  withGeneration,
} from "./certificate-rotation.ts";

const NAMES = ["xylem.xylem.svc"];
const FACTS: RotationFacts = { names: NAMES, isBundlePublished: true, held: null };
const OLD = generation("old", 0);
const NEW = generation("new", 60);
const DAY_MS = 86_400_000;

const steps: readonly {
  readonly name: string;
  readonly rotation: CertificateRotation;
  readonly facts?: Partial<RotationFacts>;
  readonly nowMs: number;
  readonly want: object;
}[] = [
  {
    name: "without a Secret a generation is made",
    rotation: { kind: "none" },
    nowMs: 0,
    want: { kind: "make", names: NAMES },
  },
  {
    name: "a Secret that was deleted is written again with what is served",
    rotation: { kind: "none" },
    facts: { held: OLD },
    nowMs: DAY_MS,
    want: { kind: "save", rotation: { kind: "steady", current: OLD } },
  },
  {
    name: "what is served is not kept when it has expired",
    rotation: { kind: "none" },
    facts: { held: OLD },
    nowMs: VALID_MS,
    want: { kind: "make" },
  },
  {
    name: "a young certificate waits for two thirds of its life",
    rotation: { kind: "steady", current: OLD },
    nowMs: DAY_MS,
    want: { kind: "wait", atMs: 60 * DAY_MS },
  },
  {
    name: "a month before the end the next one is made",
    rotation: { kind: "steady", current: OLD },
    nowMs: 60 * DAY_MS,
    want: { kind: "make", names: NAMES },
  },
  {
    name: "a name that is missing is added to those that are there",
    rotation: { kind: "steady", current: OLD },
    facts: { names: ["b.xylem.svc"] },
    nowMs: 0,
    want: { kind: "make", names: ["b.xylem.svc", "xylem.xylem.svc"] },
  },
  {
    name: "the new authority counts as announced from when every configuration has it",
    rotation: { kind: "announcing", current: OLD, next: NEW, announcedMs: null },
    nowMs: 60 * DAY_MS,
    want: { kind: "save", rotation: { kind: "announcing", announcedMs: 60 * DAY_MS } },
  },
  {
    name: "nothing is announced while a configuration lacks the new authority",
    rotation: { kind: "announcing", current: OLD, next: NEW, announcedMs: null },
    facts: { isBundlePublished: false },
    nowMs: 61 * DAY_MS,
    want: { kind: "wait" },
  },
  {
    name: "a configuration that lost the new authority starts the wait anew",
    rotation: { kind: "announcing", current: OLD, next: NEW, announcedMs: 0 },
    facts: { isBundlePublished: false },
    nowMs: 60 * DAY_MS,
    want: { kind: "save", rotation: { kind: "announcing", announcedMs: null } },
  },
  {
    name: "the new leaf is not served before API servers had time to hear of it",
    rotation: { kind: "announcing", current: OLD, next: NEW, announcedMs: 60 * DAY_MS },
    nowMs: 60 * DAY_MS + ANNOUNCE_MS - 1,
    want: { kind: "wait", atMs: 60 * DAY_MS + ANNOUNCE_MS },
  },
  {
    name: "the new leaf is served once they had",
    rotation: { kind: "announcing", current: OLD, next: NEW, announcedMs: 60 * DAY_MS },
    nowMs: 60 * DAY_MS + ANNOUNCE_MS,
    want: { kind: "save", rotation: { kind: "overlapping", previous: OLD, current: NEW } },
  },
  {
    name: "a current certificate that ends meanwhile is left at once",
    rotation: { kind: "announcing", current: OLD, next: NEW, announcedMs: null },
    facts: { isBundlePublished: false },
    nowMs: VALID_MS,
    want: { kind: "save", rotation: { kind: "overlapping", previous: OLD, current: NEW } },
  },
  {
    name: "the old authority stays trusted until every replica had time to switch",
    rotation: { kind: "overlapping", previous: OLD, current: NEW, switchedMs: 60 * DAY_MS },
    nowMs: 60 * DAY_MS + OVERLAP_MS - 1,
    want: { kind: "wait", atMs: 60 * DAY_MS + OVERLAP_MS },
  },
  {
    name: "the old authority goes in the end",
    rotation: { kind: "overlapping", previous: OLD, current: NEW, switchedMs: 60 * DAY_MS },
    nowMs: 60 * DAY_MS + OVERLAP_MS,
    want: { kind: "save", rotation: { kind: "steady", current: NEW } },
  },
  {
    name: "a seed that slept past the end of all certificates makes new ones at once",
    rotation: { kind: "overlapping", previous: OLD, current: NEW, switchedMs: 60 * DAY_MS },
    nowMs: 400 * DAY_MS,
    want: { kind: "make", names: NAMES },
  },
];

for (const { name, rotation, facts, nowMs, want } of steps) {
  void t.test(name, async (t) => {
    t.match(stepCertificates(rotation, { ...FACTS, ...facts }, nowMs), want);
  });
}

void t.test(
  "what is made after the end of the current certificate is served without a wait",
  async (t) => {
    const late = generation("late", 400);
    const next = withGeneration({ kind: "steady", current: OLD }, late, 400 * DAY_MS);
    t.equal(next.kind, "overlapping");
    t.equal(servingOf(next), late);
  },
);

void t.test(
  "the Secret says what was written, and shows nothing of itself when it is spoilt",
  async (t) => {
    const rotations: readonly CertificateRotation[] = [
      { kind: "none" },
      { kind: "steady", current: OLD },
      { kind: "announcing", current: OLD, next: NEW, announcedMs: null },
      { kind: "announcing", current: OLD, next: NEW, announcedMs: 7 },
      { kind: "overlapping", previous: OLD, current: NEW, switchedMs: 7 },
    ];
    for (const rotation of rotations) {
      t.strictSame(parseRotationSecret({ data: rotationData(rotation) }), {
        ok: true,
        value: rotation,
      });
    }
    const spoilt = [
      undefined,
      {},
      { data: {} },
      { data: { rotation: "%" } },
      { data: { rotation: "e30=" } },
    ];
    for (const object of spoilt) t.match(parseRotationSecret(object), { ok: false });
    const secret = { data: rotationData({ kind: "steady", current: { ...OLD, key: "hunter2" } }) };
    t.notMatch(JSON.stringify(parseRotationSecret(secret)), "hunter2");
  },
);

void t.test(
  "I41 over years, two replicas and two API servers that lag never meet an authority that they don't know",
  async (t) => {
    const turn = fc.record({
      replica: fc.integer({ min: 0, max: 1 }),
      /** Between two passes of anybody: mostly seconds, sometimes weeks. */
      pauseMs: fc.oneof(
        { weight: 8, arbitrary: fc.integer({ min: 0, max: 100_000 }) },
        { weight: 1, arbitrary: fc.integer({ min: 0, max: 20 * DAY_MS }) },
      ),
      /** How far behind an API server is; below ANNOUNCE_MS. */
      lagMs: fc.integer({ min: 0, max: ANNOUNCE_MS - 1 }),
      /** Somebody takes the bundle away, or the Secret. */
      trouble: fc.constantFrom("none", "none", "none", "none", "none", "none", "secret"),
    });
    fc.assert(
      fc.property(fc.array(turn, { minLength: 20, maxLength: 300 }), (turns) => {
        const world = new World();
        for (const { replica, pauseMs, lagMs, trouble } of turns) {
          world.pass(0);
          world.pass(1);
          world.nowMs += pauseMs;
          // A quiet pause of weeks: both replicas still run their minute's resync, at its end at the latest.
          if (trouble === "secret") world.secret = { kind: "none" };
          world.pass(replica);
          world.check(lagMs);
        }
      }),
      { numRuns: 200 },
    );
    t.pass();
  },
);

// Helpers.

function generation(name: string, fromDay: number): CertificateGeneration {
  const notBeforeMs = fromDay * 86_400_000;
  return {
    authority: `-----BEGIN CERTIFICATE----- ${name}\n`,
    certificate: `-----BEGIN CERTIFICATE----- leaf of ${name}\n`,
    key: `-----BEGIN EC PRIVATE KEY----- ${name}\n`,
    names: NAMES,
    notBeforeMs,
    notAfterMs: notBeforeMs + VALID_MS,
  };
}

/** Replicas that share a Secret and a configuration, and API servers that see the configuration late. */
class World {
  nowMs = 0;
  secret: CertificateRotation = { kind: "none" };
  #made = 0;
  readonly #serving: (CertificateGeneration | null)[] = [null, null];
  readonly #bundles: { readonly sinceMs: number; readonly text: string }[] = [];

  pass(replica: number): void {
    const facts = (): RotationFacts => ({
      names: NAMES,
      isBundlePublished: this.#bundles.at(-1)?.text === bundleOf(this.secret),
      held: this.#serving[replica] ?? null,
    });
    for (let round = 0; round < 5; round += 1) {
      const effect = stepCertificates(this.secret, facts(), this.nowMs);
      if (effect.kind === "wait") break;
      if (effect.kind === "save") this.secret = effect.rotation;
      else {
        this.#made += 1;
        const made = { ...generation(String(this.#made), 0), notBeforeMs: this.nowMs };
        const valid = { ...made, notAfterMs: this.nowMs + VALID_MS };
        this.secret = withGeneration(this.secret, valid, this.nowMs);
      }
    }
    this.#serving[replica] = servingOf(this.secret);
    const text = bundleOf(this.secret);
    if (text !== null && text !== this.#bundles.at(-1)?.text) {
      this.#bundles.push({ sinceMs: this.nowMs, text });
    }
  }

  /** Every bundle that an API server may still use knows every leaf that is served. */
  check(lagMs: number): void {
    const seen = this.#bundles.findLast(({ sinceMs }) => sinceMs <= this.nowMs - lagMs);
    for (const serving of this.#serving) {
      if (seen === undefined || serving === null) continue;
      const isAfterEmergency = this.nowMs - serving.notBeforeMs < ANNOUNCE_MS;
      if (!seen.text.includes(serving.authority) && !isAfterEmergency) {
        throw new Error(`${serving.authority} is served, ${seen.text} is trusted`);
      }
    }
  }
}
