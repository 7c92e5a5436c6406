/** Ends that move to another address, or have several: the session goes on, and answers come from where they were asked. */

import { spawnSync } from "node:child_process";
import t from "tap";
import { PORT, TunnelPair } from "./tunnel-pair.ts";

const isRoot = process.getuid?.() === 0;
const hasTun = spawnSync("test", ["-c", "/dev/net/tun"]).status === 0;
const skip = isRoot && hasTun ? false : "needs root and /dev/net/tun";

const families = [
  {
    outer: "ipv4",
    gateway: "192.0.2.1/24",
    moved: "192.0.2.77/24",
    agent: "192.0.2.2",
    second: "192.0.2.22",
    match: "ip saddr 192.0.2.2",
  },
  {
    outer: "ipv6",
    gateway: "2001:db8::1/64",
    moved: "2001:db8::77/64",
    agent: "2001:db8::2",
    second: "2001:db8::22",
    match: "ip6 saddr 2001:db8::2",
  },
] as const;

const must = (pair: TunnelPair, side: "gateway" | "agent", command: string): void => {
  const { status, stderr } = pair.run(side, command.split(" "));
  if (status !== 0) throw new Error(`${command}: ${stderr}`);
};

const host = (prefix: string): string => prefix.slice(0, prefix.indexOf("/"));

const endpoint = (address: string): string =>
  address.includes(":") ? `[${address}]:` : `${address}:`;

t.setTimeout(120_000);

for (const { outer, gateway, moved, agent, second, match } of families) {
  const flags = outer === "ipv6" ? " nodad" : "";

  t.test(
    `W14 over ${outer} the same key at another address is followed at once, without a handshake`,
    { skip },
    async (t) => {
      const pair = await TunnelPair.open({ outer });
      t.teardown(() => pair.close());
      pair.greet("gateway", "10.99.0.2");
      const { handshakes_done: before } = (await pair.gateway.stats()).counters;
      must(pair, "gateway", `ip addr del ${gateway} dev veth0`);
      must(pair, "gateway", `ip addr add ${moved} dev veth0${flags}`);
      t.match(pair.ping("gateway", "10.99.0.2", 5), { received: 5 }, "the first packets pass");
      t.match(pair.ping("agent", "10.99.0.1", 3), { received: 3 }, "and back");
      const [peer] = (await pair.agent.stats()).peers;
      const at = endpoint(host(moved));
      t.ok(peer?.endpoint?.startsWith(at), `the agent answers to ${peer?.endpoint}`);
      t.equal((await pair.gateway.stats()).counters["handshakes_done"], before);
    },
  );

  t.test(
    `W20 over ${outer} an agent with two addresses answers from the one that was asked`,
    { skip },
    async (t) => {
      const pair = await TunnelPair.open({ outer });
      t.teardown(() => pair.close());
      const bits = outer === "ipv6" ? 64 : 24;
      must(pair, "agent", `ip addr add ${second}/${bits} dev veth0${flags}`);
      // As a NAT or a stateful filter would, nothing lets in an answer from the address that was not asked.
      must(pair, "gateway", "nft add table inet lab");
      const chain = "{ type filter hook input priority 0 ; }";
      must(pair, "gateway", `nft add chain inet lab input ${chain}`);
      must(pair, "gateway", `nft add rule inet lab input ${match} udp sport ${PORT} counter drop`);
      const desired = pair.desired("gateway");
      const peers = desired.peers.map((peer) => ({
        ...peer,
        endpoint: `${endpoint(second)}${PORT}`,
      }));
      await pair.gateway.set({ ...desired, peers });
      pair.greet("gateway", "10.99.0.2");
      t.match(pair.ping("gateway", "10.99.0.2", 5), { received: 5 });
      t.match(pair.ping("agent", "fd99::1", 5), { received: 5 });
      const { stdout } = pair.run("gateway", ["nft", "list", "chain", "inet", "lab", "input"]);
      t.match(stdout, /counter packets 0 /u, `no answer came from ${agent}`);
    },
  );
}
