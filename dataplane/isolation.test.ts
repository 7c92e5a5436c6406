/** Tunnels of several shoots on one machine, and many gateways that begin at the same time. Needs root. */

import { spawn, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import t from "tap";
import type { CrowdReport } from "./crowd-process.ts";
import { SERVER_PORT } from "./stack-server-process.ts";
import { TRANSFER_PORT } from "./transfer-process.ts";
import { AGENT_ID, newKeyPair, PORT, TunnelPair } from "./tunnel-pair.ts";

const path = (file: string): string => fileURLToPath(new URL(file, import.meta.url));
const isRoot = process.getuid?.() === 0;
const hasTun = spawnSync("test", ["-c", "/dev/net/tun"]).status === 0;
const skip = isRoot && hasTun ? false : "needs root and /dev/net/tun";

t.setTimeout(300_000);

t.test(
  "T3 a shoot that fills its tunnel costs another shoot's tunnel no packet",
  { skip },
  async (t) => {
    const [busy, calm] = await Promise.all([
      TunnelPair.open({ outer: "ipv4" }),
      TunnelPair.open({ outer: "ipv4" }),
    ]);
    t.teardown(() => Promise.all([busy.close(), calm.close()]));
    for (const pair of [busy, calm]) pair.greet("gateway", "10.99.0.2");
    const pings = ["10.99.0.2", "fd99::2"].map((to) =>
      calm.startPing("gateway", to, ["-c", "400", "-i", "0.01"]),
    );
    let carried = 0;
    while (!pings.every((each) => each.isDone())) {
      const arrived = busy.start("agent", [path("transfer-process.ts"), "receive"]);
      await busy.waitForListener("agent", TRANSFER_PORT);
      const argv = [path("transfer-process.ts"), "send", "10.99.0.2", "20000000"];
      const sent = await busy.start("gateway", argv);
      t.equal(await arrived, sent, "the busy tunnel carried 20 MB");
      carried += 1;
    }
    t.ok(carried > 0);
    for (const { done } of pings) t.match(await done, { sent: 400, received: 400 });
    t.equal((await calm.gateway.stats()).counters["handshakes_done"], 1);
  },
);

/** All slots of a tunnel: more gateways can't share an agent. */
const CROWD = 256;

t.test(
  "W56 256 gateways behind one address restart together: all are up within 10 s",
  { skip },
  async (t) => {
    const pair = await TunnelPair.open({ outer: "ipv4", noTun: true });
    t.teardown(() => pair.close());
    const keys = Array.from({ length: CROWD }, newKeyPair);
    const address = (slot: number): string => `10.98.${slot >> 6}.${(slot & 63) + 1}`;
    const peers = keys.map(({ publicKey }, slot) => ({
      publicKey,
      agentId: AGENT_ID,
      slot,
      endpoint: null,
      allowedIps: [`${address(slot)}/32`],
    }));
    await pair.agent.set({ peers, steering: [] });
    pair.run("agent", ["ip", "route", "add", "10.98.0.0/16", "dev", "xylem0"]);
    const echo = spawn("nsenter", [
      `--net=/run/netns/${pair.namespaces.agent}`,
      process.execPath,
      path("stack-server-process.ts"),
    ]);
    t.teardown(() => echo.kill("SIGKILL"));
    await pair.waitForListener("agent", SERVER_PORT);
    const crowd = {
      agent: { publicKey: pair.keys.agent.publicKey, id: AGENT_ID, endpoint: `192.0.2.2:${PORT}` },
      target: `10.99.0.2:${SERVER_PORT}`,
      gateways: keys.map(({ privateKey }, slot) => ({ privateKey, slot, address: address(slot) })),
    };
    for (const round of ["a first start", "a restart of all"]) {
      const output = await pair.start("gateway", [path("crowd-process.ts"), JSON.stringify(crowd)]);
      const { upMs } = JSON.parse(output) as CrowdReport;
      t.equal(upMs.length, CROWD, `${round}: all got an answer`);
      const last = Math.max(...upMs);
      t.ok(last < 10_000, `${round}: the last was up after ${last.toFixed(0)} ms`);
    }
  },
);
