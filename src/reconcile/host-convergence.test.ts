/** Properties of the host pass: whatever was there before and whatever fails, it ends at the desired state and rests. */

import fc from "fast-check";
import t from "tap";
import { FakeHost } from "#src/host/fake-host.ts";
import { hostCidr, type Cidr } from "#src/model/cidr.ts";
import type { FirewallTable, NetworkDesired, Route } from "#src/model/network.ts";
import { HostError } from "#src/ports/host-error.ts";
import { reconcileHost, removeHost, type HostDesired, type HostPorts } from "./host.ts";
import { agentDesired, gatewayDesired, openDevice, withAddresses } from "./host-samples.ts";

/** Failing seeds found once stay here. */
const SEEDS: readonly number[] = [];
const OPERATIONS = ["add-address", "remove-address", "add-route", "remove-route", "set-link"];

void t.test(
  "from any state to any other: the same as on a fresh machine, then zero writes",
  async (t) => {
    await check(
      fc.asyncProperty(fc.array(desired(), { maxLength: 3 }), desired(), async (before, last) => {
        const { host, ports } = await machine();
        for (const state of before) await reconcileHost(ports, state);
        const report = await reconcileHost(ports, last);
        const fresh = await machine();
        await reconcileHost(fresh.ports, last);
        return (
          report.errors.length === 0 &&
          host.print() === fresh.host.print() &&
          (await reconcileHost(ports, last)).writes === 0
        );
      }),
    );
    t.pass("held for every sample");
  },
);

void t.test("with failures of any operation it gets there once they are over", async (t) => {
  const faults = fc.array(
    fc.record({ call: fc.constantFrom(...OPERATIONS), times: fc.integer({ min: 1, max: 3 }) }),
    { maxLength: 4 },
  );
  await check(
    fc.asyncProperty(desired(), desired(), faults, async (first, last, planned) => {
      const { host, ports } = await machine();
      await reconcileHost(ports, first);
      for (const { call, times } of planned)
        host.network.faults.add(call, new HostError("io", call), times);
      for (let pass = 0; pass < 3; pass++) {
        const report = await reconcileHost(ports, last);
        // What failed is told: a pass without errors reached everything.
        if (report.errors.length === 0) break;
      }
      host.network.faults.clear();
      await reconcileHost(ports, last);
      const fresh = await machine();
      await reconcileHost(fresh.ports, last);
      return host.print() === fresh.host.print() && (await reconcileHost(ports, last)).writes === 0;
    }),
  );
  t.pass("held for every sample");
});

void t.test("a pass without errors has reached the desired state", async (t) => {
  await check(
    fc.asyncProperty(
      desired(),
      desired(),
      fc.constantFrom(...OPERATIONS),
      async (first, last, call) => {
        const { host, ports } = await machine();
        await reconcileHost(ports, first);
        host.network.faults.add(call, new HostError("io", call), 1);
        const { errors } = await reconcileHost(ports, last);
        return errors.length > 0 || (await reconcileHost(ports, last)).writes === 0;
      },
    ),
  );
  t.pass("held for every sample");
});

void t.test("W48 from any state removal leaves the machine as it was found", async (t) => {
  await check(
    fc.asyncProperty(fc.array(desired(), { maxLength: 3 }), async (states) => {
      const { host, ports } = await machine();
      for (const state of states) await reconcileHost(ports, state);
      await ports.device.close();
      await removeHost(ports);
      return host.print() === new FakeHost().print();
    }),
  );
  t.pass("held for every sample");
});

async function check<T>(property: fc.IAsyncProperty<T>): Promise<void> {
  for (const seed of SEEDS) await fc.assert(property, { seed });
  await fc.assert(property, { numRuns: 200 });
}

async function machine(): Promise<{ host: FakeHost; ports: HostPorts }> {
  const host = new FakeHost();
  const device = await openDevice(host.devices, "gateway");
  return { host, ports: { network: host.network, firewall: host.firewall, device } };
}

/** Few values, so that states overlap in part. Sysctls are the same in all: a pass sets them and takes none back. */
function desired(): fc.Arbitrary<HostDesired> {
  const bases = [
    gatewayDesired,
    withAddresses(gatewayDesired, { v4: "198.18.0.9", v6: "fd00:18::9" }),
    agentDesired,
  ];
  return fc
    .record({
      base: fc.constantFrom(...bases),
      mtu: fc.constantFrom(1280, 1380),
      firewall: fc.constantFrom<FirewallTable>(gatewayDesired.firewall, agentDesired.firewall),
      keep: fc.func(fc.boolean()),
    })
    .map(({ base, mtu, firewall, keep }) => {
      const addresses = base.network.addresses.filter((address) => keep(address));
      const network: NetworkDesired = {
        ...base.network,
        mtu,
        addresses,
        routes: base.network.routes
          .filter((route) => keep(route.destination))
          .map((route) => withHeldSource(route, addresses)),
        sysctls: agentDesired.network.sysctls,
      };
      return { network, firewall, device: base.device };
    });
}

/** A route can only have a source that is an address. */
function withHeldSource(route: Route, addresses: readonly Cidr[]): Route {
  const isHeld = route.source !== null && addresses.includes(hostCidr(route.source));
  return isHeld ? route : { ...route, source: null };
}
