/** The relay between passes: chosen by what the data plane measured, kept as long as it may. */

import t from "tap";
import { parseTunnelAgent } from "#src/codec/tunnel-agent-codec.ts";
import { parseNode } from "#src/codec/node-codec.ts";
import type { PeerMeasurement } from "#src/model/device.ts";
import { valueOf } from "#src/model/parsed.ts";
import { parseSlot } from "#src/model/slot.ts";
import { agent, keyOf, node } from "./gateway-world.ts";
import { RelayKeeper } from "./relay-keeper.ts";

const slot = valueOf(parseSlot(0));
const known = { uid: "u", creationTimestamp: "2026-01-01T00:00:00Z" };
const nodeFacts = (n: number, isReady = true) => {
  const object = node(n, isReady);
  return valueOf(parseNode({ ...object, metadata: { ...object.metadata, ...known } }));
};
const claim = (n: number) => {
  const object = agent(n);
  return valueOf(parseTunnelAgent({ ...object, metadata: { ...object.metadata, ...known } }));
};

const measured = (
  ...peers: readonly { n: number; unansweredMs: number | null }[]
): readonly PeerMeasurement[] =>
  peers.map(({ n, unansweredMs }) => ({
    publicKey: keyOf(n),
    receivedAgeMs: 10,
    unansweredMs,
    rttUs: 500,
  }));

const opened = () => {
  let nowMs = 0;
  const keeper = new RelayKeeper(() => nowMs);
  const pass = (ms: number): void => {
    nowMs += ms;
  };
  return { keeper, pass };
};

void t.test("without a node that has an agent there is no relay", async (t) => {
  const { keeper } = opened();
  keeper.choose({ slot, nodes: [nodeFacts(1)], claims: [], measured: [] });
  t.strictSame([keeper.relay, keeper.standby], [null, null]);
});

void t.test("a relay and a standby are chosen before there is a device", async (t) => {
  const { keeper } = opened();
  const nodes = [nodeFacts(1), nodeFacts(2), nodeFacts(3, false)];
  keeper.choose({ slot, nodes, claims: [claim(1), claim(2), claim(3)], measured: [] });
  const chosen = new Set([keeper.relay, keeper.standby]);
  t.strictSame(chosen, new Set(["n1", "n2"]), "Ready nodes first");
});

void t.test(
  "a relay that answers stays; a silent one is left, and not returned to at once",
  async (t) => {
    const { keeper, pass } = opened();
    const facts = { slot, nodes: [nodeFacts(1), nodeFacts(2)], claims: [claim(1), claim(2)] };
    keeper.choose({ ...facts, measured: [] });
    const first = keeper.relay;
    const n = Number(first?.slice(1));
    const other = 3 - n;
    for (let second = 0; second < 10; second += 1) {
      pass(1_000);
      keeper.choose({
        ...facts,
        measured: measured({ n, unansweredMs: null }, { n: other, unansweredMs: null }),
      });
    }
    t.equal(keeper.relay, first);
    keeper.choose({
      ...facts,
      measured: measured({ n, unansweredMs: 450 }, { n: other, unansweredMs: null }),
    });
    t.equal(keeper.relay, `n${other}`);
    pass(1_000);
    keeper.choose({
      ...facts,
      measured: measured({ n, unansweredMs: null }, { n: other, unansweredMs: null }),
    });
    t.equal(keeper.relay, `n${other}`, "what answers again is not better");
  },
);

void t.test("a relay whose node is gone is replaced", async (t) => {
  const { keeper } = opened();
  const claims = [claim(1), claim(2)];
  keeper.choose({ slot, nodes: [nodeFacts(1), nodeFacts(2)], claims, measured: [] });
  const n = Number(keeper.relay?.slice(1));
  keeper.choose({ slot, nodes: [nodeFacts(3 - n)], claims, measured: [] });
  t.strictSame([keeper.relay, keeper.standby], [`n${3 - n}`, null]);
});
