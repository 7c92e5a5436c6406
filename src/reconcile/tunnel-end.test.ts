/** Tests of one tunnel end on a fake machine: who removes what when two instances meet, and after a failed start. */

import t from "tap";
import { FakeHost } from "#src/host/fake-host.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { parseAgentId } from "#src/model/agent-id.ts";
import type { DeviceEvent } from "#src/model/device.ts";
import { parsePrivateKey } from "#src/model/key.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { DeviceOptions } from "#src/ports/device.ts";
import { HostError } from "#src/ports/host-error.ts";
import { agentDesired, deviceOptions } from "./host-samples.ts";
import { TunnelEnd } from "./tunnel-end.ts";

const EMPTY = "no firewall table\nno device";
const desired = { options: deviceOptions("agent"), ...agentDesired };

void t.test("a second instance that stops leaves the first one's tunnel alone", async (t) => {
  const host = new FakeHost();
  const first = endOn(host);
  await first.apply(desired);
  const before = host.print();
  const second = endOn(host);
  await t.rejects(second.apply(desired), { code: "interface-in-use" });
  await second.close();
  t.equal(host.print(), before);
  t.equal((await first.apply(desired)).writes, 0, "the first has nothing to mend");
});

void t.test(
  "rules that nobody has touched are not read again, and drift is still mended",
  async (t) => {
    const host = new FakeHost();
    const end = endOn(host);
    await end.apply(desired);
    await end.apply(desired);
    host.firewall.faults.add("observe", new HostError("io", "nft was asked"), 1);
    t.match(await end.apply(desired), { writes: 0, errors: [] });
    host.firewall.flush();
    t.match(await end.apply(desired), { writes: 0, errors: [{ message: "nft was asked" }] });
    t.match(await end.apply(desired), { writes: 1, errors: [] }, "the filter is put back");
    t.match(await end.apply(desired), { writes: 0, errors: [] });
  },
);

void t.test("another filter is written though nobody has touched the old one", async (t) => {
  const host = new FakeHost();
  const end = endOn(host);
  await end.apply(desired);
  await end.apply(desired);
  const chains = desired.firewall.chains.slice(1);
  const report = await end.apply({ ...desired, firewall: { ...desired.firewall, chains } });
  t.match(report, { writes: 1, errors: [] });
});

void t.test("a second instance that took over removes everything when it stops", async (t) => {
  const host = new FakeHost();
  const [first, second] = [endOn(host), endOn(host)];
  await first.apply(desired);
  await t.rejects(second.apply(desired), { code: "interface-in-use" });
  await first.close();
  await second.apply(desired);
  await second.close();
  t.equal(host.print(), EMPTY);
});

void t.test("what a killed run left goes even if the device never opens", async (t) => {
  const host = new FakeHost();
  await host.firewall.replace(desired.firewall);
  host.devices.faults.add("open", new HostError("no-tun", "/dev/net/tun is missing"));
  const end = endOn(host);
  await t.rejects(end.apply(desired), { code: "no-tun" });
  await end.close();
  t.equal(await host.firewall.observe(), null);
});

void t.test("what a killed run left stays while another instance has the interface", async (t) => {
  const host = new FakeHost();
  const first = endOn(host);
  await first.apply(desired);
  const before = host.print();
  const idle = endOn(host);
  t.match(await idle.close({ interface: "xylem0" }), { writes: 0, errors: [] });
  t.equal(host.print(), before, "one that never opened a device takes nothing away");
  await first.close();
  t.equal(host.print(), EMPTY);
});

void t.test(
  "closing removes routes and filter of a killed run, and says what it did",
  async (t) => {
    const host = new FakeHost();
    await host.firewall.replace(desired.firewall);
    const report = await endOn(host).close({ interface: "xylem0" });
    t.match(report, { writes: 1, operations: ["remove firewall table"], errors: [] });
    t.equal(host.print(), EMPTY);
  },
);

void t.test(
  "a close that the kernel refuses is in the report, and the next one does it",
  async (t) => {
    const host = new FakeHost();
    const end = endOn(host);
    await end.apply(desired);
    host.firewall.faults.add("observe", new HostError("no-nft", "nft is missing"), 1);
    t.match(await end.close(), { errors: [{ code: "no-nft" }] });
    t.match(await end.close({ interface: "xylem0" }), { writes: 1, errors: [] });
    t.equal(host.print(), EMPTY);
  },
);

void t.test(
  "W57 what is as desired is not written again, nor is the device opened anew",
  async (t) => {
    const host = new FakeHost();
    const end = endOn(host);
    t.ok((await end.apply(desired)).writes > 0);
    const writes = host.writes;
    t.match(await end.apply(desired), { writes: 0, operations: [], errors: [] });
    t.match(await end.apply(structuredCloneOf(desired)), { writes: 0 });
    t.equal(host.writes, writes);
    t.equal(host.devices.opened.length, 1);
    await end.close();
  },
);

const OTHER_DEVICES: readonly { name: string; options: Partial<DeviceOptions> }[] = [
  { name: "another mtu", options: { mtu: 1400 } },
  { name: "another port", options: { listenPort: 4_000 } },
  { name: "no offload", options: { offload: false } },
  {
    name: "another id",
    options: { identity: { kind: "agent", agentId: valueOf(parseAgentId(5)) } },
  },
  {
    name: "another key",
    options: { privateKey: valueOf(parsePrivateKey(new Uint8Array(32).fill(9))) },
  },
];

for (const { name, options } of OTHER_DEVICES) {
  void t.test(`${name} means a new device, and the old one is closed first`, async (t) => {
    const host = new FakeHost();
    const end = endOn(host);
    await end.apply(desired);
    const changed = { ...desired, options: { ...desired.options, ...options } };
    const report = await end.apply(changed);
    t.strictSame(report.errors, []);
    t.strictSame(
      host.devices.opened.map(({ isClosed }) => isClosed),
      [true, false],
    );
    t.equal((await end.apply(changed)).writes, 0);
    await end.close();
    t.equal(host.print(), EMPTY);
  });
}

void t.test("a device that failed has no stats, and the next pass opens another", async (t) => {
  const host = new FakeHost();
  const events: string[] = [];
  const end = endOn(host, (event) => events.push(event.kind));
  await end.apply(desired);
  const [first] = host.devices.opened;
  t.ok(end.stats());
  first?.emit({ kind: "failed", code: "io", message: "the TUN was deleted" });
  t.equal(end.stats(), null);
  await end.apply(desired);
  t.ok(end.stats());
  t.equal(host.devices.opened.length, 2);
  first?.emit({ kind: "failed", code: "io", message: "late" });
  t.ok(end.stats(), "a late word of the old device is not the new one's");
  t.strictSame(events, ["failed"]);
  await end.close();
  t.equal(end.stats(), null);
});

void t.test("other peers reach the device without a look at the kernel", async (t) => {
  const host = new FakeHost();
  const end = endOn(host);
  await end.apply(desired);
  const blind = new HostError("io", "the kernel was asked");
  host.network.faults.add("observe", blind);
  host.firewall.faults.add("observe", blind);
  const fewer = { ...desired, device: { ...desired.device, steering: [] } };
  t.match(await end.applyPeers(fewer), { writes: 1, errors: [] });
  t.notMatch(host.devices.current?.print(), /steering/u);
  const routed = { ...fewer, network: { ...fewer.network, routes: [] } };
  t.match(await end.applyPeers(routed), { errors: [blind] }, "anything else is a full pass");
  host.network.faults.clear();
  host.firewall.faults.clear();
  await end.close();
});

void t.test("after a pass that failed in part, peers alone are not enough", async (t) => {
  const host = new FakeHost();
  const end = endOn(host);
  host.network.faults.add("add-route", new HostError("io", "no"), 1);
  t.equal((await end.apply(desired)).errors.length, 1);
  const report = await end.applyPeers(desired);
  t.match(report, { operations: ["add route 198.18.0.0/23"], errors: [] });
  await end.close();
});

function endOn(
  { network, firewall, devices }: FakeHost,
  onEvent: (event: DeviceEvent) => void = () => undefined,
): TunnelEnd {
  return new TunnelEnd({ network, firewall, devices, log: new FakeLog() }, onEvent);
}

/** Equal, but not the same objects. */
function structuredCloneOf({ options, ...rest }: typeof desired): typeof desired {
  return { options: { ...options, identity: { ...options.identity } }, ...structuredClone(rest) };
}
