/** An API server in memory behind the Kube port: versions, conflicts, status apart, reflectors; for tests without a network. */

import { isDeepStrictEqual } from "node:util";
import type { Clock } from "#src/ports/clock.ts";
import type {
  Kube,
  KubeErrorCode,
  KubeListOptions,
  KubeName,
  KubeObject,
  KubeResource,
  ReflectOptions,
  Reflector,
} from "#src/ports/kube.ts";
import { describeObject, objectKey } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import { KubeError } from "./kube-failure.ts";
import { mergePatch } from "./merge-patch.ts";
import { pruneManagedFields } from "./object-store.ts";
import { SourceReflector } from "./reflector.ts";
import type { ReflectorSource } from "./reflector.ts";
import { matchesSelectors } from "./selector.ts";
import type { WatchEvent } from "./watch-stream.ts";

export type FakeVerb =
  | "get"
  | "list"
  | "watch"
  | "create"
  | "replace"
  | "replaceStatus"
  | "patch"
  | "patchStatus"
  | "delete";

export interface FakeCall {
  readonly verb: FakeVerb;
  /** `Lease ns/name` or, for lists and watches, the kind. */
  readonly object: string;
}

interface Stored {
  readonly resource: KubeResource;
  readonly object: KubeObject;
}

interface Watcher {
  readonly resource: KubeResource;
  readonly options: KubeListOptions;
  readonly onEvent: (event: WatchEvent) => void;
  readonly end: (error: KubeError | null) => void;
}

/** The bytes of kubernetes' own limit on an object in etcd. */
const OBJECT_BYTES_MAX = 1_572_864;

const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/u;

export class FakeKube implements Kube {
  /** Every call in order. */
  readonly calls: FakeCall[] = [];
  /** Writes that really changed something, in order. */
  readonly writes: FakeCall[] = [];
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #stored = new Map<string, Stored>();
  /** Version of the last change of each kind. */
  readonly #changed = new Map<string, number>();
  readonly #watchers = new Set<Watcher>();
  readonly #reflectors = new Set<SourceReflector>();
  readonly #failures: { readonly verb: FakeVerb | "any"; readonly error: KubeErrorCode }[] = [];
  #version = 100;
  #uids = 0;
  #outage: KubeErrorCode | null = null;
  readonly #apart: <T>(object: T) => T;
  readonly #checkSize: typeof checkSize;

  /**
   * `isFrozen`: hands out what is stored, which nobody can change, instead of copies, and bounds no sizes: much cheaper
   * where millions of calls are made.
   */
  constructor(options: { readonly clock: Clock; readonly log: Log; readonly isFrozen?: boolean }) {
    this.#clock = options.clock;
    this.#log = options.log;
    const isFrozen = options.isFrozen === true;
    this.#apart = isFrozen ? frozen : structuredClone;
    this.#checkSize = isFrozen ? () => undefined : checkSize;
  }

  /** The next call of this verb fails. */
  failNext(verb: FakeVerb | "any", error: KubeErrorCode): void {
    this.#failures.push({ verb, error });
  }

  /** Every call fails and every watch breaks until `recover`. */
  breakDown(error: KubeErrorCode = "unreachable"): void {
    this.#outage = error;
    for (const watcher of this.#watchers) watcher.end(new KubeError(error, "fake: outage"));
    this.#watchers.clear();
  }

  recover(): void {
    this.#outage = null;
  }

  /** Puts objects there as if somebody else had; answers what the server made of the last. */
  seed(resource: KubeResource, ...objects: readonly KubeObject[]): void {
    for (const object of objects) this.#insert(resource, object);
  }

  /** What is stored, without a call; null: absent. */
  peek(resource: KubeResource, name: KubeName): KubeObject | null {
    return this.#stored.get(storeKey(resource, name))?.object ?? null;
  }

  /** All stored objects of a kind, without a call. */
  peekAll(resource: KubeResource): readonly KubeObject[] {
    return this.#select(resource, {});
  }

  async get(resource: KubeResource, name: KubeName): Promise<KubeObject> {
    await this.#admit("get", describeObject(resource, name));
    return this.#apart(this.#find(resource, name).object);
  }

  async list(
    resource: KubeResource,
    options: KubeListOptions = {},
  ): Promise<readonly KubeObject[]> {
    await this.#admit("list", resource.kind);
    return this.#apart(this.#select(resource, options));
  }

  async create(resource: KubeResource, object: KubeObject): Promise<KubeObject> {
    const what = describeObject(resource, object.metadata);
    await this.#admit("create", what);
    this.#checkScope(resource, object.metadata);
    if (object.metadata.resourceVersion !== undefined) {
      throw new KubeError("invalid", `fake: create ${what}: resourceVersion must not be set`);
    }
    if (this.#stored.has(storeKey(resource, object.metadata))) {
      throw new KubeError("already-exists", `fake: create ${what}: it exists already`);
    }
    this.writes.push({ verb: "create", object: what });
    return this.#apart(this.#insert(resource, object));
  }

  replace(resource: KubeResource, object: KubeObject): Promise<KubeObject> {
    return this.#update("replace", resource, object.metadata, (held) => withStatusOf(object, held));
  }

  replaceStatus(resource: KubeResource, object: KubeObject): Promise<KubeObject> {
    return this.#update("replaceStatus", resource, object.metadata, (held) => ({
      ...held,
      metadata: { ...held.metadata, ...versionOf(object) },
      status: object["status"],
    }));
  }

  patch(resource: KubeResource, name: KubeName, patch: object): Promise<KubeObject> {
    return this.#update("patch", resource, name, (held) =>
      withStatusOf(patched(held, patch), held),
    );
  }

  patchStatus(resource: KubeResource, name: KubeName, patch: object): Promise<KubeObject> {
    return this.#update("patchStatus", resource, name, (held) => {
      const next = patched(held, patch);
      return {
        ...held,
        metadata: { ...held.metadata, ...versionOf(next) },
        status: next["status"],
      };
    });
  }

  async delete(
    resource: KubeResource,
    name: KubeName,
    options: { uid?: string; resourceVersion?: string } = {},
  ): Promise<void> {
    const what = describeObject(resource, name);
    await this.#admit("delete", what);
    const held = this.#stored.get(storeKey(resource, name));
    if (held === undefined) return;
    const { uid, resourceVersion } = held.object.metadata;
    if (
      (options.uid !== undefined && options.uid !== uid) ||
      (options.resourceVersion !== undefined && options.resourceVersion !== resourceVersion)
    ) {
      throw new KubeError("conflict", `fake: delete ${what}: a precondition failed`);
    }
    if (finalizersOf(held.object).length > 0) {
      if (held.object.metadata.deletionTimestamp !== undefined) return;
      this.writes.push({ verb: "delete", object: what });
      this.#version += 1;
      const deletionTimestamp = this.#timestamp();
      const resourceVersion = String(this.#version);
      const metadata = { ...held.object.metadata, deletionTimestamp, resourceVersion };
      const object = { ...held.object, metadata };
      this.#stored.set(storeKey(resource, name), { resource, object });
      this.#tell(resource, { kind: "upsert", object }, held.object);
      return;
    }
    this.writes.push({ verb: "delete", object: what });
    this.#remove(resource, held.object);
  }

  reflect(resource: KubeResource, options: ReflectOptions): Reflector {
    const reflector = new SourceReflector({
      source: this.#source(resource, options),
      clock: this.#clock,
      // The middle of every jitter: tests are repeatable, and retries do wait.
      random: { unit: () => 0.5, bytes: (count) => new Uint8Array(count) },
      log: this.#log,
      subject: resource.plural,
      onChange: options.onChange,
      ...(options.onRemove === undefined ? {} : { onRemove: options.onRemove }),
      ...(options.prune === undefined ? {} : { prune: options.prune }),
    });
    this.#reflectors.add(reflector);
    return reflector.start();
  }

  close(): void {
    for (const reflector of this.#reflectors) reflector.stop();
    this.#reflectors.clear();
  }

  #source(resource: KubeResource, options: KubeListOptions): ReflectorSource {
    return {
      page: async () => {
        await this.#admit("list", resource.kind);
        const items = this.#apart(this.#select(resource, options));
        return { items, resourceVersion: String(this.#version), next: null };
      },
      watch: async (from, handlers, signal) => {
        await this.#admit("watch", resource.kind);
        if (from.resourceVersion !== String(this.#version) && this.#missed(resource, from)) {
          throw new KubeError("gone", "fake: too old resource version");
        }
        await new Promise<void>((resolve, reject) => {
          const watcher: Watcher = {
            resource,
            options,
            onEvent: handlers.onEvent,
            end: (error) => {
              this.#watchers.delete(watcher);
              if (error === null) resolve();
              else reject(error);
            },
          };
          this.#watchers.add(watcher);
          signal.addEventListener("abort", () => {
            watcher.end(null);
          });
          handlers.onOpen();
        });
      },
    };
  }

  /** The fake keeps no history: a watch that would have to replay something is told to list anew. */
  #missed(resource: KubeResource, from: { readonly resourceVersion: string }): boolean {
    const since = Number(from.resourceVersion);
    return (this.#changed.get(resource.plural) ?? 0) > since;
  }

  async #admit(verb: FakeVerb, object: string): Promise<void> {
    this.calls.push({ verb, object });
    await Promise.resolve();
    if (this.#outage !== null) throw new KubeError(this.#outage, `fake: ${verb} ${object}: outage`);
    const index = this.#failures.findIndex((f) => f.verb === verb || f.verb === "any");
    const failure = this.#failures[index];
    if (failure === undefined) return;
    this.#failures.splice(index, 1);
    throw new KubeError(failure.error, `fake: ${verb} ${object}: told to fail`);
  }

  async #update(
    verb: FakeVerb,
    resource: KubeResource,
    name: KubeName,
    change: (held: KubeObject) => KubeObject,
  ): Promise<KubeObject> {
    const what = describeObject(resource, name);
    await this.#admit(verb, what);
    const held = this.#find(resource, name).object;
    const wanted = this.#apart(change(held));
    const version = wanted.metadata.resourceVersion;
    if (version !== undefined && version !== held.metadata.resourceVersion) {
      throw new KubeError("conflict", `fake: ${verb} ${what}: the object has been modified`);
    }
    this.#checkSize(what, wanted);
    const isStatus = verb === "replaceStatus" || verb === "patchStatus";
    const { uid, creationTimestamp, deletionTimestamp, generation } = held.metadata;
    const { resourceVersion } = held.metadata;
    const kept = { uid, creationTimestamp, deletionTimestamp, generation, resourceVersion };
    const next: KubeObject = {
      ...wanted,
      metadata: { ...wanted.metadata, ...definedOnly(kept) },
    };
    if (isDeepStrictEqual(next, held)) return this.#apart(held);
    const hasNewSpec = !isStatus && !isDeepStrictEqual(next["spec"], held["spec"]);
    this.#version += 1;
    const metadata = {
      ...next.metadata,
      resourceVersion: String(this.#version),
      ...(hasNewSpec && generation !== undefined ? { generation: generation + 1 } : {}),
    };
    const stored = { ...next, metadata };
    this.writes.push({ verb, object: what });
    // The last finalizer is gone: so is the object.
    if (deletionTimestamp !== undefined && finalizersOf(stored).length === 0) {
      this.#remove(resource, stored);
      return this.#apart(stored);
    }
    this.#stored.set(storeKey(resource, name), { resource, object: stored });
    this.#tell(resource, { kind: "upsert", object: stored }, held);
    return this.#apart(stored);
  }

  #remove(resource: KubeResource, object: KubeObject): void {
    this.#stored.delete(storeKey(resource, object.metadata));
    this.#version += 1;
    const metadata = { ...object.metadata, resourceVersion: String(this.#version) };
    this.#tell(resource, { kind: "delete", object: { ...object, metadata } }, object);
  }

  #timestamp(): string {
    return new Date(this.#clock.wallMs()).toISOString().replace(/\.\d+/u, "");
  }

  #insert(resource: KubeResource, object: KubeObject): KubeObject {
    const what = describeObject(resource, object.metadata);
    this.#checkSize(what, object);
    this.#version += 1;
    this.#uids += 1;
    const stored: KubeObject = {
      ...this.#apart(object),
      apiVersion:
        resource.group === "" ? resource.version : `${resource.group}/${resource.version}`,
      kind: resource.kind,
      metadata: {
        creationTimestamp: this.#timestamp(),
        ...(object["spec"] === undefined ? {} : { generation: 1 }),
        uid: `00000000-0000-4000-8000-${String(this.#uids).padStart(12, "0")}`,
        ...this.#apart(object.metadata),
        resourceVersion: String(this.#version),
      },
    };
    this.#stored.set(storeKey(resource, object.metadata), { resource, object: stored });
    this.#tell(resource, { kind: "upsert", object: stored }, null);
    return stored;
  }

  #checkScope(resource: KubeResource, name: KubeName): void {
    if (resource.isNamespaced !== (name.namespace !== undefined) || !NAME.test(name.name)) {
      const what = describeObject(resource, name);
      throw new KubeError("invalid", `fake: create ${what}: a wrong name or namespace`);
    }
  }

  #find(resource: KubeResource, name: KubeName): Stored {
    const stored = this.#stored.get(storeKey(resource, name));
    if (stored !== undefined) return stored;
    throw new KubeError("not-found", `fake: ${describeObject(resource, name)} not found`);
  }

  #select(resource: KubeResource, options: KubeListOptions): readonly KubeObject[] {
    return [...this.#stored.values()]
      .filter((s) => s.resource.plural === resource.plural && s.resource.group === resource.group)
      .filter((s) => matchesSelectors(s.object, options))
      .map((s) => pruneManagedFields(s.object))
      .toSorted((a, b) => (objectKey(a.metadata) < objectKey(b.metadata) ? -1 : 1));
  }

  /** An object that leaves a selector is deleted for that watcher, as on a real server. */
  #tell(
    resource: KubeResource,
    event: WatchEvent & { kind: "upsert" | "delete" },
    before: KubeObject | null,
  ): void {
    this.#changed.set(resource.plural, this.#version);
    for (const watcher of this.#watchers) {
      if (watcher.resource.plural !== resource.plural) continue;
      const matches = matchesSelectors(event.object, watcher.options);
      const matched = before !== null && matchesSelectors(before, watcher.options);
      const object = this.#apart(event.object);
      if (matches) watcher.onEvent({ kind: event.kind, object });
      else if (matched) watcher.onEvent({ kind: "delete", object });
    }
  }
}

/** Freezes plain data through and through. */
const frozen = <T>(value: T): T => {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const part of Object.values(value)) frozen(part);
  return value;
};

const storeKey = (resource: KubeResource, name: KubeName): string =>
  `${resource.group}/${resource.plural}/${objectKey(name)}`;

const versionOf = (object: KubeObject): { resourceVersion?: string } =>
  object.metadata.resourceVersion === undefined
    ? {}
    : { resourceVersion: object.metadata.resourceVersion };

const withStatusOf = (object: KubeObject, held: KubeObject): KubeObject => {
  const { status: _, ...rest } = object;
  return held["status"] === undefined ? rest : { ...rest, status: held["status"] };
};

const finalizersOf = (object: KubeObject): readonly unknown[] => {
  const finalizers = object.metadata["finalizers"];
  return Array.isArray(finalizers) ? finalizers : [];
};

const definedOnly = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

const patched = (held: KubeObject, patch: object): KubeObject => {
  const { resourceVersion: _, ...metadata } = held.metadata;
  const merged = mergePatch({ ...held, metadata }, patch);
  return { ...merged, metadata: { ...Object(merged["metadata"]), name: held.metadata.name } };
};

const checkSize = (what: string, object: KubeObject): void => {
  if (JSON.stringify(object).length > OBJECT_BYTES_MAX) {
    throw new KubeError("invalid", `fake: ${what}: the object is too large`);
  }
};
