/** Keeps the webhook's certificates: shared by replicas through a Secret, announced in caBundles, renewed by themselves. */

import { isDeepStrictEqual } from "node:util";
import { parseRotationSecret, rotationData } from "#src/codec/webhook-certificates-codec.ts";
import { whatIsMissing } from "#src/host/kube/readings.ts";
import { isSound, makeGeneration } from "#src/host/webhook/certificate-maker.ts";
import {
  type CertificateGeneration,
  type CertificateRotation,
  generationsOf,
} from "#src/model/webhook-certificates.ts";
import {
  bundleOf,
  OVERLAP_MS,
  servingOf,
  stepCertificates,
  VALID_MS,
  withGeneration,
} from "#src/plan/injection/certificate-rotation.ts";
import type { Clock } from "#src/ports/clock.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject, KubeResource, Reflector } from "#src/ports/kube.ts";
import { SECRETS } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import { type RunResult, WorkLoop } from "#src/reconcile/loop.ts";

/** A webhook configuration whose caBundles are ours to write; that it exists is its chart's affair. */
export interface BundleTarget {
  readonly resource: KubeResource;
  readonly name: string;
}

export interface CertificateKeeperParts {
  readonly kube: Kube;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly secret: { readonly namespace: string; readonly name: string };
  /** DNS names that API servers call the webhook by: `<service>.<namespace>.svc`. */
  readonly names: readonly string[];
  readonly targets: readonly BundleTarget[];
  /** Hears of every certificate that is to be served from now on. */
  readonly onServe: (serving: CertificateGeneration) => void;
}

interface Held {
  readonly rotation: CertificateRotation;
  /** The Secret as it was read; null: there is none. */
  readonly object: KubeObject | null;
}

/** A replica that could not look for this long may serve what nobody trusts any more. */
const BLIND_MS_MAX = OVERLAP_MS / 2;

/** Codes that mean: another replica was quicker. */
const LOST_RACE: ReadonlySet<string> = new Set(["conflict", "already-exists"]);

export class CertificateKeeper {
  readonly #parts: CertificateKeeperParts;
  readonly #loop: WorkLoop;
  readonly #reflectors: readonly Reflector[];
  #serving: CertificateGeneration | null = null;
  #phase: CertificateRotation["kind"] = "none";
  #lookedMs: number;
  #known: CertificateRotation | null = null;

  /** Starts at once. */
  constructor(parts: CertificateKeeperParts) {
    this.#parts = parts;
    const { kube, clock, random, log, secret, targets } = parts;
    this.#lookedMs = clock.nowMs();
    this.#loop = new WorkLoop({
      name: "certificates",
      run: () => this.#pass(),
      clock,
      random,
      log,
    });
    const onChange = (): void => void this.#loop.trigger("changed");
    this.#reflectors = [
      kube.reflect(SECRETS, {
        namespace: secret.namespace,
        fieldSelector: `metadata.name=${secret.name}`,
        onChange,
      }),
      ...targets.map(({ resource, name }) =>
        kube.reflect(resource, { fieldSelector: `metadata.name=${name}`, onChange }),
      ),
    ];
    this.#loop.trigger("start");
  }

  /** What is served now; null: nothing yet. */
  get serving(): CertificateGeneration | null {
    return this.#serving;
  }

  /** Null: what is served is what API servers trust; else why that is not sure. */
  problem(): string | null {
    if (this.#serving === null) {
      const result = this.#loop.lastResult;
      const missing = whatIsMissing("the seed's API server", this.#reflectors);
      return result?.kind === "retry" ? result.problem : (missing ?? "there is no certificate yet");
    }
    if (this.#parts.clock.wallMs() >= this.#serving.notAfterMs) {
      return "the webhook's certificate has expired and could not be renewed";
    }
    const blindMs = this.#parts.clock.nowMs() - this.#lookedMs;
    return blindMs < BLIND_MS_MAX
      ? null
      : `the webhook's Secret could not be read for ${Math.round(blindMs / 60_000)} minutes: the certificate may have been replaced meanwhile`;
  }

  /** For people; no key in it. */
  status(): object {
    const serving = this.#serving;
    return {
      phase: this.#phase,
      names: serving?.names ?? [],
      expires: serving === null ? null : new Date(serving.notAfterMs).toISOString(),
      problem: this.problem(),
    };
  }

  /** Runs a pass now and waits for it; for tests and for a start that needs the first certificate. */
  async settle(): Promise<void> {
    await this.#loop.settled(this.#loop.trigger("settle"));
  }

  async stop(): Promise<void> {
    for (const reflector of this.#reflectors) reflector.stop();
    await this.#loop.stop();
  }

  /**
   * The configurations are read before the Secret: whoever changed either meanwhile makes our write a conflict, so that
   * an old view of the rotation never takes an authority away.
   */
  async #pass(): Promise<RunResult> {
    const { clock, names, log } = this.#parts;
    const configurations = await this.#configurations();
    const held = await this.#held();
    this.#lookedMs = clock.nowMs();
    const bundle = bundleOf(held.rotation);
    const effect = stepCertificates(
      held.rotation,
      {
        names,
        isBundlePublished: configurations.every(({ object }) => hasBundle(object, bundle)),
        held: this.#serving,
      },
      this.#wallMs(),
    );
    if (effect.kind === "wait") {
      this.#serve(held.rotation);
      return await this.#publish(configurations, held.rotation);
    }
    const next =
      effect.kind === "save" ? effect.rotation : this.#withNew(held.rotation, effect.names);
    if (await this.#isSaved(held, next)) {
      log.info({ from: held.rotation.kind, to: next.kind }, `certificates: ${effect.reason}`);
    }
    // Whoever was quicker, what is in the Secret now counts.
    this.#loop.trigger("saved");
    return { kind: "reached" };
  }

  #withNew(rotation: CertificateRotation, names: readonly string[]): CertificateRotation {
    const nowMs = this.#wallMs();
    return withGeneration(rotation, makeGeneration({ names, nowMs, validMs: VALID_MS }), nowMs);
  }

  /** Whole milliseconds, which is what the Secret keeps. */
  #wallMs(): number {
    return Math.floor(this.#parts.clock.wallMs());
  }

  async #held(): Promise<Held> {
    const object = await orNull(this.#parts.kube.get(SECRETS, this.#parts.secret));
    // The chart makes it empty, so that it goes with the release.
    if (object?.["data"] === undefined) return { rotation: { kind: "none" }, object };
    const read = parseRotationSecret(object);
    if (read.ok && generationsOf(read.value).every(isSound))
      return { rotation: read.value, object };
    this.#parts.log.warn(
      { secret: this.#parts.secret.name },
      read.ok ? "a key of the webhook's Secret is not its certificate's: made anew" : read.problem,
    );
    return { rotation: { kind: "none" }, object };
  }

  /** False: another replica was quicker. */
  async #isSaved({ object }: Held, rotation: CertificateRotation): Promise<boolean> {
    const { kube, secret } = this.#parts;
    const labels = { "app.kubernetes.io/managed-by": "xylem" };
    const wanted = { type: "xylem.dev/webhook-certificates", data: rotationData(rotation) };
    try {
      if (object === null)
        await kube.create(SECRETS, { metadata: { ...secret, labels }, ...wanted });
      else await kube.replace(SECRETS, { ...object, data: wanted.data });
      return true;
    } catch (error) {
      if (isHostError(error) && LOST_RACE.has(error.code)) return false;
      throw error;
    }
  }

  #serve(rotation: CertificateRotation): void {
    this.#phase = rotation.kind;
    const serving = servingOf(rotation);
    if (serving === null || isDeepStrictEqual(rotation, this.#known)) return;
    this.#known = rotation;
    if (isDeepStrictEqual(serving, this.#serving)) return;
    this.#serving = serving;
    this.#parts.onServe(serving);
  }

  /** Those that exist; an absent one is not installed, or not any more. */
  async #configurations(): Promise<readonly { resource: KubeResource; object: KubeObject }[]> {
    const found = await Promise.all(
      this.#parts.targets.map(async ({ resource, name }) => ({
        resource,
        object: await orNull(this.#parts.kube.get(resource, { name })),
      })),
    );
    return found.flatMap(({ resource, object }) => (object === null ? [] : { resource, object }));
  }

  async #publish(
    configurations: readonly { readonly resource: KubeResource; readonly object: KubeObject }[],
    rotation: CertificateRotation,
  ): Promise<RunResult> {
    const { kube, log } = this.#parts;
    const bundle = bundleOf(rotation);
    if (bundle === null) return { kind: "reached" };
    for (const { resource, object } of configurations) {
      if (hasBundle(object, bundle)) continue;
      try {
        await kube.replace(resource, withBundle(object, bundle));
        log.info({ configuration: object.metadata.name, phase: rotation.kind }, "caBundle written");
      } catch (error) {
        // Gone: uninstalled meanwhile.
        if (!isHostError(error) || (!LOST_RACE.has(error.code) && error.code !== "not-found")) {
          throw error;
        }
      }
      this.#loop.trigger("published");
    }
    return { kind: "reached" };
  }
}

const orNull = async (asked: Promise<KubeObject>): Promise<KubeObject | null> => {
  try {
    return await asked;
  } catch (error) {
    if (isHostError(error) && error.code === "not-found") return null;
    throw error;
  }
};

const webhooksOf = (configuration: KubeObject): readonly Record<string, unknown>[] => {
  const { webhooks } = configuration;
  return Array.isArray(webhooks) ? webhooks : [];
};

const hasBundle = (configuration: KubeObject, bundle: string | null): boolean =>
  webhooksOf(configuration).every(
    ({ clientConfig }) => Object(clientConfig)["caBundle"] === encoded(bundle ?? ""),
  );

const withBundle = (configuration: KubeObject, bundle: string): KubeObject => ({
  ...configuration,
  webhooks: webhooksOf(configuration).map((webhook) => ({
    ...webhook,
    clientConfig: { ...Object(webhook["clientConfig"]), caBundle: encoded(bundle) },
  })),
});

const encoded = (bundle: string): string => Buffer.from(bundle).toString("base64");
