/** A gateway whose shoot overlaps its seed: its routes are apart, needed addresses stay out, maps come and stay. */

import t from "tap";
import { NODES, SECRETS, SERVICES, TUNNEL_AGENTS, TUNNELS } from "#src/ports/kube-resource.ts";
import { valueOf } from "#src/model/parsed.ts";
import { parseIp } from "#src/model/ip.ts";
import { agent, NAME, node, readyWorld, secret, service, tunnel, world } from "./gateway-world.ts";

const MAPS = [
  { real: "10.250.0.0/20", mapped: "10.64.0.0/20" },
  { real: "198.18.0.0/23", mapped: "10.65.0.0/23" },
];
const MINUTE = 60_000;

void t.test(
  "published maps become addresses, routes of our own table and allowed addresses",
  async (t) => {
    const { clock, seed, host, gateway, passes, stop } = await readyWorld();
    const before = host.print();
    t.notMatch(before, /table 158|rule|mark/u);
    await seed.patchStatus(TUNNELS, NAME, { status: { addressMaps: MAPS } });
    await clock.advance(1_000);
    const text = host.print();
    const slot = Number(gateway.status().slot);
    t.match(text, new RegExp(`10\\.65\\.0\\.${slot + 1}/32`, "u"));
    t.match(
      text,
      new RegExp(
        `route 10\\.64\\.0\\.0/20 dev xylem0 from 10\\.65\\.0\\.${slot + 1} proto 158 table 158`,
        "u",
      ),
    );
    t.match(
      text,
      new RegExp(
        `route 10\\.250\\.0\\.0/20 dev xylem0 from 198\\.18\\.0\\.${slot + 1} proto 158 table 158`,
        "u",
      ),
    );
    t.match(text, /^rule IPv4 own table$/mu);
    t.match(text, /ct direction reply counter meta mark set 158/u);
    t.match(text, /10\.250\.0\.1\/32.*10\.64\.0\.1\/32/u);
    t.notMatch(
      text,
      /^route \S+ dev xylem0 from \S+ proto 158$/mu,
      "nothing is left in the main table",
    );
    const writes = host.writes;
    await clock.advance(10 * MINUTE);
    t.equal(host.writes, writes, "nothing is written again");
    t.ok(passes.every(({ isReached }) => isReached));
    await seed.patchStatus(TUNNELS, NAME, { status: { addressMaps: null } });
    await clock.advance(1_000);
    t.equal(host.print(), before, "and all of it goes");
    await stop();
    t.equal(host.print(), "no firewall table\nno device");
  },
);

void t.test("maps that can't be read leave the last ones, and are told", async (t) => {
  const { clock, seed, host, gateway, stop } = await readyWorld();
  await seed.patchStatus(TUNNELS, NAME, { status: { addressMaps: MAPS } });
  await clock.advance(1_000);
  const before = host.print();
  const addressMaps = [{ real: "10.250.0.0/20", mapped: "10.64.0.0/21" }];
  await seed.patchStatus(TUNNELS, NAME, { status: { addressMaps } });
  await clock.advance(1_000);
  t.equal(host.print(), before);
  t.match(gateway.status().findings, [
    { code: "maps-not-taken", message: /same prefix length \(until then the address maps stay/u },
  ]);
  await stop();
});

void t.test("addresses that the seed's side needs are kept out, declared or not", async (t) => {
  const { clock, seed, shoot, host, needed, strictInterfaces, start } = world();
  const filter = "net.ipv4.conf.eth0.rp_filter";
  host.network.addLink("eth0");
  host.network.setSysctl(filter, "1");
  strictInterfaces.push("eth0");
  const seedAddresses = [
    { name: "etcd", address: "10.97.0.7" },
    { name: "elsewhere", address: "192.0.2.7" },
  ];
  needed.push(valueOf(parseIp("10.222.0.9")));
  seed.seed(TUNNELS, tunnel({ seedAddresses }));
  seed.seed(SECRETS, secret());
  shoot.seed(NODES, node(1));
  shoot.seed(TUNNEL_AGENTS, agent(1));
  shoot.seed(SERVICES, service());
  const { gateway, stop } = start();
  await clock.advance(2_000);
  const keptOut = (): readonly string[] =>
    [...host.print().matchAll(/^route (\S+) throw proto 158 table 158$/gmu)].map((m) => m[1] ?? "");
  t.same(keptOut(), ["10.222.0.9/32", "10.97.0.7/32"]);
  t.equal(gateway.problem(), null);
  t.match(host.print(), `sysctl ${filter} 2`, "answers may come from where none would be sent");
  needed.pop();
  await seed.patch(TUNNELS, NAME, { spec: { seedAddresses: [] } });
  await clock.advance(1_000);
  t.same(keptOut(), []);
  t.notMatch(host.print(), /table 158/u);
  await stop();
});
