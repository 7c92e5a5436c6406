import t from "tap";
import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import type { KubeObject, Reflector, ReflectorState } from "#src/ports/kube.ts";
import { Readings, whatIsMissing, whatIsStale } from "./readings.ts";

const node = (name: string, spec: unknown, heartbeat = 1): KubeObject => ({
  metadata: { name, resourceVersion: `${heartbeat}` },
  spec,
  status: { heartbeat },
});

/** Reads `spec` when it is a text; counts how often it was asked. */
const textReader = (): { parse: (object: unknown) => Parsed<string>; asked: () => number } => {
  let asked = 0;
  return {
    parse: (object) => {
      asked += 1;
      const { spec } = object as { spec: unknown };
      return typeof spec === "string" ? parsed(spec) : problem("spec is no text");
    },
    asked: () => asked,
  };
};

void t.test("a heartbeat is parsed and is no change", async (t) => {
  const { parse, asked } = textReader();
  const readings = new Readings("Node", parse);
  const steady = node("b", "two");
  t.equal(
    readings.update(
      new Map([
        ["a", node("a", "one", 1)],
        ["b", steady],
      ]),
    ),
    true,
    "the first look is a change",
  );
  t.equal(
    readings.update(
      new Map([
        ["a", node("a", "one", 2)],
        ["b", steady],
      ]),
    ),
    false,
  );
  t.equal(asked(), 3, "only the object that was replaced is read again");
  t.same(readings.values, ["one", "two"]);
});

void t.test("a new fact, a new object and a lost object are changes", async (t) => {
  const readings = new Readings("Node", textReader().parse);
  readings.update(new Map([["a", node("a", "one")]]));
  t.equal(readings.update(new Map([["a", node("a", "other")]])), true);
  t.equal(readings.update(new Map([["b", node("b", "other")]])), true, "same count, another name");
  t.same(readings.values, ["other"]);
  t.equal(readings.update(new Map()), true);
  t.same(readings.values, []);
});

void t.test("S2 an object that can't be read is reported by name and hides no other", async (t) => {
  const readings = new Readings("Node", textReader().parse);
  readings.update(
    new Map([
      ["bad", node("bad", 7)],
      ["good", node("good", "one")],
    ]),
  );
  t.same(readings.values, ["one"]);
  t.same(readings.findings, [
    { code: "unreadable", object: "Node bad", message: "spec is no text" },
  ]);
});

void t.test("nothing listed yet is no change, an empty first list is one", async (t) => {
  const readings = new Readings("Node", textReader().parse);
  t.equal(readings.update(null), false);
  t.same(readings.values, []);
  t.equal(readings.update(new Map()), true);
  t.equal(readings.update(new Map()), false);
});

void t.test(
  "a server that fails before its first list is missing, after it only stale",
  async (t) => {
    const stale = { kind: "stale", sinceMs: 1, problem: "https://a: list nodes: refused" } as const;
    const silent = reflectorIn({ kind: "starting" }, null);
    const live = reflectorIn({ kind: "live" }, new Map());
    t.equal(whatIsMissing("the seed", [live, silent]), "the seed has not answered yet");
    t.equal(whatIsMissing("the seed", [live, reflectorIn(stale, null)]), stale.problem);
    t.same(whatIsStale("the seed", [live, silent, reflectorIn(stale, null)]), []);
    const heardBefore = reflectorIn(stale, new Map());
    t.equal(whatIsMissing("the seed", [live, heardBefore]), null);
    t.match(whatIsStale("the seed", [live, heardBefore]), [
      {
        code: "stale",
        object: "the seed",
        message: /the seed may be old.*https:\/\/a: list nodes/,
      },
    ]);
  },
);

function reflectorIn(
  state: ReflectorState,
  items: ReadonlyMap<string, KubeObject> | null,
): Reflector {
  return { state, items, synced: () => Promise.resolve(), stop: () => undefined };
}
