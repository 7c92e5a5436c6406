/** What a gateway knows of its tunnel: the last good spec and key stay, a slot is held only while it is ours. */

import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { seededRandom } from "#src/host/random.ts";
import { LEASES, SECRETS, TUNNELS } from "#src/ports/kube-resource.ts";
import { CONFIG, MASTER, NAME, secret, SECRET, tunnel } from "./gateway-world.ts";
import { TunnelView } from "./tunnel-view.ts";

const opened = async () => {
  const clock = new FakeClock();
  const log = new FakeLog();
  const kube = new FakeKube({ clock, log });
  const changes: string[] = [];
  kube.seed(TUNNELS, tunnel());
  kube.seed(SECRETS, secret());
  const view = new TunnelView({
    config: CONFIG,
    kube,
    clock,
    random: seededRandom(1),
    log,
    onChange: (what) => changes.push(what),
  });
  await clock.advance(1_000);
  const identity = () => {
    const read = view.tunnel();
    return read.ok ? view.identity(read.value) : read;
  };
  return { clock, kube, changes, view, identity };
};

void t.test(
  "a slot is claimed at the first question, and its key comes from the Secret",
  async (t) => {
    const { clock, kube, changes, view, identity } = await opened();
    t.equal(kube.writes.length, 0, "nobody has asked");
    t.match(identity(), { ok: false, problem: "claiming a slot" });
    await clock.advance(1_000);
    t.ok(changes.includes("slot held"));
    const first = identity();
    t.match(first, { ok: true, value: { slot: Number } });
    t.equal(view.holdsSlot(), true);
    t.strictSame(identity(), first);
    await view.close();
    t.match(identity(), { ok: false, problem: /slot was released/u });
    t.equal(kube.peekAll(LEASES).length, 0);
  },
);

void t.test("a spec that can't be read keeps the last good one, and says so", async (t) => {
  const { clock, kube, view } = await opened();
  t.match(view.tunnel(), { ok: true, value: { mtu: 1380 } });
  await kube.patch(TUNNELS, NAME, { spec: { mtu: 9000, ranges: { pods: ["10.250.0.0/24"] } } });
  await clock.advance(1_000);
  t.match(view.tunnel(), { ok: true, value: { mtu: 1380, generation: 1 } });
  t.match(view.findings(), [{ code: "spec-not-taken", message: /overlaps.*generation 1/u }]);
  await kube.patch(TUNNELS, NAME, { spec: { ranges: { pods: ["10.222.0.0/17"] } } });
  await clock.advance(1_000);
  t.match(view.tunnel(), { ok: true, value: { mtu: 9000 } });
  t.strictSame(view.findings(), []);
});

void t.test("a spec that never was good is the problem itself", async (t) => {
  const { clock, kube, view } = await opened();
  await kube.delete(TUNNELS, NAME);
  kube.seed(TUNNELS, tunnel({ ranges: { nodes: [], pods: [], services: [] } }));
  await clock.advance(1_000);
  t.match(view.tunnel(), { ok: false, problem: /^Tunnel shoot--lab--alpha\/alpha: spec/u });
});

void t.test("a Secret that goes away or is spoilt keeps the key that the slot has", async (t) => {
  const { clock, kube, view, identity } = await opened();
  identity();
  await clock.advance(1_000);
  const before = identity();
  await kube.delete(SECRETS, SECRET);
  await clock.advance(1_000);
  t.strictSame(identity(), before);
  t.match(view.findings(), [{ code: "secret-not-usable", message: /does not exist yet.*keeps/u }]);
  kube.seed(SECRETS, secret("AAAA"));
  await clock.advance(1_000);
  t.strictSame(identity(), before);
  await kube.patch(SECRETS, SECRET, { data: { master: Buffer.alloc(32, 9).toString("base64") } });
  await clock.advance(1_000);
  const after = identity();
  t.ok(after.ok && before.ok);
  if (after.ok && before.ok) {
    t.not(after.value.privateKey.bytes().toHex(), before.value.privateKey.bytes().toHex());
  }
  t.strictSame(view.findings(), []);
  await view.close();
});

void t.test("a Tunnel that is not listed yet is not gone; one that is absent is", async (t) => {
  const { clock, kube, view } = await opened();
  t.equal(view.gone(), null);
  await kube.delete(TUNNELS, NAME);
  await clock.advance(1_000);
  t.match(view.gone(), /does not exist in the seed/u);
  kube.breakDown();
  const late = new TunnelView({
    config: CONFIG,
    kube,
    clock,
    random: seededRandom(1),
    log: new FakeLog(),
    onChange: () => undefined,
  });
  await clock.advance(1_000);
  t.equal(late.gone(), null);
  t.match(late.missing(), /outage/u);
});

void t.test(
  "a Tunnel made anew under the name is another one: its slot is claimed anew",
  async (t) => {
    const { clock, kube, changes, view, identity } = await opened();
    identity();
    await clock.advance(1_000);
    // Between two lists of a reflector the old one goes and the new one comes.
    await kube.delete(TUNNELS, NAME);
    kube.seed(TUNNELS, tunnel());
    await clock.advance(1_000);
    t.match(view.gone(), /was made anew: leaving the old one/u);
    await view.leave();
    t.equal(kube.peekAll(LEASES).length, 0);
    t.equal(changes.at(-1), "tunnel left", "another pass takes the new one up");
    t.equal(view.gone(), null);
    t.match(identity(), { ok: false, problem: "claiming a slot" });
    await clock.advance(1_000);
    t.match(identity(), { ok: true });
    await view.close();
  },
);

void t.test("neither a view nor its identity shows the master or the key as text", async (t) => {
  const { clock, view, identity } = await opened();
  identity();
  await clock.advance(1_000);
  const held = identity();
  const key = held.ok ? Buffer.from(held.value.privateKey.bytes()).toString("base64") : "";
  t.equal(key.length, 44);
  for (const text of [JSON.stringify(held), JSON.stringify(view), String(Object(held).value)]) {
    t.notOk(text.includes(key) || text.includes(MASTER));
  }
  await view.close();
});
