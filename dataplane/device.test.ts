/** Two devices in two fresh network namespaces: pings both ways, roaming, and what is left after a stop. Needs root. */

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import t from "tap";
import { TRANSFER_PORT } from "./transfer-process.ts";
import { TunnelPair } from "./tunnel-pair.ts";

const program = fileURLToPath(new URL("transfer-process.ts", import.meta.url));
const isRoot = process.getuid?.() === 0;
const hasTun = spawnSync("test", ["-c", "/dev/net/tun"]).status === 0;
const skip = isRoot && hasTun ? false : "needs root and /dev/net/tun";

t.test("two devices", { skip }, async (t) => {
  for (const family of ["ipv4", "ipv6"] as const) {
    t.test(`carry pings of both families over ${family}, whoever speaks first`, async (t) => {
      const pair = await TunnelPair.open({ outer: family });
      t.teardown(() => pair.close());
      t.match(pair.ping("gateway", "10.99.0.2", 3), { received: 3 });
      t.match(pair.ping("agent", "10.99.0.1", 3), { received: 3 });
      t.match(pair.ping("gateway", "fd99::2", 3), { received: 3 });
      const stats = await pair.gateway.stats();
      t.equal(stats.peers.length, 1);
      t.ok((stats.peers[0]?.handshakeAgeMs ?? -1) >= 0, "a handshake is known");
      t.equal(stats.counters["handshakes_done"], 1);
      t.equal(stats.counters["drop_source"], 0);
    });
  }

  t.test("choose indices that name the agent and the slot", async (t) => {
    const pair = await TunnelPair.open({ outer: "ipv4" });
    t.teardown(() => pair.close());
    pair.ping("gateway", "10.99.0.2", 1);
    const event = await pair.gateway.event("handshake");
    t.equal((event.index ?? 0) >>> 16, 4711);
    t.equal(((event.index ?? 0) >>> 8) & 0xff, 3);
    const other = await pair.agent.event("handshake");
    t.equal((other.index ?? 0) >>> 8, (event.index ?? 0) >>> 8);
  });

  t.test("do nothing when they already hold what is desired", async (t) => {
    const pair = await TunnelPair.open({ outer: "ipv4" });
    t.teardown(() => pair.close());
    pair.ping("gateway", "10.99.0.2", 1);
    const nothing = {
      peersAdded: 0,
      peersUpdated: 0,
      peersRemoved: 0,
      steeringChanged: 0,
      conflicts: [],
    };
    t.strictSame(await pair.gateway.set(pair.desired("gateway")), nothing);
    t.strictSame(await pair.agent.set(pair.desired("agent")), nothing);
    t.match(pair.ping("gateway", "10.99.0.2", 1), { received: 1 });
    t.equal((await pair.gateway.stats()).counters["handshakes_done"], 1);
  });

  t.test("W23 lose no packet while allowed IPs are swapped under a flood", async (t) => {
    const pair = await TunnelPair.open({ outer: "ipv4" });
    t.teardown(() => pair.close());
    pair.greet("gateway", "10.99.0.2");
    const flood = pair.startPing("gateway", "10.99.0.2", ["-c", "2500", "-i", "0.002"]);
    const desired = pair.desired("gateway");
    let updated = 0;
    for (let round = 0; !flood.isDone(); round += 1) {
      const extra = round % 2 === 0 ? ["10.77.0.0/16"] : [];
      const peers = desired.peers.map((p) => ({ ...p, allowedIps: [...p.allowedIps, ...extra] }));
      const report = await pair.gateway.set({ ...desired, peers });
      updated += report.peersUpdated;
    }
    t.ok(updated > 50, "there were many updates");
    t.match(await flood.done, { sent: 2500, received: 2500 });
  });

  t.test("T13 leave no interface, socket or thread behind, closed once or twice", async (t) => {
    const pair = await TunnelPair.open({ outer: "ipv4" });
    t.teardown(() => pair.close());
    pair.ping("gateway", "10.99.0.2", 1);
    t.match(pair.run("gateway", ["ip", "link", "show", "xylem0"]), { status: 0 });
    t.match(pair.run("gateway", ["ss", "-Hlun"]).stdout, /:\d+/u);
    await Promise.all([pair.gateway.close(), pair.gateway.close()]);
    t.not(pair.run("gateway", ["ip", "link", "show", "xylem0"]).status, 0);
    t.equal(pair.run("gateway", ["ss", "-Hun", "-a"]).stdout, "");
    await t.rejects(pair.gateway.set(pair.desired("gateway")), { code: "closed" });
    await pair.gateway.close();
  });

  t.test("refuse bad input with a code", async (t) => {
    const pair = await TunnelPair.open({ outer: "ipv4" });
    t.teardown(() => pair.close());
    const desired = pair.desired("gateway");
    const peer = desired.peers[0];
    if (peer === undefined) throw new Error("no peer");
    const bad = [
      { ...peer, publicKey: "short" },
      { ...peer, agentId: 70_000 },
      { ...peer, slot: 256 },
      { ...peer, endpoint: "example.com:1" },
      { ...peer, endpoint: "1.2.3.4:0" },
      { ...peer, allowedIps: ["10.0.0.1/8"] },
    ];
    for (const p of bad) {
      await t.rejects(pair.gateway.set({ ...desired, peers: [p] }), { code: "bad-config" });
    }
    await t.rejects(pair.gateway.set({ ...desired, peers: [peer, peer] }), { code: "bad-config" });
    t.match(pair.ping("gateway", "10.99.0.2", 1), { received: 1 }, "nothing was half applied");
  });

  for (const offload of [true, false]) {
    t.test(`carry 20 MB unharmed both ways, offloads ${offload ? "on" : "off"}`, async (t) => {
      const pair = await TunnelPair.open({ outer: "ipv4", offload });
      t.teardown(() => pair.close());
      pair.greet("gateway", "10.99.0.2");
      const routes = [
        { from: "gateway", to: "agent", address: "10.99.0.2" },
        { from: "agent", to: "gateway", address: "fd99::1" },
      ] as const;
      for (const { from, to, address } of routes) {
        const arrived = pair.start(to, [program, "receive"]);
        await pair.waitForListener(to, TRANSFER_PORT);
        const sent = await pair.start(from, [program, "send", address, "20000000"]);
        t.match(sent, /^[0-9a-f]{64}$/mu);
        t.equal(await arrived, sent, `from the ${from} to ${address}`);
      }
      const { offloads } = await pair.gateway.stats();
      t.strictSame(offloads, { tun: offload, udpSend: offload, udpReceive: offload });
    });
  }

  t.test("T27 find each other again when the agent was killed", async (t) => {
    const pair = await TunnelPair.open({ outer: "ipv4" });
    t.teardown(() => pair.close());
    pair.greet("gateway", "10.99.0.2");
    // Traffic all the time, however long the agent's process takes to start.
    const pings = pair.startPing("gateway", "10.99.0.2", ["-i", "0.05"]);
    await pair.restartAgent();
    const restarted = performance.now();
    await pair.agent.event("handshake");
    // About one second; WireGuard's own timers would take 15.
    t.ok(performance.now() - restarted < 8_000, "a new session came by itself");
    t.match(pair.ping("gateway", "10.99.0.2", 20), { received: 20 });
    pings.stop();
    const { received } = await pings.done;
    t.ok(received > 0, `${received} pings were answered meanwhile`);
    const handshakes = pair.gateway.events.filter((e) => e.kind === "handshake");
    t.ok(handshakes.length >= 2, "with a session of its own");
  });

  t.test("refuse at once what no peer can take, in both families", async (t) => {
    const pair = await TunnelPair.open({ outer: "ipv4" });
    t.teardown(() => pair.close());
    for (const address of ["10.99.0.9", "fd99::9"]) {
      const dial = ["bash", "-c", `exec 3<>/dev/tcp/${address}/80`];
      const { status, stderr } = pair.run("gateway", ["timeout", "30", ...dial]);
      t.equal(status, 1);
      t.match(stderr, /No route to host/u);
    }
  });

  t.test("say when the interface was deleted under them", async (t) => {
    const pair = await TunnelPair.open({ outer: "ipv4" });
    t.teardown(() => pair.close());
    pair.run("gateway", ["ip", "link", "del", "xylem0"]);
    t.match(await pair.gateway.event("failed"), { code: "io", message: /xylem0/u });
  });

  t.test("end a process that forgot to close its device", async (t) => {
    const pair = await TunnelPair.open({ outer: "ipv4" });
    t.teardown(() => pair.close());
    t.equal(await pair.gateway.leave(), 0);
    t.not(pair.run("gateway", ["ip", "link", "show", "xylem0"]).status, 0);
  });
});
