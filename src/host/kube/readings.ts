/** Reads a reflector's objects into the model: what is good is kept, what is not is reported, what is equal is no news. */

import type { Finding } from "#src/model/finding.ts";
import type { Parsed } from "#src/model/parsed.ts";
import type { KubeObject, Reflector } from "#src/ports/kube.ts";
import { objectKey } from "#src/ports/kube-resource.ts";
import { isNotNewer, type Prune, pruneToIdentity } from "./object-store.ts";

/** Arrivals that are remembered at most; with more, all items are looked at from then on. */
const NEWS_MAX = 100_000;

interface Known<T> {
  /** The object that was read; a reflector replaces an object, it never changes one. */
  readonly object: KubeObject;
  readonly read: Parsed<T>;
}

/**
 * The facts of one kind. A Node's heartbeat costs one parse and is no change: 1,000 nodes send three a second, so that
 * nothing is made anew for the objects that stayed, nor are they looked at.
 */
export class Readings<T> {
  readonly #kind: string;
  readonly #parse: (object: unknown) => Parsed<T>;
  /** What objects said that have arrived since the last update. */
  readonly #arrived = new WeakMap<KubeObject, Parsed<T>>();
  /** What has arrived and was not seen among the items yet, by name; null: nobody tells of arrivals. */
  #news: Map<string, KubeObject> | null = null;
  readonly #known = new Map<string, Known<T>>();
  #values: readonly T[] = [];
  #findings: readonly Finding[] = [];
  #isListed = false;

  constructor(kind: string, parse: (object: unknown) => Parsed<T>) {
    this.#kind = kind;
    this.#parse = parse;
  }

  /**
   * For a reflector whose items nobody else reads: an object is read when it arrives, and only who it is and how old is
   * kept besides its facts. Otherwise a thousand nodes are held twice, as objects and as facts.
   */
  readonly prune: Prune = (object) => {
    const kept = pruneToIdentity(object);
    this.#arrived.set(kept, this.#parse(object));
    this.#news ??= new Map();
    if (this.#news.size <= NEWS_MAX) this.#news.set(objectKey(kept.metadata), kept);
    return kept;
  };

  get values(): readonly T[] {
    return this.#values;
  }

  /** One for each object that can't be read; it never hides the others. */
  get findings(): readonly Finding[] {
    return this.#findings;
  }

  /** Takes over the items (null: not listed yet) and says whether any fact differs; the first list is a change. */
  update(items: ReadonlyMap<string, KubeObject> | null): boolean {
    if (items === null) return false;
    let isChanged = !this.#isListed;
    this.#isListed = true;
    for (const name of this.#namesToRead(items)) {
      const object = items.get(name);
      const before = this.#known.get(name);
      if (object === undefined || before?.object === object) continue;
      const read = this.#read(object);
      const isSame = before !== undefined && JSON.stringify(before.read) === JSON.stringify(read);
      this.#known.set(name, { object, read: isSame ? before.read : read });
      isChanged ||= !isSame;
    }
    // What is known has all that is there by now; equal sizes mean that nothing else is known.
    if (this.#known.size > items.size) {
      isChanged = true;
      for (const name of this.#known.keys()) if (!items.has(name)) this.#known.delete(name);
    }
    if (isChanged) this.#collect(items);
    return isChanged;
  }

  /** Of a list that comes in pages, what has arrived may not be among the items yet: it stays news. */
  #namesToRead(items: ReadonlyMap<string, KubeObject>): Iterable<string> {
    if (this.#news === null || this.#news.size > NEWS_MAX) return items.keys();
    const names = [...this.#news.keys()];
    for (const [name, { metadata }] of this.#news) {
      const held = items.get(name)?.metadata;
      if (held !== undefined && isNotNewer(metadata.resourceVersion, held.resourceVersion))
        this.#news.delete(name);
    }
    return names;
  }

  #read(object: KubeObject): Parsed<T> {
    const read = this.#arrived.get(object) ?? this.#parse(object);
    this.#arrived.delete(object);
    return read;
  }

  /** In the order of the items. */
  #collect(items: ReadonlyMap<string, KubeObject>): void {
    const values: T[] = [];
    const findings: Finding[] = [];
    for (const name of items.keys()) {
      const read = this.#known.get(name)?.read;
      if (read === undefined) continue;
      if (read.ok) values.push(read.value);
      else
        findings.push({
          code: "unreadable",
          object: `${this.#kind} ${name}`,
          message: read.problem,
        });
    }
    this.#values = values;
    this.#findings = findings;
  }
}

/** Null once every reflector has listed; else a sentence with the reason of the first that has not. */
export const whatIsMissing = (server: string, reflectors: readonly Reflector[]): string | null => {
  const waiting = reflectors.find((reflector) => reflector.items === null);
  if (waiting === undefined) return null;
  const { state } = waiting;
  return state.kind === "stale" ? state.problem : `${server} has not answered yet`;
};

/** Says that a server which was listed once can't be heard any more: what is known of it still holds, but may be old. */
export const whatIsStale = (
  server: string,
  reflectors: readonly Reflector[],
): readonly Finding[] => {
  for (const { items, state } of reflectors) {
    if (items === null || state.kind !== "stale") continue;
    const message = `what is known of ${server} may be old, and the tunnel stays as it is until it answers: ${state.problem}`;
    return [{ code: "stale", object: server, message }];
  }
  return [];
};
