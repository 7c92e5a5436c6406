/** What a scrape of a gateway or agent says. */

import t from "tap";
import { parseAgentId } from "#src/model/agent-id.ts";
import { publicKeyFromBytes } from "#src/model/key.ts";
import { valueOf } from "#src/model/parsed.ts";
import { parseSlot } from "#src/model/slot.ts";
import { FakeDeviceFactory } from "#src/host/device/fake-device.ts";
import { parsePrivateKey } from "#src/model/key.ts";
import { createMetrics, type Metrics } from "./metrics.ts";

const slot = valueOf(parseSlot(1));
const keys = [1, 2].map((n) => valueOf(publicKeyFromBytes(new Uint8Array(32).fill(n))));

const lines = async (metrics: Metrics): Promise<string[]> =>
  (await metrics.text()).text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));

const openDevice = async () => {
  const device = await new FakeDeviceFactory().open(
    {
      identity: { kind: "gateway", slot },
      privateKey: valueOf(parsePrivateKey(new Uint8Array(32).fill(7))),
      interface: "xylem0",
      mtu: 1380,
      listenPort: 0,
      paths: 2,
      offload: true,
    },
    () => undefined,
  );
  const peers = keys.map((publicKey, n) => ({
    publicKey,
    agentId: valueOf(parseAgentId(n + 1)),
    slot,
    endpoint: null,
    allowedIps: [],
  }));
  await device.set({ peers, steering: [] });
  return device;
};

void t.test("without a device it says that it is not ready and nothing untrue", async (t) => {
  const metrics = createMetrics({ stats: () => null, isReady: () => false, relay: () => null });
  const told = await lines(metrics);
  t.ok(told.includes("xylem_ready 0"));
  t.ok(told.includes("xylem_reconcile_writes_total 0"));
  t.notOk(told.some((line) => line.startsWith("xylem_relay{")));
  t.match((await metrics.text()).contentType, /^text\/plain/u);
});

void t.test("the numbers are the device's at the moment of the scrape", async (t) => {
  const device = await openDevice();
  let relay: string | null = "n1";
  const metrics = createMetrics({
    stats: () => ({ ...device.stats(), counters: { drop_no_peer: 4 } }),
    isReady: () => true,
    relay: () => relay,
  });
  const [first, second] = keys;
  if (first === undefined || second === undefined) throw new Error("two keys");
  device.setPeerStats(first, { rxBytes: 10, txBytes: 1, receivedAgeMs: 5 });
  device.setPeerStats(second, { rxBytes: 20, txBytes: 2, receivedAgeMs: 200_000 });
  const told = await lines(metrics);
  for (const line of [
    "xylem_ready 1",
    "xylem_peers 2",
    "xylem_peers_alive 1",
    "xylem_receive_bytes 30",
    "xylem_transmit_bytes 3",
    'xylem_relay{node="n1"} 1',
    'xylem_data_plane{counter="drop_no_peer"} 4',
  ]) {
    t.ok(told.includes(line), line);
  }
  relay = "n2";
  const relays = (await lines(metrics)).filter((line) => line.startsWith("xylem_relay{"));
  t.strictSame(relays, ['xylem_relay{node="n2"} 1'], "the old relay is no more");
});

void t.test("passes are counted by outcome, and their writes", async (t) => {
  const metrics = createMetrics({ stats: () => null, isReady: () => false, relay: () => null });
  metrics.onPass({ writes: 3, isReached: true });
  metrics.onPass({ writes: 1, isReached: false });
  metrics.onPass({ writes: 0, isReached: true });
  const told = await lines(metrics);
  t.ok(told.includes("xylem_reconcile_writes_total 4"));
  t.ok(told.includes('xylem_reconcile_runs_total{outcome="reached"} 2'));
  t.ok(told.includes('xylem_reconcile_runs_total{outcome="failed"} 1'));
});
