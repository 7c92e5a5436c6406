/** The controller makes a Tunnel's Secret, tells the shoot its gateways, writes the status, and nothing twice. */

import t from "tap";
import {
  NODES,
  SECRETS,
  TUNNELS,
  TUNNEL_AGENTS,
  TUNNEL_GATEWAYS,
} from "#src/ports/kube-resource.ts";
import { GATEWAYS, NAME, node, RANGES, SECRET, tunnel, world } from "./controller-world.ts";

const KEY = "SjmWOSPIsL/Of6C8hBUZxen3UK7fTAXJjvney34oElE=";

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
  t.equal(before, 4, "the finalizer, the Secret, TunnelGateways and one status");
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
    const { clock, seed, shoot, start, condition, status, claim } = world();
    seed.seed(TUNNELS, tunnel());
    shoot.seed(NODES, node("n1"), node("n2"));
    const controller = start();
    await clock.advance(1_000);
    const gateway = claim();
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
    await gateway.release();
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

void t.test("TunnelGateways that somebody changed or removed are put right at once", async (t) => {
  const { clock, seed, shoot, start } = world();
  seed.seed(TUNNELS, tunnel());
  const controller = start();
  await clock.advance(1_000);
  await shoot.patch(TUNNEL_GATEWAYS, GATEWAYS, { spec: { mtu: 9000 } });
  await clock.advance(1_000);
  t.match(shoot.peek(TUNNEL_GATEWAYS, GATEWAYS), { spec: { mtu: 1380 } });
  await shoot.delete(TUNNEL_GATEWAYS, GATEWAYS);
  await clock.advance(1_000);
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

void t.test(
  "the last handshake that a gateway told is published, and moves by whole minutes only",
  async (t) => {
    const { clock, seed, start, status, claim } = world();
    seed.seed(TUNNELS, tunnel());
    const controller = start();
    let heardMs: number | null = null;
    const gateway = claim(() => heardMs);
    await clock.advance(5_000);
    t.notOk("lastHandshake" in status());
    heardMs = clock.wallMs();
    gateway.renew();
    await clock.advance(2_000);
    t.equal(status().lastHandshake, "2026-01-01T00:00:05Z");
    const before = seed.writes.filter(({ verb }) => verb === "patchStatus").length;
    heardMs = clock.wallMs() + 20_000;
    gateway.renew();
    await clock.advance(120_000);
    t.equal(status().lastHandshake, "2026-01-01T00:00:05Z", "20 s are no news");
    t.equal(seed.writes.filter(({ verb }) => verb === "patchStatus").length, before);
    heardMs = clock.wallMs();
    gateway.renew();
    await clock.advance(2_000);
    t.equal(status().lastHandshake, "2026-01-01T00:02:07Z");
    await gateway.release();
    await clock.advance(2_000);
    t.equal(status().lastHandshake, "2026-01-01T00:02:07Z", "it outlives the gateway");
    await controller.stop();
  },
);

void t.test("a Tunnel made anew gets new keys, not those of the deleted one", async (t) => {
  const { clock, seed, shoot, start, condition } = world();
  const ownerReferences = [{ kind: "Tunnel", name: "alpha", uid: "uid-of-the-old-one" }];
  const master = Buffer.alloc(32, 7).toString("base64");
  seed.seed(SECRETS, { metadata: { ...SECRET, ownerReferences }, data: { master } });
  seed.seed(TUNNELS, tunnel());
  const controller = start();
  await clock.advance(5_000);
  t.match(condition("Published"), { status: "False", message: /deleted Tunnel of the same name/u });
  t.equal(shoot.writes.length, 0);
  await seed.delete(SECRETS, SECRET);
  await clock.advance(35_000);
  t.match(condition("Published"), { status: "True" });
  t.not(Object(seed.peek(SECRETS, SECRET)?.["data"]).master, master);
  await controller.stop();
});

void t.test(
  "what the audit finds becomes a condition once, and again when it changes",
  async (t) => {
    const { clock, seed, start, condition } = world();
    seed.seed(TUNNELS, tunnel());
    const current = { status: "True", reason: "Injected", message: "all" } as const;
    const stale = { status: "False", reason: "StalePods", message: "restart a" } as const;
    let summary: typeof current | typeof stale | null = null;
    const asked: object[] = [];
    const controller = start({
      audit: (name) => {
        asked.push(name);
        return summary;
      },
    });
    await clock.advance(1_000);
    t.strictSame(asked[0], NAME);
    t.equal(condition("Injected"), undefined);
    summary = current;
    controller.trigger("audit");
    await clock.advance(1_000);
    t.match(condition("Injected"), current);
    const writes = seed.writes.length;
    controller.trigger("audit");
    await clock.advance(1_000);
    t.equal(seed.writes.length, writes, "nothing is written when nothing changed");
    summary = stale;
    controller.trigger("audit");
    await clock.advance(1_000);
    t.match(condition("Injected"), stale);
    await controller.stop();
  },
);
