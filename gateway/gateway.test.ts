/** The gateway's life on fakes: what it waits for, what it holds, and when it lets go. */

import t from "tap";
import { HostError } from "#src/ports/host-error.ts";
import {
  LEASES,
  NODES,
  SECRETS,
  SERVICES,
  TUNNELS,
  TUNNEL_AGENTS,
} from "#src/ports/kube-resource.ts";
import {
  agent,
  keyOf,
  MASTER,
  NAME,
  node,
  readyWorld,
  secret,
  SECRET,
  service,
  tunnel,
  world,
} from "./gateway-world.ts";

const MINUTE = 60_000;
const EMPTY = "no firewall table\nno device";

void t.test(
  "it says what it waits for, one thing after the other, until it is ready",
  async (t) => {
    const { clock, seed, shoot, host, start } = world();
    const { gateway, stop } = start();
    const says = async (want: RegExp | null): Promise<void> => {
      await clock.advance(3_000);
      if (want === null) t.equal(gateway.problem(), null);
      else t.match(gateway.problem(), want);
    };
    await says(/^Tunnel shoot--lab--alpha\/alpha does not exist in the seed.*create it/u);
    seed.seed(TUNNELS, tunnel());
    await says(
      /^Secret shoot--lab--alpha\/alpha-xylem does not exist yet: the controller makes it/u,
    );
    seed.seed(SECRETS, secret("AAAA"));
    await says(/data\.master .* is not 32 bytes/u);
    t.equal(host.print(), EMPTY, "nothing is made before the seed's side is known");
    await seed.patch(SECRETS, SECRET, { data: { master: MASTER } });
    await says(/^the agents' endpoint is not known yet: Service kube-system\/xylem-agent/u);
    t.match(host.print(), /route 10\.222\.0\.0\/17 dev xylem0/u, "routes come first");
    t.notMatch(host.print(), /peer/u);
    shoot.seed(SERVICES, service());
    await says(/^no agent has registered yet/u);
    shoot.seed(NODES, node(1, false));
    shoot.seed(TUNNEL_AGENTS, agent(1, { publicKey: "AAAA" }));
    await says(/^no agent has registered yet/u);
    await shoot.patch(TUNNEL_AGENTS, agent(1).metadata, { spec: { publicKey: keyOf(1) } });
    await says(null);
    await stop();
    t.equal(clock.pending, 0, "no timer is left");
  },
);

void t.test("an API server that does not answer is named", async (t) => {
  for (const which of ["seed", "shoot"] as const) {
    const made = world();
    made.seed.seed(TUNNELS, tunnel());
    made.seed.seed(SECRETS, secret());
    made[which].breakDown();
    const { gateway, stop } = made.start();
    t.match(gateway.problem(), /API server has not answered yet/u);
    await made.clock.advance(3_000);
    t.match(gateway.problem(), /fake: list .*: outage/u);
    made[which].recover();
    made.shoot.seed(SERVICES, service());
    await made.clock.advance(MINUTE);
    t.match(gateway.problem(), /no agent has registered yet/u);
    await stop();
  }
});

void t.test(
  "T20 while the shoot does not answer yet, its ranges lead into the tunnel and nowhere else",
  async (t) => {
    const made = world();
    made.seed.seed(TUNNELS, tunnel());
    made.seed.seed(SECRETS, secret());
    made.shoot.seed(SERVICES, service());
    made.shoot.seed(NODES, node(1));
    made.shoot.seed(TUNNEL_AGENTS, agent(1));
    made.shoot.breakDown();
    const { gateway, stop } = made.start();
    await made.clock.advance(3_000);
    t.match(gateway.problem(), /fake: list .*: outage/u);
    const early = made.host.print();
    t.match(early, /10\.250\.0\.0\/20/u);
    t.notMatch(early, /peer/u);
    made.shoot.recover();
    await made.clock.advance(MINUTE);
    t.equal(gateway.problem(), null);
    t.match(made.host.print(), `peer ${keyOf(1)}`);
    await stop();
    t.equal(made.host.print(), EMPTY);
  },
);

void t.test("all slots held: it says so, and takes the first one that is free", async (t) => {
  const made = world();
  made.seed.seed(TUNNELS, tunnel({ slots: 1 }));
  made.seed.seed(SECRETS, secret());
  const renewTime = new Date(made.clock.wallMs()).toISOString().replace("Z", "000Z");
  made.seed.seed(LEASES, {
    metadata: {
      namespace: NAME.namespace,
      name: "alpha-xylem-slot-0",
      labels: { "xylem.dev/tunnel": "alpha" },
    },
    spec: { holderIdentity: "another", renewTime, leaseDurationSeconds: 2_400 },
  });
  const { gateway, stop } = made.start();
  // The claim's failure is no event: the next pass tells it.
  await made.clock.advance(70_000);
  t.match(gateway.problem(), /has no free slot: all 1 are held; raise spec\.slots or stop/u);
  const [lease] = made.leases();
  if (lease !== undefined) await made.seed.delete(LEASES, lease.metadata);
  await made.clock.advance(MINUTE);
  t.equal(gateway.status().slot, 0);
  await stop();
});

void t.test("what it holds when it is ready, and that a stop leaves nothing", async (t) => {
  const { clock, host, gateway, stop, leases } = await readyWorld();
  t.equal(gateway.problem(), null);
  const device = host.devices.current;
  t.match(device?.options, { interface: "xylem0", mtu: 1380, listenPort: 0, paths: 4 });
  const { slot } = gateway.status();
  t.match(device?.options.identity, { kind: "gateway", slot });
  t.match(
    host.print(),
    new RegExp(`^link xylem0 mtu 1380 up 198\\.18\\.0\\.${Number(slot) + 1}/32`),
  );
  t.match(
    host.print(),
    /peer \S+ agent 101 slot \d+ 192\.0\.2\.10 port 51820 allows 10\.250\.0\.1/u,
  );
  t.equal(leases().length, 1);
  await stop();
  t.equal(host.print(), EMPTY);
  t.equal(leases().length, 0, "the slot is given back");
  t.equal(gateway.problem(), "stopping");
  t.equal(clock.pending, 0);
});

void t.test(
  "W57 an hour without news: passes run, nothing is written anywhere but the Lease",
  async (t) => {
    const { clock, seed, shoot, host, passes, stop } = await readyWorld();
    const before = { host: host.writes, seed: seed.writes.length, passes: passes.length };
    await clock.advance(9 * MINUTE - 10_000);
    t.equal(host.writes, before.host);
    t.equal(seed.writes.length, before.seed);
    await clock.advance(51 * MINUTE);
    t.equal(host.writes, before.host);
    t.ok(passes.length > before.passes + 50, `${passes.length} passes`);
    t.strictSame(
      new Set(seed.writes.slice(before.seed).map(({ verb }) => verb)),
      new Set(["replace"]),
    );
    t.ok(seed.writes.length - before.seed <= 7, "the Lease, every ten minutes");
    t.equal(shoot.writes.length, 0);
    await stop();
  },
);

void t.test("the first handshake is told with the Lease at once", async (t) => {
  const { clock, host, leases, stop } = await readyWorld();
  const told = (): unknown => leases()[0]?.metadata.annotations?.["xylem.dev/last-handshake"];
  t.equal(told(), undefined);
  for (const n of [1, 2]) {
    host.devices.current?.emit({ kind: "handshake", publicKey: keyOf(n), index: 1 });
    await clock.advance(1_000);
  }
  t.equal(told(), "2026-01-01T00:00:02Z", "the second waits for the next renewal");
  await clock.advance(10 * MINUTE);
  t.equal(told(), "2026-01-01T00:00:03Z");
  await stop();
});

void t.test("a silent relay is left at once, without a look at kernel or filter", async (t) => {
  const { clock, host, gateway, stop } = await readyWorld();
  const [relay, standby] = [gateway.status().relay, gateway.status().standby];
  t.strictSame(new Set([relay, standby]), new Set(["n1", "n2"]));
  const look = new HostError("io", "the kernel was asked");
  host.network.faults.add("observe", look);
  host.firewall.faults.add("observe", look);
  const silent = keyOf(Number(relay?.slice(1)));
  host.devices.current?.setPeerStats(silent, { unansweredMs: 500, receivedAgeMs: 500 });
  host.devices.current?.emit({ kind: "unanswered", publicKey: silent, forMs: 500 });
  await clock.advance(150);
  t.equal(gateway.relay(), standby);
  const owner = `peer ${keyOf(Number(standby?.slice(1)))}`;
  const line = host.devices.current
    ?.print()
    .split("\n")
    .find((text) => text.includes(owner));
  t.match(line, "10.97.0.0/22", "services go to the other node");
  await stop();
});

void t.test(
  "a slot that another gateway took is left at once, then another one is claimed",
  async (t) => {
    const { clock, seed, host, gateway, leases, stop } = await readyWorld();
    const { slot } = gateway.status();
    const [lease] = leases();
    t.ok(lease);
    await seed.patch(LEASES, lease?.metadata ?? SECRET, { spec: { holderIdentity: "another" } });
    await clock.advance(10 * MINUTE);
    t.equal(host.devices.opened[0]?.isClosed, true);
    t.equal(gateway.problem(), null, "it has another slot");
    t.not(gateway.status().slot, slot);
    t.match(host.devices.current?.options.identity, { slot: gateway.status().slot });
    t.equal(leases().length, 2);
    await stop();
    t.match(leases(), [{ spec: { holderIdentity: "another" } }], "the other's Lease is its own");
  },
);

void t.test("a device that failed is opened again, and the path is proven anew", async (t) => {
  const { clock, host, paths, gateway, stop } = await readyWorld();
  const asked = paths.asked.length;
  host.devices.current?.emit({ kind: "failed", code: "io", message: "the TUN was deleted" });
  t.match(gateway.problem(), /no connection through the tunnel has been answered yet/u);
  await clock.advance(1_000);
  t.equal(host.devices.opened.length, 2);
  t.equal(host.devices.opened[0]?.isClosed, true);
  t.equal(gateway.problem(), null);
  t.equal(paths.asked.length, asked + 1);
  await stop();
});

void t.test(
  "no answer through the tunnel: not ready, asked again until there is one",
  async (t) => {
    const made = world();
    made.paths.noAnswer = "no answer from 10.250.0.1:10250 through the tunnel";
    made.seed.seed(TUNNELS, tunnel());
    made.seed.seed(SECRETS, secret());
    made.shoot.seed(NODES, node(1));
    made.shoot.seed(TUNNEL_AGENTS, agent(1));
    made.shoot.seed(SERVICES, service());
    const { gateway, stop } = made.start();
    await made.clock.advance(10_000);
    t.match(gateway.problem(), /^no answer from 10\.250\.0\.1:10250/u);
    t.match(made.paths.asked[0], { address: "10.250.0.1", port: 10_250 });
    t.ok(made.paths.asked.length > 4 && made.paths.asked.length < 12, "about once a second");
    made.paths.noAnswer = null;
    await made.clock.advance(2_000);
    t.equal(gateway.problem(), null);
    await stop();
  },
);

void t.test(
  "N51 a route that leads around the tunnel makes it not ready until it is gone",
  async (t) => {
    const { clock, paths, gateway, stop } = await readyWorld();
    paths.wrongWay = "the way to 10.250.0.1 does not lead through the tunnel";
    await clock.advance(70_000);
    t.match(gateway.problem(), /does not lead through the tunnel/u);
    paths.wrongWay = null;
    await clock.advance(70_000);
    t.equal(gateway.problem(), null);
    await stop();
  },
);

void t.test("a Tunnel that is gone leaves nothing, and one made anew is taken up", async (t) => {
  const { clock, seed, host, paths, gateway, leases, stop } = await readyWorld();
  await seed.delete(TUNNELS, NAME);
  await clock.advance(1_000);
  t.equal(host.print(), EMPTY);
  t.equal(leases().length, 0);
  t.match(gateway.problem(), /does not exist in the seed: nothing of it is left here/u);
  t.match(gateway.status(), { slot: null, endpoint: null, device: null });
  const writes = host.writes;
  await clock.advance(5 * MINUTE);
  t.equal(host.writes, writes, "there is nothing more to remove");
  paths.isHeld = true;
  seed.seed(TUNNELS, tunnel());
  await clock.advance(2_000);
  t.match(gateway.problem(), /no connection through the tunnel has been answered yet/u);
  await seed.delete(TUNNELS, NAME);
  await clock.advance(1_000);
  paths.held[0]?.(null);
  await clock.advance(0);
  t.match(gateway.problem(), /does not exist/u, "a late proof of the old tunnel proves nothing");
  paths.isHeld = false;
  seed.seed(TUNNELS, tunnel());
  await clock.advance(2_000);
  t.equal(gateway.problem(), null);
  await stop();
  t.equal(clock.pending, 0);
});

void t.test(
  "a Tunnel that waits for its finalizer is carried until the shoot was told",
  async (t) => {
    const { clock, seed, host, gateway, stop } = await readyWorld();
    const finalizers = ["xylem.dev/tunnel", "example.org/other"];
    await seed.patch(TUNNELS, NAME, { metadata: { finalizers } });
    await seed.delete(TUNNELS, NAME);
    await clock.advance(MINUTE);
    t.equal(gateway.problem(), null);
    await seed.patch(TUNNELS, NAME, { metadata: { finalizers: ["example.org/other"] } });
    await clock.advance(1_000);
    t.match(gateway.problem(), /is deleted, only others' finalizers hold it/u);
    t.equal(host.print(), EMPTY);
    await stop();
  },
);

void t.test("bad objects of the shoot become findings and stop nothing", async (t) => {
  const { clock, log, shoot, host, gateway, stop } = await readyWorld();
  shoot.seed(NODES, { metadata: { name: "odd" }, status: { addresses: "none" } });
  shoot.seed(TUNNEL_AGENTS, agent(3, { agentId: "many" }), agent(4, { agentId: 101 }));
  await clock.advance(1_000);
  t.equal(gateway.problem(), null);
  const findings = gateway.status().findings.map(({ code, object }) => `${code} ${object}`);
  t.strictSame(findings.toSorted(), [
    "agent-id-taken TunnelAgent n4",
    "unreadable Node odd",
    "unreadable TunnelAgent kube-system/n3",
  ]);
  await clock.advance(10 * MINUTE);
  const said = log.messages("warn").filter((line) => /TunnelAgent|Node odd/u.test(line));
  t.equal(said.length, new Set(said).size, "a finding is logged once");
  t.equal(host.devices.current?.stats().peers.length, 2);
  await stop();
});

void t.test("a host that refuses is told in one sentence and tried again", async (t) => {
  const made = world();
  made.host.devices.faults.add("open", new HostError("no-tun", "/dev/net/tun is missing"), 2);
  made.seed.seed(TUNNELS, tunnel());
  made.seed.seed(SECRETS, secret());
  made.shoot.seed(NODES, node(1));
  made.shoot.seed(TUNNEL_AGENTS, agent(1));
  made.shoot.seed(SERVICES, service());
  const { gateway, stop } = made.start();
  await made.clock.advance(500);
  t.equal(gateway.problem(), "/dev/net/tun is missing");
  await made.clock.advance(10_000);
  t.equal(gateway.problem(), null);
  made.host.firewall.faults.add("observe", new HostError("no-nft", "nft is missing"));
  await made.clock.advance(70_000);
  t.equal(gateway.problem(), "nft is missing");
  made.host.firewall.faults.clear();
  await made.clock.advance(31_000);
  t.equal(gateway.problem(), null);
  await stop();
});

void t.test("neither status nor log shows a secret", async (t) => {
  const { log, gateway, host, stop } = await readyWorld();
  const key = host.devices.current?.options.privateKey.bytes();
  const told = JSON.stringify([gateway.status(), log.lines]);
  for (const text of [MASTER, Buffer.from(key ?? []).toString("base64")]) {
    t.equal(text.length, 44);
    t.notOk(told.includes(text));
  }
  t.ok(told.includes(keyOf(1)), "public keys are shown");
  await stop();
});
