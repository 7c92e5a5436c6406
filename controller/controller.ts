/** Keeps one work loop for each Tunnel of the seed and one connection to each of their shoots. */

import type { Clock } from "#src/ports/clock.ts";
import { whatIsMissing } from "#src/host/kube/readings.ts";
import type { AuditSummary } from "#src/plan/injection/audit-plan.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, Reflector } from "#src/ports/kube.ts";
import { LEASES, TUNNELS } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import { type RunResult, WorkLoop } from "#src/reconcile/loop.ts";
import type { ConditionCount } from "./metrics.ts";
import { Shoot } from "./shoot.ts";
import { conditionsOf, passTunnel } from "./tunnel-pass.ts";
import { AddressMapKeeper } from "./address-maps.ts";
import { PolicyKeeper } from "./policies.ts";
import type { PolicySettings } from "./policy-options.ts";
import { removeLeftPolicies } from "./policy-removal.ts";
import type { TunnelName } from "./config.ts";

export interface ControllerParts {
  readonly seed: Kube;
  /** Opens a client for a tunnel's shoot; no byte is sent before its first call. */
  readonly openShoot: (tunnel: TunnelName) => Kube;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly namespace: string | undefined;
  readonly tunnel: string | undefined;
  /** What the audit says of a tunnel's pods, null before its first look; left out: nothing is injected here. */
  readonly audit?: (tunnel: TunnelName) => AuditSummary | null;
  /** Name of the SeedNetwork that this seed is; left out: tunnels get no address maps. */
  readonly seedNetwork?: string | undefined;
  /** Left out or null: no NetworkPolicies are kept, and those that an earlier controller kept are removed. */
  readonly policies?: PolicySettings | null;
  /** Hears of every pass over a Tunnel. */
  readonly onPass?: (result: RunResult) => void;
}

interface Kept {
  readonly loop: WorkLoop;
  shoot: Shoot | null;
}

export class Controller {
  readonly #parts: ControllerParts;
  readonly #tunnels: Reflector;
  readonly #leases: Reflector;
  readonly #maps: AddressMapKeeper | null;
  readonly #policies: PolicyKeeper | null;
  /** Only where no policies are kept. */
  readonly #leftPolicies: WorkLoop | null;
  readonly #kept = new Map<string, Kept>();

  /** Starts to watch at once. */
  constructor(parts: ControllerParts) {
    this.#parts = parts;
    const { seed, namespace, tunnel } = parts;
    const scope = namespace === undefined ? {} : { namespace };
    this.#tunnels = seed.reflect(TUNNELS, {
      ...scope,
      ...(tunnel === undefined ? {} : { fieldSelector: `metadata.name=${tunnel}` }),
      onChange: () => {
        this.#follow();
      },
    });
    this.#maps =
      parts.seedNetwork === undefined
        ? null
        : new AddressMapKeeper({
            kube: seed,
            seedNetwork: parts.seedNetwork,
            log: parts.log,
            onChange: () => {
              this.trigger("address maps");
            },
          });
    this.#policies = keeperOf(parts, () => this.trigger("policies"));
    this.#leftPolicies = this.#policies === null ? loopOfLeftPolicies(parts) : null;
    this.#leftPolicies?.trigger("start");
    this.#leases = seed.reflect(LEASES, {
      ...scope,
      labelSelector:
        tunnel === undefined ? "app.kubernetes.io/managed-by=xylem" : `xylem.dev/tunnel=${tunnel}`,
      onChange: () => {
        this.trigger("leases");
      },
    });
  }

  /** Null once the seed was listed; else the sentence that says why not. */
  problem(): string | null {
    return (
      whatIsMissing("the seed's API server", [this.#tunnels, this.#leases]) ??
      this.#maps?.missing() ??
      this.#policies?.missing() ??
      null
    );
  }

  /** What the controller knows of each tunnel, for people. */
  status(): object {
    const tunnels = [...this.#kept].map(([name, { loop }]) => ({ name, result: loop.lastResult }));
    return { seed: { tunnels: this.#tunnels.state, leases: this.#leases.state }, tunnels };
  }

  /** Tunnels by the status of each condition; null: not listed yet. A Tunnel that nobody has looked at has no condition. */
  tunnels(): { readonly total: number; readonly conditions: readonly ConditionCount[] } | null {
    const items = this.#tunnels.items;
    if (items === null) return null;
    const counts = new Map<string, ConditionCount>();
    for (const object of items.values()) {
      for (const { type: condition, status } of conditionsOf(object)) {
        const key = `${condition} ${status}`;
        const count = (counts.get(key)?.count ?? 0) + 1;
        counts.set(key, { condition, status, count });
      }
    }
    return { total: items.size, conditions: [...counts.values()] };
  }

  /** Looks at every tunnel again. */
  trigger(reason: string): void {
    for (const { loop } of this.#kept.values()) loop.trigger(reason);
  }

  /** Runs every tunnel's pass once and answers their results by name. */
  async once(): Promise<ReadonlyMap<string, RunResult | { readonly kind: "stopped" }>> {
    await Promise.all([
      this.#tunnels.synced(),
      this.#leases.synced(),
      this.#policies?.synced(),
      this.#leftPolicies?.settled(this.#leftPolicies.trigger("once")),
    ]);
    this.#follow();
    const results = [...this.#kept].map(async ([name, { loop }]) => {
      const outcome = await loop.settled(loop.trigger("once"));
      return [name, outcome.result] as const;
    });
    return new Map(await Promise.all(results));
  }

  /** Ends all work; the statuses stay as they are. */
  async stop(): Promise<void> {
    this.#tunnels.stop();
    this.#leases.stop();
    this.#maps?.stop();
    this.#policies?.stop();
    await this.#leftPolicies?.stop();
    await Promise.all([...this.#kept.keys()].map((key) => this.#forget(key)));
  }

  #follow(): void {
    const items = this.#tunnels.items;
    if (items === null) return;
    for (const key of this.#kept.keys()) if (!items.has(key)) void this.#forget(key);
    for (const [key, object] of items) {
      const { namespace, name } = object.metadata;
      if (namespace === undefined) continue;
      const kept = this.#kept.get(key) ?? this.#keep(key, { namespace, name });
      kept.loop.trigger("tunnel");
    }
  }

  #keep(key: string, tunnel: TunnelName): Kept {
    const { clock, random, log } = this.#parts;
    const run = (): Promise<RunResult> => this.#counted(() => this.#pass(key, tunnel));
    const loop = new WorkLoop({ name: `tunnel ${key}`, run, clock, random, log });
    const kept: Kept = { loop, shoot: null };
    this.#kept.set(key, kept);
    return kept;
  }

  async #counted(pass: () => Promise<RunResult>): Promise<RunResult> {
    try {
      const result = await pass();
      this.#parts.onPass?.(result);
      return result;
    } catch (error) {
      if (isHostError(error)) this.#parts.onPass?.({ kind: "retry", problem: error.message });
      throw error;
    }
  }

  async #pass(key: string, tunnel: TunnelName): Promise<RunResult> {
    const object = this.#tunnels.items?.get(key);
    const kept = this.#kept.get(key);
    const leases = this.#leases.items;
    if (object === undefined || kept === undefined) return { kind: "reached" };
    const missing = this.#maps?.missing() ?? this.#policies?.missing() ?? null;
    if (leases === null || missing !== null) {
      return { kind: "retry", problem: this.problem() ?? "the seed's Leases are not listed yet" };
    }
    const shoot = (): Shoot => {
      kept.shoot ??= new Shoot(this.#parts.openShoot(tunnel), (what) => {
        kept.loop.trigger(what);
      });
      return kept.shoot;
    };
    const { policies: _settings, ...given } = this.#parts;
    const parts = {
      ...given,
      ...(this.#maps && { maps: this.#maps }),
      ...(this.#policies && { policies: this.#policies }),
    };
    return await passTunnel(parts, { object, leases: [...leases.values()], shoot });
  }

  async #forget(key: string): Promise<void> {
    const kept = this.#kept.get(key);
    this.#kept.delete(key);
    await kept?.loop.stop();
    kept?.shoot?.close();
  }
}

const keeperOf = (parts: ControllerParts, onChange: () => void): PolicyKeeper | null => {
  const { seed: kube, log, namespace, policies = null } = parts;
  if (policies === null) return null;
  return new PolicyKeeper({ kube, settings: policies, log, namespace, onChange });
};

/** Comes again now and then: a replica of before may have put a policy back just before it ended. */
const LEFT_POLICIES_RESYNC_MS = 10 * 60_000;

const loopOfLeftPolicies = (parts: ControllerParts): WorkLoop => {
  const { seed: kube, log, clock, random, namespace, tunnel } = parts;
  return new WorkLoop({
    name: "policies that are left",
    run: () => removeLeftPolicies({ kube, log }, { namespace, tunnel }),
    clock,
    random,
    log,
    resyncMs: LEFT_POLICIES_RESYNC_MS,
  });
};
