/** Reads a reflector's objects into the model, keeping what is good and reporting what is not. */

import type { Finding } from "#src/model/finding.ts";
import type { Parsed } from "#src/model/parsed.ts";
import type { KubeObject, Reflector } from "#src/ports/kube.ts";

export interface Readings<T> {
  readonly values: readonly T[];
  readonly findings: readonly Finding[];
}

/** What was read of an object that the reflector has not replaced since: a Node's heartbeat is one parse, not 5,000. */
const known = new WeakMap<KubeObject, Parsed<unknown>>();

/** One hostile or broken object never hides the others. Null items (not listed yet) read as none. */
export const readAll = <T>(
  items: ReadonlyMap<string, KubeObject> | null,
  kind: string,
  parse: (object: unknown) => Parsed<T>,
): Readings<T> => {
  const values: T[] = [];
  const findings: Finding[] = [];
  for (const [name, object] of items ?? []) {
    const read = (known.get(object) as Parsed<T> | undefined) ?? parse(object);
    known.set(object, read);
    if (read.ok) values.push(read.value);
    else findings.push({ code: "unreadable", object: `${kind} ${name}`, message: read.problem });
  }
  return { values, findings };
};

/** Null once every reflector has listed; else a sentence with the reason of the first that has not. */
export const whatIsMissing = (server: string, reflectors: readonly Reflector[]): string | null => {
  const waiting = reflectors.find((reflector) => reflector.items === null);
  if (waiting === undefined) return null;
  const { state } = waiting;
  return state.kind === "stale" ? state.problem : `${server} has not answered yet`;
};
