/** The fake API server keeps the contract of the Kube port, and its faults do what they say. */

import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { CONFIG_MAPS, TUNNELS } from "#src/ports/kube-resource.ts";
import { FakeKube } from "./fake-kube.ts";
import { kubeCompliance } from "./kube-compliance.ts";

const open = () => {
  const clock = new FakeClock();
  return { clock, kube: new FakeKube({ clock, log: new FakeLog() }) };
};

void t.test("compliance", (t) => {
  kubeCompliance(t, () => {
    const { clock, kube } = open();
    return Promise.resolve({ kube, namespace: "fake", settle: () => clock.advance(50) });
  });
  t.end();
});

void t.test("the generation moves with the spec and not with the status", async (t) => {
  const { kube } = open();
  const name = { namespace: "a", name: "x" };
  await kube.create(TUNNELS, { metadata: name, spec: { mtu: 1380 } });
  const withStatus = await kube.patchStatus(TUNNELS, name, { status: { ready: true } });
  t.equal(withStatus.metadata.generation, 1);
  const withSpec = await kube.patch(TUNNELS, name, { spec: { mtu: 1400 } });
  t.equal(withSpec.metadata.generation, 2);
  t.strictSame(withSpec["status"], { ready: true });
});

void t.test(
  "a scripted failure hits one call, an outage all of them until it is over",
  async (t) => {
    const { clock, kube } = open();
    kube.seed(CONFIG_MAPS, { metadata: { namespace: "a", name: "x" } });
    kube.failNext("get", "server-error");
    await t.rejects(kube.get(CONFIG_MAPS, { namespace: "a", name: "x" }), { code: "server-error" });
    await kube.get(CONFIG_MAPS, { namespace: "a", name: "x" });
    const reflector = kube.reflect(CONFIG_MAPS, { onChange: () => undefined });
    await reflector.synced();
    kube.breakDown();
    await clock.advance(2_000);
    t.match(reflector.state, { kind: "stale", problem: /outage/u });
    await t.rejects(kube.list(CONFIG_MAPS), { code: "unreachable" });
    kube.recover();
    kube.seed(CONFIG_MAPS, { metadata: { namespace: "a", name: "y" } });
    await clock.advance(60_000);
    t.equal(reflector.state.kind, "live");
    t.equal(reflector.items?.size, 2);
    kube.close();
    t.equal(clock.pending, 0);
  },
);

void t.test("only writes that change something are counted", async (t) => {
  const { kube } = open();
  const name = { namespace: "a", name: "x" };
  await kube.create(CONFIG_MAPS, { metadata: name, data: { a: "1" } });
  await kube.patch(CONFIG_MAPS, name, { data: { a: "1" } });
  t.strictSame(kube.writes, [{ verb: "create", object: "ConfigMap a/x" }]);
});
