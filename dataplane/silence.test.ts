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

type Ends = Readonly<Record<"gateway" | "agent", number | undefined>>;

const count = async (pair: TunnelPair, counter: string): Promise<Ends> => ({
  gateway: (await pair.gateway.stats()).counters[counter],
  agent: (await pair.agent.stats()).counters[counter],
});

const handshakes = (pair: TunnelPair): Promise<Ends> => count(pair, "handshakes_done");

/** Keepalives by which the other end said, ten seconds later, that an answer had come. */
const acknowledged = (pair: TunnelPair): Promise<Ends> => count(pair, "keepalives_received");

t.test(
  "no key is renewed in silence, and the next packet after it works at once",
  { skip, timeout: 300_000 },
  async (t) => {
    const pair = await TunnelPair.open({ outer: "ipv4" });
    t.teardown(() => pair.close());
    pair.greet("gateway", "10.99.0.2");
    // Data at an age of 85 s, so that the session is in use shortly before its keys would be renewed.
    await after(85_000);
    t.strictSame(
      await acknowledged(pair),
      { gateway: 0, agent: 2 },
      "the handshake, and the first answer once",
    );
    t.match(pair.ping("gateway", "10.99.0.2", 3), { received: 3 }, "data at 85 s");
    await after(20_000);
    t.strictSame(await acknowledged(pair), { gateway: 0, agent: 3 }, "the last answer, once");
    t.strictSame(await handshakes(pair), { gateway: 1, agent: 1 }, "nobody doubts an answer");
    const before = { gateway: sentBy(pair, "gateway"), agent: sentBy(pair, "agent") };
    await after(50_000);
    const later = { gateway: sentBy(pair, "gateway"), agent: sentBy(pair, "agent") };
    t.strictSame(later, before, "datagrams sent from 107 s to 157 s");
    t.match(pair.ping("gateway", "10.99.0.2", 5), { sent: 5, received: 5 }, "the session goes on");
    await after(3_000);
    t.strictSame(await handshakes(pair), { gateway: 2, agent: 2 }, "renewed once, when used");
    await after(40_000);
    t.match(pair.ping("gateway", "10.99.0.2", 3), { received: 3 }, "and on");
  },
);
