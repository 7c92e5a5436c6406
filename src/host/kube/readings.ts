/** Reads a reflector's objects into the model: what is good is kept, what is not is reported, what is equal is no news. */

import type { Finding } from "#src/model/finding.ts";
import type { Parsed } from "#src/model/parsed.ts";
import type { KubeObject, Reflector } from "#src/ports/kube.ts";

interface Known<T> {
  /** The object that was read; a reflector replaces an object, it never changes one. */
  readonly object: KubeObject;
  readonly read: Parsed<T>;
  readonly text: string;
}

/** The facts of one kind. A Node's heartbeat costs one parse and is no change: 1,000 nodes send three a second. */
export class Readings<T> {
  readonly #kind: string;
  readonly #parse: (object: unknown) => Parsed<T>;
  #known: ReadonlyMap<string, Known<T>> = new Map();
  #values: readonly T[] = [];
  #findings: readonly Finding[] = [];
  #isListed = false;

  constructor(kind: string, parse: (object: unknown) => Parsed<T>) {
    this.#kind = kind;
    this.#parse = parse;
  }

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
    const known = new Map<string, Known<T>>();
    let isChanged = !this.#isListed || items.size !== this.#known.size;
    this.#isListed = true;
    for (const [name, object] of items) {
      const before = this.#known.get(name);
      const now = before?.object === object ? before : this.#read(object);
      isChanged ||= before?.text !== now.text;
      known.set(name, now);
    }
    this.#known = known;
    if (isChanged) this.#collect();
    return isChanged;
  }

  #read(object: KubeObject): Known<T> {
    const read = this.#parse(object);
    return { object, read, text: JSON.stringify(read) };
  }

  #collect(): void {
    const values: T[] = [];
    const findings: Finding[] = [];
    for (const [name, { read }] of this.#known) {
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
