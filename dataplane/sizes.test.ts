/** Packets of every size around the tunnel's, and hosts that believe it takes more than it does. Needs root. */

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import t from "tap";
import { TRANSFER_PORT } from "./transfer-process.ts";
import { TunnelPair } from "./tunnel-pair.ts";

const program = fileURLToPath(new URL("transfer-process.ts", import.meta.url));
const isRoot = process.getuid?.() === 0;
const hasTun = spawnSync("test", ["-c", "/dev/net/tun"]).status === 0;
const skip = isRoot && hasTun ? false : "needs root and /dev/net/tun";

/** What the tunnel carries (tunnel-pair.ts). */
const MTU = 1380;
/** Bytes of an IP and an ICMP header. */
const families = [
  { name: "IPv4", headers: 28, of: { gateway: "10.99.0.1", agent: "10.99.0.2" } },
  { name: "IPv6", headers: 48, of: { gateway: "fd99::1", agent: "fd99::2" } },
] as const;
const ways = [
  { from: "gateway", to: "agent" },
  { from: "agent", to: "gateway" },
] as const;

/** The sizes that met another fate than they should, with what ping said. All at once: who is told a limit waits. */
const pingSizes = (
  pair: TunnelPair,
  from: "gateway" | "agent",
  { to, headers }: { readonly to: string; readonly headers: number },
): readonly string[] => {
  const one = `out=$(ping -n -c $count -i 0.2 -W $wait -M do -s $((size - ${headers})) ${to} 2>&1); echo $size $? $out`;
  // Apart: beside the answers of all others, ping has missed that its own packet was too long.
  const script = `count=3 wait=20; for size in $(seq 1300 ${MTU}); do (${one}) & done; wait
    count=3 wait=1; for size in $(seq ${MTU + 1} 1500); do (${one}) & done; wait`;
  const lines = pair.run(from, ["bash", "-c", script]).stdout.trim().split("\n");
  const isRight = (line: string): boolean => {
    const [size, status] = line.split(" ").map(Number);
    if ((size ?? 0) <= MTU) return status === 0;
    return status !== 0 && new RegExp(`mtu[=: ]*${MTU}`, "iu").test(line);
  };
  const wrong = lines.filter((line) => !isRight(line));
  return lines.length === 201 ? wrong : [...wrong, `${lines.length} answers of 201`];
};

/** What both ends threw away, for a failure's message. */
const dropsOf = async (pair: TunnelPair): Promise<string> => {
  const of = async (side: "gateway" | "agent"): Promise<string> => {
    const { counters } = await pair[side].stats();
    const drops = Object.entries(counters).filter(
      ([name, count]) => /drop|lost/u.test(name) && count > 0,
    );
    return `${side}: ${drops.map((drop) => drop.join(" ")).join(", ") || "no drops"}`;
  };
  return `${await of("gateway")}; ${await of("agent")}`;
};

t.setTimeout(300_000);

for (const outer of ["ipv4", "ipv6"] as const) {
  t.test(
    `W6 over ${outer} each size from 1300 to 1500 passes or is told the right limit`,
    { skip },
    async (t) => {
      const pair = await TunnelPair.open({ outer });
      t.teardown(() => pair.close());
      pair.greet("gateway", "10.99.0.2");
      for (const { name, headers, of } of families) {
        for (const { from, to } of ways) {
          const wrong = pingSizes(pair, from, { to: of[to], headers });
          const lost = wrong.length === 0 ? "" : `, ${await dropsOf(pair)}`;
          t.strictSame(wrong, [], `${name} from the ${from}${lost}`);
        }
      }
    },
  );
}

t.test(
  "W5 T40 hosts that believe the tunnel takes 9,000 bytes: both ends clamp, nothing stalls",
  { skip },
  async (t) => {
    const pair = await TunnelPair.open({ outer: "ipv4" });
    t.teardown(() => pair.close());
    pair.greet("gateway", "10.99.0.2");
    for (const side of ["gateway", "agent"] as const) {
      t.equal(pair.run(side, ["ip", "link", "set", "xylem0", "mtu", "9000"]).status, 0);
    }
    const clamped = async (): Promise<Record<"gateway" | "agent", number>> => ({
      gateway: (await pair.gateway.stats()).counters["mss_clamped"] ?? 0,
      agent: (await pair.agent.stats()).counters["mss_clamped"] ?? 0,
    });
    t.strictSame(await clamped(), { gateway: 0, agent: 0 });
    for (const { name, of } of families) {
      for (const { from, to } of ways) {
        const before = await clamped();
        const arrived = pair.start(to, [program, "receive"]);
        await pair.waitForListener(to, TRANSFER_PORT);
        const sent = await pair.start(from, [program, "send", of[to], "2000000"]);
        t.match(sent, /^[0-9a-f]{64}$/mu, `${name} from the ${from}: all was sent`);
        t.equal(await arrived, sent, `${name} from the ${from}: all arrived`);
        const after = await clamped();
        for (const side of ["gateway", "agent"] as const)
          t.ok(after[side] > before[side], `${name} from the ${from}: the ${side} clamped`);
      }
    }
  },
);
