/** Catalogue rows K1, K2, T26 and S2: the reflector survives what API servers and networks do to it. */

import fc from "fast-check";
import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { seededRandom } from "#src/host/random.ts";
import type { KubeObject } from "#src/ports/kube.ts";
import { SourceReflector } from "./reflector.ts";
import { ScriptedSource } from "./scripted-source.ts";

const world = (options: { onChange?: () => void; seed?: number; startJitterMs?: number } = {}) => {
  const clock = new FakeClock();
  const log = new FakeLog();
  const source = new ScriptedSource();
  let notices = 0;
  const reflector = new SourceReflector({
    source,
    clock,
    log,
    random: seededRandom(options.seed ?? 1),
    subject: "things",
    onChange: () => {
      notices += 1;
      options.onChange?.();
    },
    startJitterMs: options.startJitterMs ?? 0,
  });
  const names = () => [...(reflector.items?.keys() ?? [])];
  return { clock, log, source, reflector, names, notices: () => notices };
};

const versions = (items: ReadonlyMap<string, KubeObject> | null): string =>
  [...(items ?? [])]
    .map(([name, object]) => `${name}=${object.metadata.resourceVersion}`)
    .toSorted((a, b) => a.localeCompare(b))
    .join(" ");

void t.test("K1 a watch handler that throws is logged, and nothing stops or is lost", async (t) => {
  const { clock, log, source, reflector, names } = world({
    onChange: () => {
      throw new Error("a handler's own fault");
    },
  });
  reflector.start();
  await clock.advance(1);
  source.put("a");
  await clock.advance(1);
  source.put("b");
  await clock.advance(1);
  t.strictSame(names(), ["a", "b"]);
  t.equal(reflector.state.kind, "live");
  t.equal(log.messages("error").length, 3);
  t.equal(source.watches.length, 1);
});

void t.test(
  "K1 a reset connection resumes from the last version, without a new list",
  async (t) => {
    const { clock, source, reflector, names, notices } = world();
    reflector.start();
    await clock.advance(1);
    source.put("a");
    await clock.advance(1);
    source.break("unreachable");
    await clock.advance(0);
    t.match(reflector.state, { kind: "stale", problem: /unreachable/u });
    source.put("b");
    const before = notices();
    await clock.advance(1_000);
    t.strictSame(names(), ["a", "b"]);
    t.equal(reflector.state.kind, "live");
    t.equal(source.lists.length, 1);
    t.strictSame(
      source.watches.map(({ from }) => from),
      ["10", "11"],
    );
    t.equal(notices(), before + 1, "the event came once");
  },
);

void t.test("K1 a stop during the first list gives the call up and leaves nothing", async (t) => {
  const { clock, source, reflector, names } = world();
  source.listFaults.push("stall");
  reflector.start();
  const synced = t.rejects(reflector.synced(), { code: "unreachable", message: /stopped/u });
  await clock.advance(5_000);
  t.equal(reflector.state.kind, "starting");
  reflector.stop();
  reflector.stop();
  await clock.advance(60_000);
  await synced;
  t.equal(reflector.state.kind, "stopped");
  t.strictSame(names(), []);
  t.equal(source.lists.length, 1);
  t.equal(source.watches.length, 0);
  t.equal(clock.pending, 0);
});

void t.test("K1 a second start opens no second watch", async (t) => {
  const { clock, source, reflector } = world();
  reflector.start();
  reflector.start();
  await clock.advance(1);
  reflector.start();
  t.equal(source.lists.length, 1);
  await clock.advance(300_000);
  t.equal(source.openMax, 1);
});

void t.test("K1 a list that fails with 429 waits as long as the server asks", async (t) => {
  const { clock, source, reflector } = world();
  source.listFaults.push({ code: "too-many-requests", retryAfterMs: 7_000 });
  reflector.start();
  await clock.advance(6_900);
  t.equal(source.lists.length, 1);
  t.match(reflector.state, { kind: "stale", problem: /too-many-requests/u });
  await clock.advance(1_200);
  t.equal(source.lists.length, 2);
  t.equal(reflector.state.kind, "live");
});

void t.test("K1 a hostile Retry-After is believed for a minute at most", async (t) => {
  const { clock, source, reflector } = world();
  source.listFaults.push({ code: "too-many-requests", retryAfterMs: 999_999_000 });
  reflector.start();
  await clock.advance(61_100);
  t.equal(reflector.state.kind, "live");
});

void t.test(
  "K1 a list that fails with 5xx is retried with growing, capped, jittered waits",
  async (t) => {
    const { clock, source, reflector } = world();
    source.listFaults.push(
      ...Array.from({ length: 40 }, () => ({ code: "server-error" as const })),
    );
    reflector.start();
    const waitsMs: number[] = [];
    while (reflector.state.kind !== "live") {
      await clock.advance(0);
      const nextMs = clock.nextInMs ?? 0;
      if (reflector.state.kind === "stale") waitsMs.push(nextMs);
      await clock.advance(nextMs);
    }
    t.equal(source.lists.length, 41);
    t.ok(
      waitsMs.slice(0, 3).every((ms, i) => ms <= 1_000 * 2 ** i),
      String(waitsMs.slice(0, 3)),
    );
    t.ok(waitsMs.every((ms) => ms <= 30_000));
    t.ok(
      waitsMs.some((ms) => ms > 20_000),
      "the cap is reached",
    );
    t.equal(new Set(waitsMs).size, waitsMs.length, "no two waits are alike");
  },
);

void t.test("K1 HTTP 410 at a resume lists anew and keeps what did not change", async (t) => {
  const { clock, log, source, reflector, names, notices } = world();
  source.put("a");
  reflector.start();
  await clock.advance(1);
  source.break("unreachable");
  await clock.advance(0);
  source.put("b");
  source.compact();
  await clock.advance(4_000);
  t.strictSame(names(), ["a", "b"]);
  t.equal(source.lists.length, 2);
  t.equal(notices(), 2);
  t.equal(reflector.state.kind, "live");
  t.strictSame(log.messages("warn").length, 1, "an expiry alone is nothing to warn of");
});

void t.test("K1 an in-stream 410 lists anew; objects that went meanwhile are gone", async (t) => {
  const { clock, source, reflector, names } = world();
  source.put("a");
  source.put("b");
  reflector.start();
  await clock.advance(1);
  source.isStalled = true;
  source.drop("a");
  source.isStalled = false;
  source.tell({ kind: "error", code: 410, message: "too old resource version" });
  await clock.advance(1_100);
  t.strictSame(names(), ["b"]);
  t.equal(source.lists.length, 2);
  t.equal(source.openMax, 1);
});

void t.test("K1 a quiet watch is no failure: after 45 s a short check, and no list", async (t) => {
  const { clock, source, reflector } = world();
  reflector.start();
  await clock.advance(44_000);
  t.equal(source.watches.length, 1);
  await clock.advance(2_000);
  t.strictSame(source.watches.at(-1), { from: "10", timeoutSeconds: 5 });
  await clock.advance(4_000);
  source.end();
  await clock.advance(1);
  t.equal(reflector.state.kind, "live");
  t.equal(source.lists.length, 1);
  t.match(source.watches.at(-1), { from: "10" });
  t.ok((source.watches.at(-1)?.timeoutSeconds ?? 0) >= 240);
});

void t.test(
  "K1 a lost bookmark costs a repetition at most, and a repetition tells nobody",
  async (t) => {
    const { clock, source, reflector, names, notices } = world();
    reflector.start();
    await clock.advance(1);
    source.put("a");
    await clock.advance(1);
    const before = notices();
    const held = reflector.items?.get("a");
    if (held !== undefined) source.tell({ kind: "upsert", object: structuredClone(held) });
    await clock.advance(1);
    t.equal(notices(), before);
    t.strictSame(names(), ["a"]);
  },
);

void t.test("K1 a bookmark moves the version that a watch resumes from", async (t) => {
  const { clock, source, reflector } = world();
  reflector.start();
  await clock.advance(1);
  source.bookmark();
  source.compact();
  source.end();
  await clock.advance(2_000);
  source.break();
  await clock.advance(2_000);
  t.equal(source.watches.at(-1)?.from, "11");
  t.equal(source.lists.length, 1);
});

void t.test("K1 a server that ends every watch at once is not asked in a tight loop", async (t) => {
  const { clock, source, reflector } = world();
  reflector.start();
  await clock.advance(0);
  for (let round = 0; round < 600; round += 1) {
    source.end();
    await clock.advance(100);
  }
  const calls = source.watches.length + source.lists.length;
  t.ok(calls < 40, `${calls} calls in a minute`);
});

void t.test("K1 watches that fail again and again lead to a new list", async (t) => {
  const { clock, source, reflector } = world();
  source.watchFaults.push(...Array.from({ length: 3 }, () => ({ code: "server-error" as const })));
  reflector.start();
  await clock.advance(30_000);
  t.equal(source.lists.length, 2);
  t.equal(reflector.state.kind, "live");
});

void t.test("K1 changes of one burst are told once", async (t) => {
  const { clock, source, reflector, notices } = world();
  reflector.start();
  await clock.advance(1);
  const before = notices();
  for (let i = 0; i < 500; i += 1) source.put(`object-${i}`);
  await clock.advance(1);
  t.equal(notices(), before + 1);
  t.equal(reflector.items?.size, 500);
});

void t.test("K1 managedFields are not kept", async (t) => {
  const { clock, source, reflector } = world();
  const metadata = { name: "a", resourceVersion: "10", managedFields: [{ manager: "x" }] };
  source.objects.set("a", { metadata });
  reflector.start();
  await clock.advance(1);
  t.strictSame(reflector.items?.get("a"), { metadata: { name: "a", resourceVersion: "10" } });
});

void t.test(
  "K2 a watch that stalls on a dead connection is noticed within 60 s and no event is lost",
  async (t) => {
    const { clock, source, reflector, names } = world();
    reflector.start();
    await clock.advance(10_000);
    source.isStalled = true;
    source.put("a");
    await clock.advance(30_000);
    t.strictSame(names(), []);
    // A new connection works again: only the old one was dead.
    source.isStalled = false;
    await clock.advance(30_000);
    t.strictSame(names(), ["a"]);
    t.equal(reflector.state.kind, "live");
    t.equal(source.lists.length, 1, "resumed, not listed");
    t.equal(source.openMax, 1);
  },
);

void t.test(
  "K2 a server whose watches stall for 90 minutes is noticed within 60 s and listed anew",
  async (t) => {
    const { clock, log, source, reflector, names } = world();
    reflector.start();
    await clock.advance(1);
    source.isStalled = true;
    source.put("a");
    await clock.advance(60_000);
    t.strictSame(names(), ["a"], "the list tells what the watch did not");
    t.equal(source.lists.length, 2);
    t.match(log.messages("warn"), [/stalled/u]);
    source.put("b");
    await clock.advance(60_000);
    t.strictSame(names(), ["a", "b"]);
    await clock.advance(88 * 60_000);
    t.ok(source.lists.length <= 100, `${source.lists.length} lists in 90 minutes`);
  },
);

void t.test("K2 a server that does not answer a watch at all is stale within 60 s", async (t) => {
  const { clock, source, reflector } = world();
  reflector.start();
  await clock.advance(1);
  source.watchFaults.push("stall");
  await clock.advance(55_010);
  t.match(reflector.state, { kind: "stale", problem: /did not answer/u });
  await clock.advance(30_000);
  t.equal(reflector.state.kind, "live");
});

void t.test(
  "T26 first lists of 5,000 clients that start at once spread over the asked time",
  async (t) => {
    const starts: number[] = [];
    for (let seed = 1; seed <= 200; seed += 1) {
      const { clock, source, reflector } = world({ seed, startJitterMs: 10_000 });
      reflector.start();
      reflector.start();
      let atMs = 0;
      while (source.lists.length === 0) {
        await clock.advance(clock.nextInMs ?? 1);
        atMs = clock.nowMs();
      }
      starts.push(atMs);
      reflector.stop();
    }
    for (let second = 0; second < 10; second += 1) {
      const count = starts.filter((ms) => Math.floor(ms / 1_000) === second).length;
      t.ok(count > 5 && count < 45, `${count} of 200 in second ${second}`);
    }
  },
);

void t.test("S2 a list without an end is refused and the items before stay", async (t) => {
  const { clock, source, reflector, names } = world();
  source.put("a");
  reflector.start();
  await clock.advance(1);
  for (let i = 0; i < 20_001; i += 1) {
    source.objects.set(`n${i}`, { metadata: { name: `n${i}` } });
  }
  source.tell({ kind: "error", code: 410, message: "" });
  await clock.advance(1_100);
  t.match(reflector.state, { kind: "stale", problem: /more than 20000 objects/u });
  t.strictSame(names(), ["a"]);
});

void t.test(
  "K1 whatever happens in whatever order, in the end the copy equals the world",
  async () => {
    const action = fc.oneof(
      fc.record({ kind: fc.constant("put" as const), name: fc.constantFrom("a", "b", "c", "d") }),
      fc.record({ kind: fc.constant("drop" as const), name: fc.constantFrom("a", "b", "c", "d") }),
      fc.record({
        kind: fc.constantFrom(
          "break" as const,
          "end" as const,
          "compact" as const,
          "bookmark" as const,
          "stall" as const,
          "gone" as const,
          "fail list" as const,
          "fail watch" as const,
        ),
        name: fc.constant(""),
      }),
      fc.record({
        kind: fc.constant("wait" as const),
        name: fc.constantFrom("10", "900", "50000"),
      }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 40 }), fc.nat(), async (actions, seed) => {
        const { clock, source, reflector } = world({ seed });
        source.pageItems = 2;
        reflector.start();
        for (const { kind, name } of actions) {
          switch (kind) {
            case "put":
              source.put(name);
              break;
            case "drop":
              source.drop(name);
              break;
            case "break":
              source.break();
              break;
            case "end":
              source.end();
              break;
            case "compact":
              source.compact();
              break;
            case "bookmark":
              if (!source.isStalled) source.bookmark();
              break;
            case "stall":
              source.isStalled = !source.isStalled;
              break;
            case "gone":
              source.tell({ kind: "error", code: 410, message: "gone" });
              break;
            case "fail list":
              source.listFaults.push({ code: "server-error" });
              break;
            case "fail watch":
              source.watchFaults.push({ code: "unreachable" });
              break;
            case "wait":
              await clock.advance(Number(name));
          }
        }
        source.isStalled = false;
        await clock.advance(10 * 60_000);
        const copy = versions(reflector.items);
        const truth = versions(source.objects);
        if (copy !== truth) throw new Error(`the copy is ${copy}, the world ${truth}`);
        if (source.openMax > 1) throw new Error(`${source.openMax} watches at once`);
        reflector.stop();
        if (clock.pending !== 0) throw new Error("a timer is left");
      }),
      { numRuns: 60 },
    );
  },
);
