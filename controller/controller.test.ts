/** The controller makes a Tunnel's Secret, tells the shoot its gateways, writes the status, and nothing twice. */

import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { seededRandom } from "#src/host/random.ts";
import { slotMemoryNone } from "#src/host/slot-memory-file.ts";
import {
  NODES,
  SECRETS,
  TUNNELS,
  TUNNEL_AGENTS,
  TUNNEL_GATEWAYS,
} from "#src/ports/kube-resource.ts";
import { SlotClaim } from "#src/reconcile/slot-claim.ts";
import { Controller } from "./controller.ts";

const NAME = { namespace: "shoot--lab--alpha", name: "alpha" };
const SECRET = { namespace: "shoot--lab--alpha", name: "alpha-xylem" };
const GATEWAYS = { namespace: "kube-system", name: "xylem" };
const RANGES = { nodes: ["10.250.0.0/20"], pods: ["10.222.0.0/17"], services: ["10.97.0.0/22"] };
const KEY = "SjmWOSPIsL/Of6C8hBUZxen3UK7fTAXJjvney34oElE=";

const world = () => {
  const clock = new FakeClock();
  const log = new FakeLog();
  const seed = new FakeKube({ clock, log });
  const shoot = new FakeKube({ clock, log });
  const opened: string[] = [];
  const random = seededRandom(1);
  const start = () =>
    new Controller({
      seed,
      openShoot: ({ namespace, name }) => {
        opened.push(`${namespace}/${name}`);
        return shoot;
      },
      clock,
      random,
      log,
      namespace: undefined,
      tunnel: undefined,
    });
  const condition = (type: string) => {
    const status = Object(seed.peek(TUNNELS, NAME)?.["status"]);
    const conditions: unknown = status.conditions;
    return Array.isArray(conditions) ? conditions.find((c) => Object(c).type === type) : undefined;
  };
  const status = () => Object(seed.peek(TUNNELS, NAME)?.["status"]);
  return { clock, log, seed, shoot, opened, random, start, condition, status };
};

const tunnel = (spec: object = {}) => ({ metadata: NAME, spec: { ranges: RANGES, ...spec } });

const node = (name: string) => ({
  metadata: { name },
  spec: { podCIDRs: ["10.222.1.0/24"] },
  status: {
    addresses: [{ type: "InternalIP", address: "10.250.0.11" }],
    conditions: [{ type: "Ready", status: "True" }],
  },
});

void t.test(
  "a Tunnel gets its Secret, its shoot is told 32 slots, and its status says so",
  async (t) => {
    const { clock, seed, shoot, start, condition } = world();
    seed.seed(TUNNELS, tunnel());
    const controller = start();
    await clock.advance(1_000);
    const secret = seed.peek(SECRETS, SECRET);
    t.match(secret, {
      type: "xylem.dev/master",
      immutable: true,
      metadata: { ownerReferences: [{ kind: "Tunnel", name: "alpha", controller: true }] },
    });
    t.equal(Buffer.from(String(Object(secret?.["data"]).master), "base64").length, 32);
    const gateways = Object(shoot.peek(TUNNEL_GATEWAYS, GATEWAYS)?.["spec"]);
    t.equal(gateways.slots.length, 32);
    t.match(gateways.slots[31], { slot: 31, addresses: ["198.18.0.32"] });
    t.match(condition("Accepted"), { status: "True", observedGeneration: 1 });
    t.match(condition("Published"), { status: "True" });
    t.match(condition("Ready"), { status: "False", reason: "NoGateway" });
    await controller.stop();
    t.equal(clock.pending, 0, "no timer is left");
  },
);

void t.test("nothing is written when nothing changed, over an hour and a restart", async (t) => {
  const { clock, seed, shoot, start } = world();
  seed.seed(TUNNELS, tunnel());
  const first = start();
  await clock.advance(5_000);
  const writes = () => seed.writes.length + shoot.writes.length;
  const before = writes();
  t.equal(before, 3, "the Secret, TunnelGateways and one status");
  await clock.advance(60 * 60_000);
  await first.stop();
  const second = start();
  await clock.advance(5_000);
  t.equal(writes(), before);
  await second.stop();
});

void t.test(
  "a Tunnel is Ready when a gateway holds a slot and an agent is on a Ready node",
  async (t) => {
    const { clock, log, seed, shoot, random, start, condition, status } = world();
    seed.seed(TUNNELS, tunnel());
    shoot.seed(NODES, node("n1"), node("n2"));
    const controller = start();
    await clock.advance(1_000);
    const claim = new SlotClaim({
      kube: seed,
      clock,
      log,
      random,
      memory: slotMemoryNone(),
      namespace: NAME.namespace,
      tunnel: NAME.name,
      slots: 32,
      identity: "uid-of-the-pod",
      gatewayName: "kube-apiserver-0",
      onLost: () => undefined,
    }).start();
    await clock.advance(1_000);
    t.match(condition("Ready"), { status: "False", reason: "NoAgent" });
    shoot.seed(TUNNEL_AGENTS, {
      metadata: { namespace: "kube-system", name: "n1" },
      spec: { publicKey: KEY, agentId: 4711, port: 51820, version: "0.1.0" },
    });
    await clock.advance(1_000);
    t.match(condition("Ready"), { status: "True" });
    t.match(status(), {
      agents: { ready: 1, total: 2 },
      gateways: [{ holder: "kube-apiserver-0", address: /^198\.18\.0\./u }],
    });
    await claim.release();
    await clock.advance(1_000);
    t.match(condition("Ready"), { status: "False", reason: "NoGateway" });
    await controller.stop();
  },
);

const BAD: readonly { name: string; spec: object; want: RegExp }[] = [
  {
    name: "overlapping ranges",
    spec: { ranges: { ...RANGES, services: ["10.222.0.0/24"] } },
    want: /10\.222\.0\.0\/24 overlaps spec\.ranges\.pods/u,
  },
  {
    name: "a range with host bits",
    spec: { ranges: { ...RANGES, nodes: ["10.250.0.1/20"] } },
    want: /10\.250\.0\.1\/20/u,
  },
  { name: "empty ranges", spec: { ranges: { ...RANGES, pods: [] } }, want: /pods is empty/u },
];

for (const { name, spec, want } of BAD) {
  void t.test(
    `a Tunnel with ${name} is not accepted, nothing is made, and it is not tried again`,
    async (t) => {
      const { clock, seed, shoot, opened, start, condition } = world();
      seed.seed(TUNNELS, tunnel(spec));
      const controller = start();
      await clock.advance(60 * 60_000);
      t.match(condition("Accepted"), { status: "False", reason: "InvalidSpec", message: want });
      t.match(condition("Published"), { status: "Unknown" });
      t.strictSame(seed.writes, [
        { verb: "patchStatus", object: "Tunnel shoot--lab--alpha/alpha" },
      ]);
      t.strictSame([shoot.calls, opened], [[], []]);
      await seed.patch(TUNNELS, NAME, { spec: { ranges: RANGES } });
      await clock.advance(2_000);
      t.match(condition("Accepted"), { status: "True", observedGeneration: 2 });
      t.match(condition("Published"), { status: "True" });
      await controller.stop();
    },
  );
}

void t.test("a shoot that can't be reached is told in the status and tried again", async (t) => {
  const { clock, seed, shoot, start, condition } = world();
  seed.seed(TUNNELS, tunnel());
  shoot.breakDown();
  const controller = start();
  await clock.advance(30_000);
  t.match(condition("Published"), { status: "False", message: /can't be told.*outage/u });
  shoot.recover();
  await clock.advance(60_000);
  t.match(condition("Published"), { status: "True" });
  await controller.stop();
});

void t.test(
  "a Secret of the wrong shape is left alone, and the status says what to do",
  async (t) => {
    const { clock, seed, shoot, start, condition } = world();
    seed.seed(SECRETS, { metadata: SECRET, data: { master: "AAAA" } });
    seed.seed(TUNNELS, tunnel());
    const controller = start();
    await clock.advance(2_000);
    t.match(condition("Published"), { status: "False", message: /delete the Secret/u });
    t.equal(shoot.writes.length, 0);
    t.match(seed.peek(SECRETS, SECRET), { data: { master: "AAAA" } });
    await controller.stop();
  },
);

void t.test("two controllers at once make one Secret and the same TunnelGateways", async (t) => {
  const { clock, seed, shoot, start } = world();
  seed.seed(TUNNELS, tunnel());
  const controllers = [start(), start()];
  await clock.advance(10_000);
  t.equal(seed.writes.filter(({ verb }) => verb === "create").length, 1);
  t.equal(shoot.writes.length, 1);
  for (const controller of controllers) await controller.stop();
});

void t.test("TunnelGateways that somebody changed are put right", async (t) => {
  const { clock, seed, shoot, start } = world();
  seed.seed(TUNNELS, tunnel());
  const controller = start();
  await clock.advance(1_000);
  await shoot.patch(TUNNEL_GATEWAYS, GATEWAYS, { spec: { mtu: 9000 } });
  await clock.advance(70_000);
  t.match(shoot.peek(TUNNEL_GATEWAYS, GATEWAYS), { spec: { mtu: 1380 } });
  await controller.stop();
});

void t.test("a Tunnel that is deleted is forgotten with its loop and its connection", async (t) => {
  const { clock, seed, start } = world();
  seed.seed(TUNNELS, tunnel());
  const controller = start();
  await clock.advance(1_000);
  await seed.delete(TUNNELS, NAME);
  await clock.advance(1_000);
  t.match(controller.status(), { tunnels: [] });
  await controller.stop();
});

void t.test("once answers every Tunnel's result", async (t) => {
  const { clock, seed, start } = world();
  seed.seed(TUNNELS, tunnel(), {
    metadata: { namespace: "other", name: "bad" },
    spec: { ranges: { nodes: [], pods: [], services: [] } },
  });
  const controller = start();
  const results = controller.once();
  await clock.advance(5_000);
  t.match(
    [...(await results)],
    [
      ["other/bad", { kind: "rejected" }],
      ["shoot--lab--alpha/alpha", { kind: "reached" }],
    ],
  );
  await controller.stop();
});
