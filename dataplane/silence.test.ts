/** A session that carried data says nothing in silence, not even when WireGuard's two minutes are over. */

import { spawnSync } from "node:child_process";
import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import { TunnelPair } from "./tunnel-pair.ts";

const isRoot = process.getuid?.() === 0;
const hasTun = spawnSync("test", ["-c", "/dev/net/tun"]).status === 0;
const skip = isRoot && hasTun ? false : "needs root and /dev/net/tun";

/** Datagrams that left the machine, as its kernel counts them. */
const sentBy = (pair: TunnelPair, side: "gateway" | "agent"): number => {
  const { stdout } = pair.run(side, ["cat", "/proc/net/snmp"]);
  const [names = "", values = ""] = stdout.split("\n").filter((line) => line.startsWith("Udp:"));
  return Number(values.split(" ")[names.split(" ").indexOf("OutDatagrams")]);
};

t.test(
  "no key is renewed in silence, and the next packet after it works at once",
  { skip, timeout: 300_000 },
  async (t) => {
    const pair = await TunnelPair.open({ outer: "ipv4" });
    t.teardown(() => pair.close());
    pair.greet("gateway", "10.99.0.2");
    // Data at an age of 100 s, so that the session is in use shortly before its keys would be renewed.
    await after(100_000);
    t.match(pair.ping("gateway", "10.99.0.2", 3), { received: 3 }, "data at 100 s");
    await after(12_000);
    const before = { gateway: sentBy(pair, "gateway"), agent: sentBy(pair, "agent") };
    await after(40_000);
    const later = { gateway: sentBy(pair, "gateway"), agent: sentBy(pair, "agent") };
    t.strictSame(later, before, "datagrams sent from 112 s to 152 s");
    t.equal((await pair.gateway.stats()).counters["handshakes_started"], 1, "no other handshake");
    t.match(pair.ping("gateway", "10.99.0.2", 5), { sent: 5, received: 5 }, "the session goes on");
    await after(3_000);
    t.equal((await pair.gateway.stats()).counters["handshakes_done"], 2, "renewed when used");
    await after(40_000);
    t.match(pair.ping("gateway", "10.99.0.2", 3), { received: 3 }, "and on");
  },
);
