/**
 * Several allocators over one API server, interleaved at every call by a list of choices: calls that land late, answers
 * that are lost, watches that lag, allocators that are killed anywhere and started again.
 */

import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import type { Cidr } from "#src/model/cidr.ts";
import type { Clock } from "#src/ports/clock.ts";
import type { Kube, KubeName, KubeObject, KubeResource } from "#src/ports/kube.ts";
import { NETWORK_BLOCKS, NETWORK_CLAIMS, NETWORK_DOMAINS } from "#src/ports/kube-resource.ts";
import type { AllocationItems } from "#src/reconcile/allocation-facts.ts";
import {
  claimSample,
  poolSample,
  seedSample,
  type Sample,
} from "#src/reconcile/allocation-samples.ts";
import { rememberedReadings } from "#src/reconcile/allocation-readings.ts";
import { Allocator } from "#src/reconcile/allocator.ts";
import { brokenRule, unsettledRule, type AllocationObjects } from "./allocation-rules.ts";
import type { Choices } from "./choices.ts";
import {
  History,
  ScheduledKube,
  WrittenHistory,
  type Call,
  type ShownHistory,
} from "./scheduled-kube.ts";

export interface AllocationWorldOptions {
  readonly allocators: number;
  /** What a planted bug makes of the API that an allocator sees. */
  readonly spoil?: (kube: Kube, seen: () => AllocationItems) => Kube;
}

/** How a schedule ended. */
export interface ScheduleResult {
  /** Null: all rules held. */
  readonly broken: string | null;
  /** What happened, in order; empty where all rules held. */
  readonly trace: readonly string[];
}

/** What allocators read and write. */
const KINDS = {
  claims: NETWORK_CLAIMS,
  blocks: NETWORK_BLOCKS,
  domains: NETWORK_DOMAINS,
} as const;
type Kind = keyof AllocationItems;
const MOVING = ["claims", "blocks", "domains", "seeds"] as const satisfies readonly Kind[];
const WRITTEN = ["claims", "blocks", "domains"] as const satisfies readonly Kind[];
type MovingKind = (typeof MOVING)[number];

/** Room for four /28; wishes are /27 and /28. */
const POOL = "10.0.0.0/26" as Cidr;
/** What the seed has set aside: nothing of the pool, or some of it. */
const FORBIDDEN: readonly (readonly Cidr[])[] = [[], ["10.0.0.32/28" as Cidr]];
const SEEDS = FORBIDDEN.map((reserved) => shownSample(seedSample("eu-1", { reserved })));
const seedState = (which: number): ReadonlyMap<string, KubeObject> => SEEDS[which] ?? new Map();
const POOLS = shownSample(poolSample("p", [POOL]));
/** Small, and of mixed sizes, so that they meet. */
const WISHES = [27, 28, "10.0.0.0/27", "10.0.0.16/28", "10.0.0.32/28", 28] as const;
const NAMES = ["a", "b", "c"] as const;

/** Two claims are there from the start. */
const EVENTS_MAX = 5;
const STEPS_MAX = 40;
const FAULTS_MAX = 2;
/** An allocator that runs this often without an end never ends. */
const SETTLE_ROUNDS_MAX = 12;

/** Objects are frozen, so what one allocator has read of them holds for all. */
const readings = rememberedReadings();

function shownSample({ object }: Sample): ReadonlyMap<string, KubeObject> {
  return new Map([[object.metadata.name, object]]);
}

interface Action {
  readonly label: () => string;
  readonly run: () => void | Promise<void>;
}

interface Histories extends Readonly<Record<keyof typeof KINDS, History>> {
  readonly seeds: WrittenHistory;
}

/** One allocator: what it sees, what it waits for. A restart makes another one of the same number. */
class Instance {
  readonly label: string;
  readonly shown: Record<MovingKind, number>;
  calls: Call[] = [];
  isRunning = false;
  /** Its last pass asked for another one, or there was none yet. */
  isWaiting = true;
  /** What was shown when the last pass began. */
  #begun: Readonly<Record<MovingKind, number>>;
  readonly #allocator: Allocator;

  constructor(options: {
    readonly label: string;
    readonly shown: Record<MovingKind, number>;
    readonly histories: Histories;
    readonly server: FakeKube;
    readonly clock: Clock;
    readonly graceMs: number;
    readonly callsMax: number;
    readonly spoil: NonNullable<AllocationWorldOptions["spoil"]>;
    readonly onLanded: (resource: KubeResource) => void;
  }) {
    const { server, histories, clock, graceMs, callsMax, spoil, onLanded } = options;
    this.label = options.label;
    this.shown = options.shown;
    this.#begun = { ...options.shown };
    const items = (): AllocationItems => ({
      claims: histories.claims.at(this.shown.claims),
      blocks: histories.blocks.at(this.shown.blocks),
      domains: histories.domains.at(this.shown.domains),
      pools: POOLS,
      seeds: histories.seeds.at(this.shown.seeds),
    });
    const park = (call: Call): void => void this.calls.push(call);
    const kube = spoil(new ScheduledKube({ server, park, onLanded }), items);
    this.#allocator = new Allocator({ kube, clock, graceMs, callsMax, items, readings });
  }

  /** True when its loop would run a pass: news came, or it asked for one; a wakeup that it lost is never made up for. */
  get isDue(): boolean {
    return (
      !this.isRunning &&
      (this.isWaiting || MOVING.some((kind) => this.#begun[kind] !== this.shown[kind]))
    );
  }

  start(onBroken: (error: unknown) => void): void {
    this.isRunning = true;
    this.isWaiting = false;
    this.#begun = { ...this.shown };
    this.#allocator.pass().then(
      ({ againMs, problem }) => {
        this.isRunning = false;
        this.isWaiting = againMs !== null || problem !== null;
      },
      (error: unknown) => {
        this.isRunning = false;
        onBroken(error);
      },
    );
  }

  /** Lets it run on until it waits for a call or has nothing more to do. */
  async settle(): Promise<void> {
    for (let ticks = 0; ticks < TICKS_MAX; ticks += 1) {
      if (ticks >= TICKS_MIN && (this.calls.length > 0 || !this.isRunning)) return;
      await Promise.resolve();
    }
    throw new Error(`${this.label} neither waits nor ends`);
  }
}

const TICKS_MIN = 6;
const TICKS_MAX = 10_000;

export class AllocationWorld {
  readonly #choices: Choices;
  readonly #options: AllocationWorldOptions;
  readonly #server: FakeKube;
  readonly #histories: Histories;
  readonly #instances: Instance[] = [];
  /** Calls whose caller was killed, or told that there is no answer. */
  #adrift: Call[] = [];
  readonly #trace: (() => string)[] = [];
  #broken: string | null = null;
  #before: AllocationObjects = { claims: [], blocks: [] };
  #events = 0;
  #faults = 0;
  #starts = 0;
  #nowMs = 0;
  #writes = 0;
  /** Which of FORBIDDEN the seed says. */
  #forbidden = 0;
  readonly #clock: Clock = {
    nowMs: () => this.#nowMs,
    wallMs: () => Date.UTC(2026, 0, 1) + this.#nowMs,
    after: () => () => undefined,
  };

  constructor(choices: Choices, options: AllocationWorldOptions) {
    this.#choices = choices;
    this.#options = options;
    this.#server = new FakeKube({ clock: this.#clock, log: new FakeLog(), isFrozen: true });
    this.#histories = {
      claims: new History(this.#server, NETWORK_CLAIMS),
      blocks: new History(this.#server, NETWORK_BLOCKS),
      domains: new History(this.#server, NETWORK_DOMAINS),
      seeds: new WrittenHistory(seedState(0)),
    };
    const graceMs = choices.pick(2) * 50;
    const callsMax = 1 + choices.pick(2);
    for (let at = 0; at < options.allocators; at += 1) {
      this.#instances.push(this.#newInstance(graceMs, callsMax));
    }
    this.#restart = (at) => {
      this.#instances[at] = this.#newInstance(graceMs, callsMax);
    };
  }

  readonly #restart: (at: number) => void;

  #newInstance(graceMs: number, callsMax: number): Instance {
    this.#starts += 1;
    const shown = { claims: 0, blocks: 0, domains: 0, seeds: 0 };
    for (const kind of MOVING) shown[kind] = this.#histories[kind].newest;
    return new Instance({
      label: `#${this.#starts}`,
      shown,
      histories: this.#histories,
      server: this.#server,
      clock: this.#clock,
      graceMs,
      callsMax,
      spoil: this.#options.spoil ?? ((kube) => kube),
      onLanded: (resource) => {
        this.#observe(resource);
      },
    });
  }

  /** Runs the whole schedule. */
  async run(): Promise<ScheduleResult> {
    for (let claims = 0; claims < 2; claims += 1) await this.#do(this.#event());
    for (const { shown } of this.#instances) shown.claims = this.#histories.claims.newest;
    for (let step = 0; step < STEPS_MAX && this.#broken === null; step += 1) {
      const actions = this.#actions();
      const action = actions[this.#choices.pick(actions.length)];
      if (action === undefined) break;
      await this.#do(action);
    }
    await this.#settle();
    const isFine = this.#broken === null;
    return { broken: this.#broken, trace: isFine ? [] : this.#trace.map((line) => line()) };
  }

  async #do({ label, run }: Action): Promise<void> {
    this.#trace.push(label);
    this.#nowMs += 10;
    await run();
  }

  /** All that may happen next; the plainest first. */
  #actions(): Action[] {
    const actions: Action[] = [];
    for (const [at, instance] of this.#instances.entries()) {
      if (instance.isDue) actions.push(this.#pass(instance));
      for (const call of instance.calls) actions.push(this.#landing(instance, call));
      const lagging = MOVING.filter((kind) => this.#lagOf(instance, kind) > 0);
      if (lagging.length > 0) actions.push(this.#showing(instance, lagging));
      if (instance.isRunning && this.#faults < FAULTS_MAX) actions.push(this.#kill(at, instance));
      const [call] = instance.calls;
      if (call !== undefined && this.#faults < FAULTS_MAX) actions.push(this.#loss(instance, call));
    }
    if (this.#events < EVENTS_MAX) actions.push(this.#event());
    for (const call of this.#adrift) actions.push(this.#drifting(call));
    return actions;
  }

  #pass(instance: Instance): Action {
    return {
      label: () => `${instance.label} begins a pass`,
      run: () => {
        instance.start((error) => {
          this.#broken ??= `${instance.label} is broken: ${String(error)}`;
        });
        return instance.settle();
      },
    };
  }

  #landing(instance: Instance, call: Call): Action {
    return {
      label: () => `${instance.label} ${call.label()}`,
      run: async () => {
        instance.calls = instance.calls.filter((one) => one !== call);
        await call.land();
        await instance.settle();
      },
    };
  }

  #lagOf(instance: Instance, kind: MovingKind): number {
    const history: ShownHistory = this.#histories[kind];
    return history.newest - instance.shown[kind];
  }

  /** All that lags, or some of it. */
  #showing(instance: Instance, lagging: readonly MovingKind[]): Action {
    return {
      label: () => `${instance.label} is shown news`,
      run: () => {
        const chosen = this.#choices.pick(lagging.length + 1);
        for (const kind of chosen === 0 ? lagging : lagging.slice(chosen - 1, chosen)) {
          const lag = this.#lagOf(instance, kind);
          instance.shown[kind] += lag - this.#choices.pick(lag);
        }
      },
    };
  }

  #kill(at: number, instance: Instance): Action {
    return {
      label: () => `${instance.label} is killed`,
      run: () => {
        this.#faults += 1;
        this.#adrift.push(...instance.calls);
        this.#restart(at);
      },
    };
  }

  #loss(instance: Instance, call: Call): Action {
    return {
      label: () => `${instance.label} hears nothing of ${call.label()}`,
      run: async () => {
        this.#faults += 1;
        instance.calls = instance.calls.filter((one) => one !== call);
        this.#adrift.push(call);
        call.lose();
        await instance.settle();
      },
    };
  }

  #drifting(call: Call): Action {
    return {
      label: () => `late: ${call.label()}`,
      run: async () => {
        this.#adrift = this.#adrift.filter((one) => one !== call);
        if (this.#choices.pick(3) < 2) await call.land();
      },
    };
  }

  /** Somebody makes or deletes a claim, or edits the seed; a name may come back with another wish. */
  #event(): Action {
    return {
      label: () => "a person comes",
      run: async () => {
        this.#events += 1;
        const chosen = this.#choices.pick(NAMES.length + 1);
        const name = NAMES[chosen];
        if (name === undefined) {
          this.#editSeed();
          return;
        }
        const key: KubeName = { namespace: `shoot--${name}`, name: "net" };
        if (this.#server.peek(NETWORK_CLAIMS, key) === null) {
          const nodes = WISHES[this.#choices.pick(WISHES.length)] ?? 28;
          this.#trace.push(() => `  claim ${name} asks for ${nodes}`);
          const { resource, object } = claimSample(name, { nodes });
          this.#server.seed(resource, object);
        } else {
          this.#trace.push(() => `  claim ${name} is deleted`);
          await this.#server.delete(NETWORK_CLAIMS, key);
        }
        this.#observe(NETWORK_CLAIMS);
      },
    };
  }

  #editSeed(): void {
    this.#forbidden = 1 - this.#forbidden;
    const forbidden = FORBIDDEN[this.#forbidden] ?? [];
    this.#trace.push(() => `  the seed sets aside ${forbidden.join() || "nothing"}`);
    this.#histories.seeds.write(seedState(this.#forbidden));
  }

  /** Records what a write has changed, and judges it. */
  #observe(resource: KubeResource): void {
    const isWrite = this.#server.writes.length !== this.#writes;
    this.#writes = this.#server.writes.length;
    if (!isWrite && resource !== NETWORK_CLAIMS) return;
    for (const kind of WRITTEN) if (KINDS[kind] === resource) this.#histories[kind].record();
    if (resource === NETWORK_DOMAINS) return;
    const now = this.#objects();
    this.#broken ??= brokenRule(this.#before, now);
    this.#before = now;
  }

  #objects(): AllocationObjects {
    return {
      claims: this.#server.peekAll(NETWORK_CLAIMS),
      blocks: this.#server.peekAll(NETWORK_BLOCKS),
    };
  }

  /** Without faults everything comes to rest, and then everything is as it should be. */
  async #settle(): Promise<void> {
    this.#trace.push(() => "nothing disturbs any more");
    for (const call of this.#adrift) await call.land();
    this.#adrift = [];
    for (let round = 0; round < SETTLE_ROUNDS_MAX && this.#broken === null; round += 1) {
      for (const instance of this.#instances) this.#showAll(instance);
      if (this.#instances.every(({ isDue, isRunning }) => !isDue && !isRunning)) {
        this.#broken = unsettledRule(this.#objects(), {
          pool: [POOL],
          forbidden: FORBIDDEN[this.#forbidden] ?? [],
        });
        return;
      }
      for (const instance of this.#instances) await this.#finish(instance);
    }
    this.#broken ??= "it does not come to rest";
  }

  #showAll({ shown }: Instance): void {
    for (const kind of MOVING) shown[kind] = this.#histories[kind].newest;
  }

  async #finish(instance: Instance): Promise<void> {
    this.#nowMs += 1_000;
    if (instance.isDue) await this.#do(this.#pass(instance));
    while (instance.isRunning && this.#broken === null) {
      this.#showAll(instance);
      const [call] = instance.calls;
      if (call === undefined) await instance.settle();
      else await this.#do(this.#landing(instance, call));
    }
  }
}
