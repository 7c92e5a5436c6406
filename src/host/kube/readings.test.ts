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

void t.test(
  "what arrived is read when it is among the items, whatever came in between",
  async (t) => {
    const { parse } = textReader();
    const readings = new Readings("Node", parse);
    const arrive = (name: string, spec: string, version: number): KubeObject =>
      readings.prune(node(name, spec, version));
    const items = new Map([["a", arrive("a", "one", 1)]]);
    t.equal(readings.update(items), true);
    // The first page of a new list has come, the list is not taken yet; news of another object is told meanwhile.
    const a2 = arrive("a", "new", 5);
    const c = arrive("c", "late", 5);
    items.set("b", arrive("b", "two", 4));
    t.equal(readings.update(items), true);
    t.same(readings.values, ["one", "two"]);
    items.set("a", a2);
    items.set("c", c);
    t.equal(readings.update(items), true);
    t.same(readings.values, ["new", "two", "late"]);
    // A repetition of an older version is refused by the store, after a newer one was taken.
    items.set("b", arrive("b", "three", 9));
    arrive("b", "two", 8);
    t.equal(readings.update(items), true);
    t.same(readings.values, ["new", "three", "late"]);
    // One goes and another comes: the count is the same.
    items.delete("a");
    items.set("d", arrive("d", "four", 10));
    t.equal(readings.update(items), true);
    t.same(readings.values, ["three", "late", "four"]);
    t.equal(readings.update(items), false);
  },
);

void t.test("a heartbeat among 1,000 nodes looks at one of them", async (t) => {
  const { parse } = textReader();
  const readings = new Readings("Node", parse);
  const items = new Map<string, KubeObject>();
  for (let n = 0; n < 1000; n += 1) items.set(`n${n}`, readings.prune(node(`n${n}`, "one", 1)));
  readings.update(items);
  let asked = 0;
  const counted = new Proxy(items, {
    get: (target, property) => {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        asked += property === "get" ? 1 : 1000;
        return Reflect.apply(value, target, args) as unknown;
      };
    },
  });
  items.set("n7", readings.prune(node("n7", "one", 2)));
  t.equal(readings.update(counted), false);
  t.ok(asked <= 2, `asked ${asked} times`);
});
