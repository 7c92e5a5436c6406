/** Tests of the host pass on a whole fake machine: golden texts, counted writes, drift, faults, removal. */

import t from "tap";
import { FakeHost } from "#src/host/fake-host.ts";
import { HostError } from "#src/ports/host-error.ts";
import { reconcileHost, removeHost, type HostPorts } from "./host.ts";
import { agentDesired, gatewayDesired, openDevice, withAddresses } from "./host-samples.ts";

const GATEWAY_TEXT = `
link xylem0 mtu 1380 up 198.18.0.3/32 fd00:18::3/128
route 10.250.0.0/20 dev xylem0 from 198.18.0.3 proto 158
route fd00:222::/48 dev xylem0 from fd00:18::3 proto 158
sysctl net.ipv4.conf.xylem0.rp_filter 0
table inet xylem {
	chain input {
		type filter hook input priority filter; policy accept;
		iifname "xylem0" ct state established,related counter accept comment "accept-replies"
		iifname "xylem0" ct state invalid,new,untracked counter drop comment "drop-new"
	}
	chain forward {
		type filter hook forward priority filter; policy accept;
		iifname "xylem0" ct state invalid,new,untracked counter drop comment "drop-new"
	}
}
device xylem0 gateway slot 2 mtu 1380 port 40000
  peer AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= agent 4711 slot 2 192.0.2.10 port 51820 allows 10.250.3.7/32, fd00:222:3::/64
`;

const AGENT_TEXT = `
link xylem0 mtu 1380 up
route 198.18.0.0/23 dev xylem0 proto 158
sysctl net.ipv4.conf.xylem0.rp_filter 2
table inet xylem {
	chain forward {
		type filter hook forward priority filter; policy accept;
		iifname "xylem0" ip daddr != { 10.97.0.0/22, 10.222.0.0/17 } counter drop comment "only-destinations"
		iifname "xylem0" meta nfproto ipv6 counter drop comment "only-destinations"
		oifname "xylem0" ct state invalid,new,untracked counter drop comment "drop-new-into"
	}
	chain output {
		type filter hook output priority filter; policy accept;
		oifname "xylem0" ct state invalid,new,untracked counter drop comment "drop-new-into"
	}
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		iifname "xylem0" oifname != "xylem0" ip saddr { 198.18.0.0/23 } counter masquerade comment "masquerade"
	}
}
device xylem0 agent 4711 mtu 1380 port 51820
  peer AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= agent 4711 slot 0 waits allows 198.18.0.1/32
  steering {"agentId":99,"publicKey":"AwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","endpoint":{"address":"10.250.3.8","port":51820}}
`;

for (const { name, desired, want, operations } of [
  {
    name: "gateway",
    desired: gatewayDesired,
    want: GATEWAY_TEXT,
    operations: [
      "replace firewall table",
      "set link mtu 1380 up",
      "add address 198.18.0.3/32",
      "add address fd00:18::3/128",
      "add route 10.250.0.0/20 from 198.18.0.3",
      "add route fd00:222::/48 from fd00:18::3",
      "add 1 peer",
    ],
  },
  {
    name: "agent",
    desired: agentDesired,
    want: AGENT_TEXT,
    operations: [
      "replace firewall table",
      "set link mtu 1380 up",
      "set sysctl net.ipv4.conf.xylem0.rp_filter 2",
      "add route 198.18.0.0/23",
      "add 1 peer",
      "change 1 steering target",
    ],
  },
] as const) {
  void t.test(
    `${name}: one pass brings an empty machine to the desired state, the filter first`,
    async (t) => {
      const { host, ports } = await machineFor(name);
      const report = await reconcileHost(ports, desired);
      t.strictSame(report, { writes: operations.length, operations, errors: [] });
      t.equal(host.print(), want.trim());
    },
  );

  void t.test(
    `W57 ${name}: a desired state that is reached causes zero writes, pass after pass`,
    async (t) => {
      const { host, ports } = await machineFor(name);
      await reconcileHost(ports, desired);
      const { writes } = host;
      for (let pass = 0; pass < 10; pass++) {
        t.strictSame(await reconcileHost(ports, desired), {
          writes: 0,
          operations: [],
          errors: [],
        });
      }
      t.equal(host.writes, writes);
    },
  );

  void t.test(`W48 ${name}: removal leaves nothing, and again has nothing to do`, async (t) => {
    const { host, ports } = await machineFor(name);
    const before = new FakeHost().print();
    await reconcileHost(ports, desired);
    await ports.device.close();
    const report = await removeHost(ports);
    t.strictSame(report.errors, []);
    t.equal(host.print(), before);
    t.strictSame(await removeHost(ports), { writes: 0, operations: [], errors: [] });
  });

  void t.test(`W49 ${name}: a fresh namespace is brought back without an event`, async (t) => {
    const { host: first, ports: before } = await machineFor(name);
    await reconcileHost(before, desired);
    const { host: second, ports: after } = await machineFor(name);
    await reconcileHost(after, desired);
    t.equal(second.print(), first.print());
  });
}

for (const { name, drift, operations } of [
  {
    name: "a removed route",
    drift: async (host: FakeHost) =>
      host.network.dropRoutes(gatewayDesired.network.routes[0]?.destination ?? fail()),
    operations: ["add route 10.250.0.0/20 from 198.18.0.3"],
  },
  {
    name: "flushed rules",
    drift: async (host: FakeHost) => host.firewall.flush(),
    operations: ["replace firewall table"],
  },
  {
    name: "a flushed ruleset",
    drift: async (host: FakeHost) => host.firewall.flushRuleset(),
    operations: ["replace firewall table"],
  },
  {
    name: "a foreign rule in our table",
    drift: async (host: FakeHost) => host.firewall.addForeignRule(),
    operations: ["replace firewall table"],
  },
  {
    name: "a link that somebody took down",
    drift: (host: FakeHost) =>
      host.network.apply("xylem0", { kind: "set-link", mtu: 1500, up: false }),
    operations: [
      "set link mtu 1380 up",
      "add route 10.250.0.0/20 from 198.18.0.3",
      "add route fd00:222::/48 from fd00:18::3",
    ],
  },
]) {
  void t.test(`drift is repaired with the fewest writes: ${name}`, async (t) => {
    const { host, ports } = await machineFor("gateway");
    await reconcileHost(ports, gatewayDesired);
    const before = host.print();
    await drift(host);
    t.not(host.print(), before);
    const report = await reconcileHost(ports, gatewayDesired);
    t.strictSame(report.operations, operations);
    t.equal(host.print(), before);
  });
}

void t.test("W37 a changed rp_filter of our interface is set back", async (t) => {
  const { host, ports } = await machineFor("agent");
  await reconcileHost(ports, agentDesired);
  host.network.setSysctl("net.ipv4.conf.xylem0.rp_filter", "1");
  const report = await reconcileHost(ports, agentDesired);
  t.strictSame(report.operations, ["set sysctl net.ipv4.conf.xylem0.rp_filter 2"]);
});

void t.test(
  "one failure does not stop the others, and the next pass does only what is missing",
  async (t) => {
    const { host, ports } = await machineFor("gateway");
    host.network.faults.add("add-address", new HostError("io", "no memory"), 1);
    const first = await reconcileHost(ports, gatewayDesired);
    t.match(
      first.errors.map((e) => e.message),
      ["no memory", /Add route 10\.250\.0\.0\/20/],
    );
    t.ok(first.operations.includes("add route fd00:222::/48 from fd00:18::3"));
    t.ok(first.operations.includes("add 1 peer"));
    const second = await reconcileHost(ports, gatewayDesired);
    t.strictSame(second, {
      writes: 2,
      operations: ["add address 198.18.0.3/32", "add route 10.250.0.0/20 from 198.18.0.3"],
      errors: [],
    });
    t.equal(host.print(), GATEWAY_TEXT.trim());
  },
);

void t.test(
  "without a filter no route and no peer is set: nothing is open for a moment",
  async (t) => {
    for (const call of ["observe", "replace"]) {
      const { host, ports } = await machineFor("gateway");
      host.firewall.faults.add(call, new HostError("no-nft", "install nftables"));
      const report = await reconcileHost(ports, gatewayDesired);
      t.strictSame(
        report.errors.map((e) => e.code),
        ["no-nft"],
      );
      t.equal(report.writes, 0);
      t.notMatch(host.print(), /^route|peer/m);
    }
  },
);

void t.test(
  "another slot's address replaces the old one, and each route has the new source",
  async (t) => {
    const { host, ports } = await machineFor("gateway");
    const moved = withAddresses(gatewayDesired, { v4: "198.18.0.9", v6: "fd00:18::9" });
    await reconcileHost(ports, gatewayDesired);
    const report = await reconcileHost(ports, moved);
    t.strictSame(report.operations, [
      "add address 198.18.0.9/32",
      "add address fd00:18::9/128",
      "add route 10.250.0.0/20 from 198.18.0.9",
      "add route fd00:222::/48 from fd00:18::9",
      "remove route 10.250.0.0/20 on xylem0",
      "remove route fd00:222::/48 on xylem0",
      "remove address 198.18.0.3/32",
      "remove address fd00:18::3/128",
    ]);
    t.equal(
      host.print(),
      GATEWAY_TEXT.trim().replaceAll("198.18.0.3", "198.18.0.9").replaceAll("18::3", "18::9"),
    );
    t.equal((await reconcileHost(ports, moved)).writes, 0);
  },
);

void t.test(
  "IPv4 routes that go with the last IPv4 address are put back in the same pass",
  async (t) => {
    const { host, ports } = await machineFor("agent");
    await reconcileHost(ports, agentDesired);
    const address = gatewayDesired.network.addresses[0] ?? fail();
    await host.network.apply("xylem0", { kind: "add-address", address });
    const report = await reconcileHost(ports, agentDesired);
    t.strictSame(report.operations, ["remove address 198.18.0.3/32", "add route 198.18.0.0/23"]);
  },
);

void t.test("a device whose interface is gone is one error, not one per route", async (t) => {
  const { host, ports } = await machineFor("gateway");
  host.network.removeLink("xylem0");
  const report = await reconcileHost(ports, gatewayDesired);
  t.strictSame(
    report.errors.map((e) => e.code),
    ["no-such-interface"],
  );
});

void t.test("a broken invariant is thrown, not reported", async (t) => {
  const { host, ports } = await machineFor("gateway");
  host.network.observe = () => Promise.reject(new TypeError("x is undefined"));
  await t.rejects(reconcileHost(ports, gatewayDesired), TypeError);
});

void t.test(
  "T43 what a former run left is taken over or removed, nobody else's is touched",
  async (t) => {
    const { host, ports } = await machineFor("gateway");
    const other = agentDesired.network.routes[0] ?? fail();
    await reconcileHost(ports, { ...gatewayDesired, firewall: agentDesired.firewall });
    host.network.addLink("eth0");
    await host.network.apply("eth0", { kind: "set-link", mtu: 1500, up: true });
    await host.network.apply("eth0", { kind: "add-route", route: other });
    host.network.addRouteOf({ interface: "eth0", destination: theirs, protocol: 3 });
    const report = await reconcileHost(ports, gatewayDesired);
    t.strictSame(report.operations, [
      "replace firewall table",
      "remove route 198.18.0.0/23 on eth0",
    ]);
    t.match(host.print(), `route ${theirs} dev eth0 proto 3`);
    const removed = await removeHost(ports);
    t.strictSame(removed.errors, []);
    t.match(host.network.print().match(/^route.*$/gm), [`route ${theirs} dev eth0 proto 3`]);
  },
);

void t.test("removal goes on after a failure and takes the filter away last", async (t) => {
  const { host, ports } = await machineFor("gateway");
  await reconcileHost(ports, gatewayDesired);
  host.network.faults.add("remove-address", new HostError("io", "busy"), 1);
  const report = await removeHost(ports);
  t.strictSame(
    report.errors.map((e) => e.message),
    ["busy"],
  );
  t.equal(report.operations.at(-1), "remove firewall table");
  t.strictSame((await removeHost(ports)).operations, ["remove address 198.18.0.3/32"]);
});

const theirs = gatewayDesired.network.routes[1]?.destination ?? fail();

async function machineFor(
  kind: "gateway" | "agent",
): Promise<{ host: FakeHost; ports: HostPorts }> {
  const host = new FakeHost();
  const device = await openDevice(host.devices, kind);
  return { host, ports: { network: host.network, firewall: host.firewall, device } };
}

function fail(): never {
  throw new TypeError("the sample lacks it");
}
