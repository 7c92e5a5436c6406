/** The agent's life on fakes: what it waits for, what the node holds, and when it lets go. */

import t from "tap";
import { HostError } from "#src/ports/host-error.ts";
import { NODES, TUNNEL_AGENTS, TUNNEL_GATEWAYS } from "#src/ports/kube-resource.ts";
import {
  GATEWAYS,
  gateways,
  keyOf,
  node,
  OWN,
  OWN_ID,
  privateKey,
  publicKey,
  readyWorld,
  rival,
  world,
} from "./agent-world.ts";

const MINUTE = 60_000;
const EMPTY = "no firewall table\nno device";

void t.test("it says what it waits for, registers, and is ready", async (t) => {
  const { clock, kube, host, start } = world();
  kube.breakDown();
  const { agent, stop } = start();
  const says = async (want: RegExp | null): Promise<void> => {
    await clock.advance(3_000);
    if (want === null) t.equal(agent.problem(), null);
    else t.match(agent.problem(), want);
  };
  await says(/fake: list .*: outage/u);
  kube.recover();
  await clock.advance(30_000);
  await says(/^there is no readable Node n1: give the name .* with --node/u);
  t.equal(kube.peekAll(TUNNEL_AGENTS).length, 0);
  kube.seed(NODES, node(1));
  await says(/^TunnelGateways kube-system\/xylem does not exist: nothing of a tunnel is left/u);
  t.equal(kube.peekAll(TUNNEL_AGENTS).length, 1, "it registers before it knows its gateways");
  t.equal(host.print(), EMPTY);
  kube.seed(TUNNEL_GATEWAYS, gateways());
  await says(null);
  await stop();
  t.equal(clock.pending, 0, "no timer is left");
});

void t.test("what the node holds when it is ready, and that a stop leaves nothing", async (t) => {
  const { kube, host, agent, stop } = await readyWorld();
  const device = host.devices.current;
  t.match(device?.options, { listenPort: 51_820, paths: 1, identity: { kind: "agent" } });
  const text = host.print();
  t.match(text, /^link xylem0 mtu 1380 up$/mu);
  t.match(text, /route 198\.18\.0\.0\/23 dev xylem0 proto 158/u);
  t.match(text, new RegExp(`agent ${OWN_ID} slot 1 waits allows 198\\.18\\.0\\.2/32`, "u"));
  t.match(text, /masquerade/u);
  t.match(kube.peek(TUNNEL_AGENTS, OWN), {
    metadata: { ownerReferences: [{ kind: "Node", name: "n1", uid: "uid-of-n1" }] },
    spec: { publicKey, agentId: OWN_ID, port: 51_820, version: "0.1.0" },
  });
  t.equal(agent.status().agentId, OWN_ID);
  await stop();
  t.equal(host.print(), EMPTY);
  t.ok(kube.peek(TUNNEL_AGENTS, OWN), "the claim stays: the next start needs no write");
});

void t.test(
  "maps in TunnelGateways become rules, a route and allowed sources; without them nothing is left",
  async (t) => {
    const { clock, kube, host, agent, passes, stop } = await readyWorld();
    const before = host.print();
    const maps = [
      { real: "10.250.0.0/20", mapped: "10.64.0.0/20" },
      { real: "198.18.0.0/23", mapped: "10.65.0.0/23" },
    ];
    await kube.patch(TUNNEL_GATEWAYS, GATEWAYS, { spec: { maps } });
    await clock.advance(1_000);
    const text = host.print();
    t.match(
      text,
      /daddr 10\.64\.0\.0\/20 counter ip daddr set ip daddr & 0\.0\.15\.255 \| 10\.250\.0\.0/u,
    );
    t.match(
      text,
      /ip daddr \{ 10\.65\.0\.0\/23 \} ip saddr 10\.250\.0\.0\/20 counter ip saddr set/u,
    );
    t.match(text, /route 10\.65\.0\.0\/23 dev xylem0 proto 158/u);
    t.match(text, /slot 1 waits allows 198\.18\.0\.2\/32,? ?10\.65\.0\.2\/32/u);
    const writes = host.writes;
    await clock.advance(10 * MINUTE);
    t.equal(host.writes, writes, "nothing is written again");
    t.ok(passes.every(({ isReached }) => isReached));
    await kube.patch(TUNNEL_GATEWAYS, GATEWAYS, { spec: { maps: null } });
    await clock.advance(1_000);
    t.equal(host.print(), before);
    await stop();
    t.equal(agent.problem(), "stopping");
  },
);

void t.test("a map that would take a real address away is not used, and told", async (t) => {
  const { clock, kube, host, agent, stop } = await readyWorld();
  const before = host.print();
  const maps = [
    { real: "10.250.0.0/20", mapped: "10.222.0.0/20" },
    { real: "198.18.0.0/23", mapped: "10.65.0.0/23" },
  ];
  await kube.patch(TUNNEL_GATEWAYS, GATEWAYS, { spec: { maps } });
  await clock.advance(1_000);
  t.notMatch(host.print(), /10\.222\.0\.0\/20/u);
  t.not(host.print(), before, "the other one is");
  t.match(agent.status().findings, [
    {
      code: "map-not-used",
      message: /10\.222\.0\.0\/17 of this tunnel overlaps 10\.222\.0\.0\/20/u,
    },
  ]);
  await stop();
});

void t.test("W57 an hour without news: passes run, nothing is written", async (t) => {
  const { clock, kube, host, passes, stop } = await readyWorld();
  const before = [host.writes, kube.writes.length];
  const ran = passes.length;
  await clock.advance(60 * MINUTE);
  t.strictSame([host.writes, kube.writes.length], before);
  t.ok(passes.length > ran + 50, `${passes.length} passes`);
  await stop();
});

void t.test("another agent is steered to, and no more when its Node is gone", async (t) => {
  const { clock, kube, host, stop } = await readyWorld();
  kube.seed(TUNNEL_AGENTS, rival(2));
  await clock.advance(1_000);
  t.match(host.devices.current?.print(), /steering .*"agentId":102.*10\.250\.0\.2/u);
  await kube.delete(NODES, { name: "n2" });
  await clock.advance(1_000);
  t.notMatch(host.devices.current?.print(), /steering/u);
  await stop();
});

void t.test("a younger agent that lost its id picks another and opens a new device", async (t) => {
  const { clock, kube, host, agent, stop } = await readyWorld();
  const older = { creationTimestamp: "2025-01-01T00:00:00Z" };
  kube.seed(TUNNEL_AGENTS, rival(2, { agentId: OWN_ID }, older));
  await clock.advance(2_000);
  const next = (OWN_ID % 65_535) + 1;
  t.match(kube.peek(TUNNEL_AGENTS, OWN), { spec: { agentId: next, publicKey } });
  t.equal(agent.status().agentId, next);
  t.equal(host.devices.opened.length, 2);
  t.equal(host.devices.opened[0]?.isClosed, true);
  t.match(host.devices.current?.options.identity, { agentId: next });
  t.equal(agent.problem(), null);
  await stop();
});

void t.test("an older agent keeps its id, whoever else claims it", async (t) => {
  const { clock, kube, host, agent, stop } = await readyWorld();
  await clock.advance(MINUTE);
  kube.seed(TUNNEL_AGENTS, rival(2, { agentId: OWN_ID }));
  await clock.advance(2_000);
  t.equal(agent.status().agentId, OWN_ID);
  t.equal(host.devices.opened.length, 1);
  await stop();
});

void t.test("S3 a node whose API takes no write keeps its tunnel", async (t) => {
  const first = await readyWorld();
  await first.stop();
  const { clock, log, kube, host, start } = first;
  // The node moved: the registration would have to be written anew.
  await kube.patch(TUNNEL_AGENTS, OWN, { spec: { port: 4_000 } });
  kube.failNext("patch", "server-error");
  const { agent, stop } = start();
  await clock.advance(2_000);
  t.equal(agent.problem(), null);
  t.equal(agent.status().agentId, OWN_ID);
  t.ok(host.devices.current);
  t.match(log.messages("warn").at(-1), /could not be updated, the old one stands/u);
  await clock.advance(2 * MINUTE);
  t.match(kube.peek(TUNNEL_AGENTS, OWN), { spec: { port: 51_820 } }, "tried again later");
  await stop();
});

void t.test("a first registration that is refused is told and tried again", async (t) => {
  const made = world();
  made.kube.seed(NODES, node(1));
  made.kube.seed(TUNNEL_GATEWAYS, gateways());
  made.kube.failNext("create", "forbidden");
  const { agent, stop } = made.start();
  await made.clock.advance(300);
  t.match(agent.problem(), /create TunnelAgent kube-system\/n1/u);
  t.equal(made.host.print(), EMPTY);
  await made.clock.advance(5_000);
  t.equal(agent.problem(), null);
  await stop();
});

void t.test("TunnelGateways that are withdrawn leave nothing; new ones are taken up", async (t) => {
  const { clock, kube, host, agent, passes, stop } = await readyWorld();
  const annotations = { "xylem.dev/withdrawn": "true" };
  await kube.patch(TUNNEL_GATEWAYS, GATEWAYS, { metadata: { annotations } });
  await clock.advance(1_000);
  t.equal(agent.problem(), null, "the mark alone ends nothing: the delete may need the tunnel");
  await kube.delete(TUNNEL_GATEWAYS, GATEWAYS);
  await clock.advance(1_000);
  t.equal(host.print(), EMPTY);
  t.match(agent.problem(), /TunnelGateways kube-system\/xylem does not exist: nothing .* is left/u);
  t.ok(kube.peek(TUNNEL_AGENTS, OWN));
  const writes = host.writes;
  await clock.advance(5 * MINUTE);
  t.equal(host.writes, writes);
  kube.seed(TUNNEL_GATEWAYS, gateways());
  await clock.advance(1_000);
  t.equal(agent.problem(), null);
  t.equal(host.devices.current?.stats().peers.length, 2);
  t.ok(passes.some((pass) => pass.writes > 0));
  await stop();
});

void t.test(
  "TunnelGateways that are marked and gone in one burst were withdrawn all the same",
  async (t) => {
    const { clock, kube, host, agent, stop } = await readyWorld();
    const annotations = { "xylem.dev/withdrawn": "true" };
    await Promise.all([
      kube.patch(TUNNEL_GATEWAYS, GATEWAYS, { metadata: { annotations } }),
      kube.delete(TUNNEL_GATEWAYS, GATEWAYS),
    ]);
    await clock.advance(1_000);
    t.equal(host.print(), EMPTY);
    t.match(agent.problem(), /TunnelGateways kube-system\/xylem does not exist/u);
    await stop();
  },
);

void t.test("S3 TunnelGateways that somebody deletes are held, but not for ever", async (t) => {
  const { clock, kube, host, agent, stop } = await readyWorld();
  const before = host.print();
  await kube.delete(TUNNEL_GATEWAYS, GATEWAYS);
  await clock.advance(9 * MINUTE);
  t.equal(host.print(), before);
  t.equal(agent.problem(), null);
  t.match(agent.status().findings, [{ code: "gateways-lost", message: /not by the controller/u }]);
  kube.seed(TUNNEL_GATEWAYS, gateways());
  await clock.advance(1_000);
  t.same(agent.status().findings, []);
  await kube.delete(TUNNEL_GATEWAYS, GATEWAYS);
  await clock.advance(11 * MINUTE);
  t.equal(host.print(), EMPTY);
  t.match(agent.problem(), /TunnelGateways kube-system\/xylem does not exist/u);
  await stop();
});

void t.test("TunnelGateways that can't be read end nothing", async (t) => {
  const { clock, kube, host, agent, stop } = await readyWorld();
  const before = host.print();
  await kube.patch(TUNNEL_GATEWAYS, GATEWAYS, { spec: { mtu: 1 } });
  await clock.advance(2_000);
  t.match(agent.problem(), /^TunnelGateways kube-system\/xylem: spec\.mtu/u);
  t.equal(host.print(), before);
  await stop();
});

void t.test("what a killed run left is removed even if there is no tunnel any more", async (t) => {
  const first = await readyWorld();
  const left = first.host.firewall;
  const { clock, kube, start, host } = world();
  const observed = await left.observe();
  if (observed !== null) await host.firewall.replace(observed.table);
  kube.seed(NODES, node(1));
  const { stop } = start();
  await clock.advance(2_000);
  t.equal(host.print(), EMPTY);
  await stop();
  await first.stop();
});

void t.test("bad objects become findings, which are logged once and stop nothing", async (t) => {
  const { clock, log, kube, agent, stop } = await readyWorld();
  kube.seed(NODES, { metadata: { name: "odd" }, status: { addresses: "none" } });
  kube.seed(TUNNEL_AGENTS, rival(3, { publicKey: "AAAA" }));
  await clock.advance(5 * MINUTE);
  t.equal(agent.problem(), null);
  t.match(agent.status().findings, [{ object: "Node odd" }, { object: /TunnelAgent .*n3/u }]);
  t.equal(log.messages("warn").filter((line) => line.includes("odd")).length, 1);
  await stop();
});

void t.test("a device that failed is opened again; a port in use is told", async (t) => {
  const { clock, host, agent, stop } = await readyWorld();
  const message = "UDP port 51820 is in use";
  host.devices.faults.add("open", new HostError("port-in-use", message), 1);
  host.devices.current?.emit({ kind: "failed", code: "io", message: "the TUN was deleted" });
  await clock.advance(200);
  t.equal(agent.problem(), message);
  await clock.advance(2_000);
  t.equal(agent.problem(), null);
  t.equal(host.devices.opened.length, 2);
  await stop();
});

void t.test("neither status nor log shows the private key", async (t) => {
  const { log, agent, stop } = await readyWorld();
  const told = JSON.stringify([agent.status(), log.lines]);
  t.notOk(told.includes(Buffer.from(privateKey.bytes()).toString("base64")));
  t.ok(told.includes(publicKey) && told.includes(keyOf(0)));
  await stop();
});
