/** The host pass on the real kernel, as root in a fresh network namespace; only the data plane is a fake. */

import { execFileSync, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import t, { type Test } from "tap";
import { AddonDeviceFactory } from "#src/host/device/addon-device.ts";
import { whyNoAddon } from "#src/host/device/built-addon.ts";
import { FakeDeviceFactory } from "#src/host/device/fake-device.ts";
import { NftFirewall } from "#src/host/firewall/nft-firewall.ts";
import { freshNamespace } from "#src/host/network/fresh-namespace.ts";
import { NetlinkNetwork } from "#src/host/network/netlink-network.ts";
import { reconcileHost, removeHost, type HostPorts } from "./host.ts";
import {
  agentDesired,
  gatewayDesired,
  INTERFACE,
  openDevice,
  withAddresses,
} from "./host-samples.ts";

const namespace = freshNamespace(import.meta.filename);
switch (namespace.kind) {
  case "inside":
    await kernelTests();
    break;
  case "outside":
    void t.spawn(namespace.command, [...namespace.args], { env: namespace.env }, "kernel");
    break;
  case "impossible":
    void t.test("kernel", { skip: namespace.reason }, () => undefined);
    break;
}

async function kernelTests(): Promise<void> {
  const network = new NetlinkNetwork();
  t.teardown(() => network.close());
  run("ip link set lo up");
  // Its first use leaves conntrack's own state in the namespace; both snapshots see the same.
  await removeHost({ network, firewall: new NftFirewall() });

  for (const [kind, desired] of [
    ["gateway", gatewayDesired],
    ["agent", agentDesired],
  ] as const) {
    await t.test(
      `W48 ${kind}: install, remove, install, remove leave the machine as it was`,
      async (t) => {
        const before = snapshot();
        for (let round = 0; round < 2; round++) {
          const ports = await portsOf(kind, network);
          const report = await reconcileHost(ports, desired);
          t.strictSame(
            report.errors.map((e) => e.message),
            [],
          );
          t.not(snapshot(), before);
          await ports.device.close();
          t.strictSame((await removeHost(ports)).errors, []);
          t.equal(snapshot(), before);
        }
      },
    );

    await t.test(
      `W57 ${kind}: passes over a reached state cause no netlink and no nft event`,
      async (t) => {
        const ports = await portsOf(kind, network);
        await reconcileHost(ports, desired);
        const events = await eventsDuring(async () => {
          for (let pass = 0; pass < 10; pass++) {
            t.strictSame(await reconcileHost(ports, desired), {
              writes: 0,
              operations: [],
              errors: [],
            });
          }
        });
        t.strictSame(events, []);
        await tearDown(ports);
      },
    );

    await t.test(
      `T43 ${kind}: a second run over what the first left does only what is missing`,
      async (t) => {
        const first = await portsOf(kind, network);
        await reconcileHost(first, desired);
        // Killed: the TUN goes with the process, the rest stays; then a new process begins.
        await first.device.close();
        const second = await portsOf(kind, network);
        const report = await reconcileHost(second, desired);
        t.strictSame(report.errors, []);
        t.notOk(report.operations.includes("replace firewall table"), "the filter never went away");
        t.equal((await reconcileHost(second, desired)).writes, 0);
        await tearDown(second);
      },
    );
  }

  const skip = whyNoAddon() ?? false;
  for (const [kind, desired] of [
    ["gateway", gatewayDesired],
    ["agent", agentDesired],
  ] as const) {
    await t.test(
      `W48 ${kind} with the native data plane: as before after it is gone, rests while it is there`,
      { skip },
      async (t) => {
        const before = snapshot();
        for (let round = 0; round < 2; round++) {
          const device = await openDevice(new AddonDeviceFactory(), kind);
          const ports = { network, firewall: new NftFirewall(), device };
          t.strictSame((await reconcileHost(ports, desired)).errors, []);
          t.strictSame(await reconcileHost(ports, desired), {
            writes: 0,
            operations: [],
            errors: [],
          });
          await tearDown(ports);
          t.equal(snapshot(), before);
        }
      },
    );
  }

  await t.test("W40 the kernel gives local sockets the slot's address as source", async (t) => {
    const ports = await portsOf("gateway", network);
    await reconcileHost(ports, gatewayDesired);
    t.match(run("ip route get 10.250.3.7"), /dev xylem0 .*src 198\.18\.0\.3 /);
    t.match(run("ip route get fd00:222::7"), /dev xylem0 .*src fd00:18::3 /);
    await tearDown(ports);
  });

  await t.test("another slot's address replaces the old one in one pass", async (t) => {
    const ports = await portsOf("gateway", network);
    const moved = withAddresses(gatewayDesired, { v4: "198.18.0.9", v6: "fd00:18::9" });
    await reconcileHost(ports, gatewayDesired);
    t.strictSame((await reconcileHost(ports, moved)).errors, []);
    t.match(run("ip route show proto 158"), /10\.250\.0\.0\/20 dev xylem0 .*src 198\.18\.0\.9/);
    t.match(run("ip -6 route show proto 158"), /fd00:222::\/48 dev xylem0 .*src fd00:18::9/);
    t.equal((await reconcileHost(ports, moved)).writes, 0);
    await tearDown(ports);
  });

  await driftTests(network);
}

async function driftTests(network: NetlinkNetwork): Promise<void> {
  for (const { name, command, operations } of [
    {
      name: "a removed route",
      command: "ip route del 198.18.0.0/23",
      operations: ["add route 198.18.0.0/23"],
    },
    {
      name: "a flushed table",
      command: "nft flush table inet xylem",
      operations: ["replace firewall table"],
    },
    {
      name: "a flushed ruleset",
      command: "nft flush ruleset",
      operations: ["replace firewall table"],
    },
    {
      name: "a foreign rule",
      command: "nft insert rule inet xylem forward accept",
      operations: ["replace firewall table"],
    },
    {
      name: "W37 rp_filter set to strict",
      command: `sysctl -qw net.ipv4.conf.${INTERFACE}.rp_filter=1`,
      operations: [`set sysctl net.ipv4.conf.${INTERFACE}.rp_filter 2`],
    },
    {
      name: "another MTU",
      command: `ip link set ${INTERFACE} mtu 1500`,
      operations: ["set link mtu 1380 up"],
    },
    {
      name: "a foreign address",
      command: `ip addr add 203.0.113.9/24 dev ${INTERFACE}`,
      operations: ["remove address 203.0.113.9/32", "add route 198.18.0.0/23"],
    },
  ]) {
    await t.test(`drift is repaired with the fewest writes: ${name}`, async (t: Test) => {
      const ports = await portsOf("agent", network);
      await reconcileHost(ports, agentDesired);
      const before = snapshot();
      run(command);
      t.not(snapshot(), before);
      const report = await reconcileHost(ports, agentDesired);
      t.strictSame(report, { writes: operations.length, operations, errors: [] });
      t.equal(snapshot(), before);
      await tearDown(ports);
    });
  }
}

async function portsOf(kind: "gateway" | "agent", network: NetlinkNetwork): Promise<HostPorts> {
  const devices = new FakeDeviceFactory({
    addLink: (name) => void run(`ip tuntap add dev ${name} mode tun`),
    removeLink: (name) => void run(`ip link del ${name}`),
  });
  return { network, firewall: new NftFirewall(), device: await openDevice(devices, kind) };
}

async function tearDown(ports: HostPorts): Promise<void> {
  await ports.device.close();
  await removeHost(ports);
}

/** What W48 compares, without what counts by itself: handles, counters, interface numbers, random identifiers. */
function snapshot(): string {
  const parts = [
    "ip rule",
    "ip -6 rule",
    "ip route show table all",
    "ip -6 route show table all",
    "ip addr",
    "ip link",
    "nft list ruleset",
  ];
  const rpFilter = run(`sysctl -a -r \\.rp_filter$`);
  return [...parts.map(run), rpFilter]
    .join("\n")
    .replaceAll(/^\d+: /gm, "")
    .replaceAll(/counter packets \d+ bytes \d+/g, "counter")
    .replaceAll(/inet6 fe80.*\n.*\n/g, "")
    .replaceAll(/.*(fe80|ff00)::.*\n/g, "");
}

/** What `ip monitor` and `nft monitor` say while `action` runs; a last event of our own proves that they listened. */
async function eventsDuring(action: () => Promise<void>): Promise<readonly string[]> {
  const events: string[] = [];
  const monitors = ["ip monitor all", "nft monitor"].map((line) => monitor(line, events));
  // Whoever hears the first event listens; whoever hears the last has heard all before.
  await Promise.all(monitors.map((m) => m.heard("xybegin")));
  events.length = 0;
  await action();
  await Promise.all(monitors.map((m) => m.heard("xyend")));
  for (const m of monitors) m.stop();
  return events.filter((line) => !/xybegin|xyend|link\/ether|new generation/.test(line));
}

function monitor(line: string, events: string[]) {
  const [command = "", ...args] = line.split(" ");
  // Both write by line only to a terminal.
  const child = spawn("stdbuf", ["-oL", command, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const waiters = new Set<{ name: string; resolve: () => void }>();
  createInterface({ input: child.stdout }).on("line", (text) => {
    events.push(`${command}: ${text}`);
    for (const waiter of waiters) if (text.includes(waiter.name)) waiter.resolve();
  });
  const poke = (name: string): void => {
    if (command === "nft") run(`nft add table inet ${name} ; delete table inet ${name}`);
    else
      for (const verb of ["add", "del"])
        run(`ip link ${verb} ${name} ${verb === "add" ? "type bridge" : ""}`.trim());
  };
  return {
    /** Pokes until the monitor has heard it. */
    heard: async (name: string): Promise<void> => {
      const { promise, resolve } = Promise.withResolvers<void>();
      waiters.add({ name, resolve });
      const poking = setInterval(() => poke(name), 50);
      await promise;
      clearInterval(poking);
    },
    stop: () => child.kill(),
  };
}

function run(line: string): string {
  const [command = "", ...args] = line.split(" ");
  return execFileSync(command, args, { encoding: "utf8" });
}
