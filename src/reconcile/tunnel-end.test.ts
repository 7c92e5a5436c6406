/** Tests of one tunnel end on a fake machine: who removes what when two instances meet, and after a failed start. */

import t from "tap";
import { FakeHost } from "#src/host/fake-host.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { HostError } from "#src/ports/host-error.ts";
import { agentDesired, deviceOptions } from "./host-samples.ts";
import { TunnelEnd } from "./tunnel-end.ts";

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

void t.test("a second instance that took over removes everything when it stops", async (t) => {
  const host = new FakeHost();
  const [first, second] = [endOn(host), endOn(host)];
  await first.apply(desired);
  await t.rejects(second.apply(desired), { code: "interface-in-use" });
  await first.close();
  await second.apply(desired);
  await second.close();
  t.equal(host.print(), "no firewall table\nno device");
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

function endOn({ network, firewall, devices }: FakeHost): TunnelEnd {
  return new TunnelEnd({ network, firewall, devices, log: new FakeLog() }, () => undefined);
}
