/** Tests of relay choice: fast failover, no flapping, spread. */

import fc from "fast-check";
import t from "tap";
import { newRelayState, stepRelay, type RelayCandidate, type RelayState } from "./relay-plan.ts";

const NODES = ["n1", "n2", "n3", "n4"];

t.test("the first usable node becomes the relay, another one the standby", async (t) => {
  const step = stepRelay(newRelayState(0), { nowMs: 0, candidates: all({}) });
  t.equal(step.reason, "first");
  t.ok(NODES.includes(step.relay ?? ""));
  t.ok(NODES.includes(step.standby ?? ""));
  t.not(step.relay, step.standby);
});

t.test("without a node that has an agent there is no relay", async (t) => {
  for (const candidates of [[], [candidate("n1", { hasClaim: false })]]) {
    const step = stepRelay(newRelayState(0), { nowMs: 0, candidates });
    t.match(step, { relay: null, standby: null, reason: "none" });
  }
});

t.test("a single node is the relay without a standby, and is kept when it is silent", async (t) => {
  const first = stepRelay(newRelayState(0), { nowMs: 0, candidates: [candidate("n1", {})] });
  t.match(first, { relay: "n1", standby: null });
  const silent = [candidate("n1", { unansweredMs: 9000 })];
  t.match(stepRelay(first.state, { nowMs: 9000, candidates: silent }), {
    relay: "n1",
    standby: null,
    reason: "kept",
  });
});

t.test("gateways spread over the nodes", async (t) => {
  const counts = new Map<string | null, number>();
  for (let seed = 0; seed < 32; seed++) {
    const { relay } = stepRelay(newRelayState(seed), { nowMs: 0, candidates: all({}) });
    counts.set(relay, (counts.get(relay) ?? 0) + 1);
  }
  t.equal(counts.size, NODES.length);
  t.ok(
    Math.max(...counts.values()) <= 16,
    `at most half of the gateways on one node: ${[...counts.values()].join()}`,
  );
});

t.test(
  "T18 a relay that is silent for 400 ms is left at once for a node that is not",
  async (t) => {
    const { state, relay } = start();
    t.match(stepRelay(state, { nowMs: 399, candidates: all({ [relay]: { unansweredMs: 399 } }) }), {
      relay,
      reason: "kept",
    });
    const moved = stepRelay(state, {
      nowMs: 400,
      candidates: all({ [relay]: { unansweredMs: 400 } }),
    });
    t.equal(moved.reason, "unanswered");
    t.not(moved.relay, relay);
    t.not(moved.standby, relay);
  },
);

t.test("T18 a failover goes to a node that was heard a moment ago", async (t) => {
  for (const heard of NODES) {
    const { state, relay } = start();
    if (heard === relay) continue;
    const candidates = all({ [relay]: { unansweredMs: 500 }, [heard]: { receivedAgeMs: 100 } });
    t.equal(stepRelay(state, { nowMs: 500, candidates }).relay, heard);
  }
});

t.test(
  "T18 when the next relay is dead as well, the third one is tried 400 ms later",
  async (t) => {
    const first = start();
    const second = stepRelay(first.state, {
      nowMs: 400,
      candidates: all({ [first.relay]: { unansweredMs: 400 } }),
    });
    const both = {
      [first.relay]: { unansweredMs: 800 },
      [second.relay ?? ""]: { unansweredMs: 400 },
    };
    const third = stepRelay(second.state, { nowMs: 800, candidates: all(both) });
    t.equal(third.reason, "unanswered");
    t.notOk([first.relay, second.relay].includes(third.relay ?? ""));
  },
);

t.test("when everybody is silent the relay is kept: the way is broken, not the node", async (t) => {
  const { state, relay } = start();
  const candidates = NODES.map((name) => candidate(name, { unansweredMs: 5000 }));
  t.match(stepRelay(state, { nowMs: 5000, candidates }), { relay, reason: "kept" });
});

const unusable: { title: string; change: Partial<RelayCandidate> | null }[] = [
  { title: "not Ready", change: { isReady: false } },
  { title: "without a TunnelAgent", change: { hasClaim: false } },
  { title: "gone", change: null },
];

for (const { title, change } of unusable) {
  t.test(`W55 a node that is ${title} is not used as relay, nor waited for`, async (t) => {
    const { state, relay } = start();
    const candidates =
      change === null ? all({}).filter(({ node }) => node !== relay) : all({ [relay]: change });
    const step = stepRelay(state, { nowMs: 1, candidates });
    t.equal(step.reason, "not-usable");
    t.not(step.relay, relay);
    t.not(step.standby, relay);
  });
}

t.test("S3 when no node is Ready, one that answers is used all the same", async (t) => {
  const notReady = NODES.map((name) => candidate(name, { isReady: false }));
  const step = stepRelay(newRelayState(0), { nowMs: 0, candidates: notReady });
  t.equal(step.reason, "first");
  t.match(stepRelay(step.state, { nowMs: 1, candidates: notReady }), {
    relay: step.relay,
    reason: "kept",
  });
});

t.test("T46 a relay that was left is not returned to at once", async (t) => {
  const { state, relay } = start();
  const moved = stepRelay(state, {
    nowMs: 400,
    candidates: all({ [relay]: { unansweredMs: 400 } }),
  });
  const two = [relay, moved.relay ?? ""];
  const jitter = (nowMs: number, from: RelayState, silentMs: number) =>
    stepRelay(from, {
      nowMs,
      candidates: two.map((name) =>
        candidate(name, name === moved.relay ? { unansweredMs: silentMs } : {}),
      ),
    });
  t.match(jitter(900, moved.state, 450), { relay: moved.relay, reason: "kept" });
  t.match(
    jitter(2900, moved.state, 2400),
    { relay, reason: "unanswered" },
    "but a dead relay is worse",
  );
  t.match(jitter(5500, moved.state, 450), { relay, reason: "unanswered" }, "after 5 s it may");
});

t.test("T46 two nodes that are silent in turn cause a bounded number of changes", async (t) => {
  let state = newRelayState(0);
  let changes = 0;
  let before: string | null = null;
  for (let nowMs = 0; nowMs < 600_000; nowMs += 500) {
    const candidates = ["n1", "n2"].map((name) =>
      candidate(name, name === state.relay && nowMs % 1000 === 0 ? { unansweredMs: 600 } : {}),
    );
    const step = stepRelay(state, { nowMs, candidates });
    if (before !== null && step.relay !== before) changes += 1;
    before = step.relay;
    state = step.state;
  }
  t.ok(changes >= 2 && changes <= 30, `${changes} changes in 10 minutes of trouble`);
});

t.test(
  "T46 a faster node takes over only when it is much faster for 30 s without a break",
  async (t) => {
    const { state, relay } = start();
    const other = NODES.find((name) => name !== relay) ?? "";
    const see = (from: RelayState, nowMs: number, rttUs: number) =>
      stepRelay(from, {
        nowMs,
        candidates: all({ [relay]: { rttUs: 40_000 }, [other]: { rttUs } }),
      });
    const slightly = see(see(state, 0, 25_000).state, 60_000, 25_000);
    t.match(slightly, { relay, reason: "kept" }, "a gain of less than half is not worth it");
    const noticed = see(state, 0, 10_000);
    t.match(see(noticed.state, 29_999, 10_000), { relay, reason: "kept" });
    t.match(see(noticed.state, 30_000, 10_000), { relay: other, reason: "faster" });
    const broken = see(see(noticed.state, 20_000, 39_000).state, 21_000, 10_000);
    t.match(
      see(broken.state, 40_000, 10_000),
      { relay, reason: "kept" },
      "a break starts the time anew",
    );
  },
);

t.test("T46 differences of a few milliseconds are no reason", async (t) => {
  const { state, relay } = start();
  const other = NODES.find((name) => name !== relay) ?? "";
  const candidates = all({ [relay]: { rttUs: 900 }, [other]: { rttUs: 100 } });
  const step = stepRelay(stepRelay(state, { nowMs: 0, candidates }).state, {
    nowMs: 90_000,
    candidates,
  });
  t.match(step, { relay, reason: "kept" });
});

t.test(
  "whatever is observed, the relay is a node with a claim, the standby another, and state stays bounded",
  async () => {
    const age = fc.option(fc.integer({ min: 0, max: 5000 }));
    const anyCandidate = fc.record({
      node: fc.constantFrom(...NODES),
      isReady: fc.boolean(),
      hasClaim: fc.boolean(),
      unansweredMs: age,
      receivedAgeMs: age,
      rttUs: age,
    });
    const observation = fc.record({
      afterMs: fc.integer({ min: 1, max: 20_000 }),
      candidates: fc.uniqueArray(anyCandidate, { selector: ({ node }) => node }),
    });
    fc.assert(
      fc.property(fc.nat(255), fc.array(observation, { maxLength: 30 }), (seed, history) => {
        let [state, nowMs] = [newRelayState(seed), 0];
        return history.every(({ afterMs, candidates }) => {
          nowMs += afterMs;
          const step = stepRelay(state, { nowMs, candidates });
          state = step.state;
          const usable = candidates.filter(({ hasClaim }) => hasClaim).map(({ node }) => node);
          return (
            (step.relay === null ? usable.length === 0 : usable.includes(step.relay)) &&
            (step.standby === null ? usable.length < 2 : usable.includes(step.standby)) &&
            (step.relay === null || step.relay !== step.standby) &&
            state.left.size <= NODES.length
          );
        });
      }),
      { numRuns: 500 },
    );
  },
);

function candidate(node: string, change: Partial<RelayCandidate>): RelayCandidate {
  return {
    node,
    isReady: true,
    hasClaim: true,
    unansweredMs: null,
    receivedAgeMs: null,
    rttUs: null,
    ...change,
  };
}

function all(changes: Record<string, Partial<RelayCandidate>>): RelayCandidate[] {
  return NODES.map((name) => candidate(name, changes[name] ?? {}));
}

function start(): { state: RelayState; relay: string } {
  const { state, relay } = stepRelay(newRelayState(0), { nowMs: 0, candidates: all({}) });
  return { state, relay: relay ?? "" };
}
