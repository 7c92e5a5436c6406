/** What every Network must do; run against the fake and against the kernel. */

import type { Test } from "tap";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { parseIp, type IpAddress } from "#src/model/ip.ts";
import type { Route } from "#src/model/network.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Network } from "#src/ports/network.ts";

/** A machine with nothing but the links that the suite asks for. */
export interface NetworkBench {
  readonly network: Network;
  /** Makes a link that is down and has no address. */
  addLink(name: string): Promise<void>;
  removeLink(name: string): Promise<void>;
  /** Somebody else's route, with a protocol number that is not ours. */
  addForeignRoute(options: { destination: Cidr; interface: string }): Promise<void>;
  /** Destinations of routes that are not ours and not the kernel's. */
  foreignRoutes(): Promise<readonly string[]>;
}

const LINK = "xylem0";
const OTHER = "other0";

/** Adds the suite to `t`; `makeBench` gives an empty machine each time. */
export function networkCompliance(t: Test, makeBench: () => Promise<NetworkBench>): void {
  const test = (name: string, body: (t: Test, bench: NetworkBench) => Promise<void>): void => {
    void t.test(name, async (t) => {
      const bench = await makeBench();
      t.teardown(async () => {
        await bench.removeLink(LINK);
        await bench.removeLink(OTHER);
      });
      await body(t, bench);
    });
  };
  const observe = ({ network }: NetworkBench, sysctls: Record<string, string> = {}) =>
    network.observe({ interface: LINK, sysctls });
  const ready = async (bench: NetworkBench): Promise<void> => {
    await bench.addLink(LINK);
    await bench.network.apply(LINK, { kind: "set-link", mtu: 1380, up: true });
    for (const address of ["198.18.0.1/32", "fd00:18::1/128"]) {
      await bench.network.apply(LINK, { kind: "add-address", address: cidr(address) });
    }
  };

  test("an interface that does not exist is observed as null, without a failure", async (t, bench) => {
    t.match(await observe(bench), { link: null, addresses: [], routes: [] });
  });

  test("set-link sets the MTU and takes the link up and down", async (t, bench) => {
    await bench.addLink(LINK);
    t.match(await observe(bench), { link: { isUp: false } });
    await bench.network.apply(LINK, { kind: "set-link", mtu: 1400, up: true });
    t.strictSame((await observe(bench)).link, { mtu: 1400, isUp: true });
    await bench.network.apply(LINK, { kind: "set-link", mtu: 1280, up: false });
    t.strictSame((await observe(bench)).link, { mtu: 1280, isUp: false });
  });

  test("an address is added once however often, and removed once however often", async (t, bench) => {
    await ready(bench);
    for (const address of ["198.18.0.9/32", "fd00:18::9/128"].map(cidr)) {
      const has = async () => (await observe(bench)).addresses.filter((a) => a === address).length;
      for (let i = 0; i < 2; i++) await bench.network.apply(LINK, { kind: "add-address", address });
      t.equal(await has(), 1, address);
      for (let i = 0; i < 2; i++) {
        await bench.network.apply(LINK, { kind: "remove-address", address });
      }
      t.equal(await has(), 0, address);
    }
  });

  test("only what was added is observed: link-local addresses of the kernel are not ours", async (t, bench) => {
    await ready(bench);
    t.strictSame((await observe(bench)).addresses.toSorted(), ["198.18.0.1/32", "fd00:18::1/128"]);
  });

  const routes: readonly { name: string; route: Route }[] = [
    { name: "IPv4 with a source", route: route("10.250.0.0/20", "198.18.0.1") },
    { name: "IPv4 without a source", route: route("10.97.0.0/22", null) },
    { name: "a single IPv4 host", route: route("10.250.3.7/32", "198.18.0.1") },
    { name: "IPv6 with a source", route: route("fd00:250::/48", "fd00:18::1") },
    { name: "IPv6 without a source", route: route("fd00:97::/112", null) },
  ];
  for (const { name, route: added } of routes) {
    test(`W40 a route comes back as it was added: ${name}`, async (t, bench) => {
      await ready(bench);
      for (let i = 0; i < 2; i++)
        await bench.network.apply(LINK, { kind: "add-route", route: added });
      const held = { ...added, interface: LINK };
      t.strictSame((await observe(bench)).routes, [held]);
      for (let i = 0; i < 2; i++) {
        await bench.network.apply(LINK, { kind: "remove-route", route: held });
      }
      t.strictSame((await observe(bench)).routes, []);
    });
  }

  for (const [destination, source] of [
    ["10.250.0.0/20", "198.18.0.1"],
    ["fd00:250::/48", "fd00:18::1"],
  ] as const) {
    test(`a route to ${destination} with another source replaces, and the old one's removal leaves it`, async (t, bench) => {
      await ready(bench);
      const before = route(destination, null);
      const after = route(destination, source);
      await bench.network.apply(LINK, { kind: "add-route", route: before });
      await bench.network.apply(LINK, { kind: "add-route", route: after });
      t.strictSame((await observe(bench)).routes, [{ ...after, interface: LINK }]);
      const gone = { ...before, interface: LINK };
      await bench.network.apply(LINK, { kind: "remove-route", route: gone });
      t.strictSame((await observe(bench)).routes, [{ ...after, interface: LINK }]);
    });
  }

  test("T43 routes of ours on another interface are observed with its name and can be removed", async (t, bench) => {
    await ready(bench);
    await bench.addLink(OTHER);
    await bench.network.apply(OTHER, { kind: "set-link", mtu: 1500, up: true });
    await bench.network.apply(OTHER, { kind: "add-route", route: route("10.1.0.0/16", null) });
    const left = { ...route("10.1.0.0/16", null), interface: OTHER };
    t.strictSame((await observe(bench)).routes, [left]);
    await bench.network.apply(LINK, { kind: "remove-route", route: left });
    t.strictSame((await observe(bench)).routes, []);
  });

  for (const [destination, source] of [
    ["10.250.0.0/20", "198.18.0.1"],
    ["fd00:250::/48", "fd00:18::1"],
  ] as const) {
    test(`a route to ${destination} of our own table comes back, beside an equal one of somebody else`, async (t, bench) => {
      await ready(bench);
      await bench.addLink(OTHER);
      await bench.network.apply(OTHER, { kind: "set-link", mtu: 1500, up: true });
      if (source.includes("."))
        await bench.addForeignRoute({ destination: cidr(destination), interface: OTHER });
      const added = { ...route(destination, source), table: "own" } as const;
      for (let i = 0; i < 2; i++)
        await bench.network.apply(LINK, { kind: "add-route", route: added });
      const held = { ...added, interface: LINK };
      t.strictSame((await observe(bench)).routes, [held]);
      for (let i = 0; i < 2; i++)
        await bench.network.apply(LINK, { kind: "remove-route", route: held });
      t.strictSame((await observe(bench)).routes, []);
    });
  }

  for (const destination of ["10.250.3.7/32", "fd00:250::7/128"]) {
    test(`a route that keeps ${destination} out comes back, and outlives the interface`, async (t, bench) => {
      await ready(bench);
      const added = { ...route(destination, null), table: "own", way: "keep-out" } as const;
      for (let i = 0; i < 2; i++)
        await bench.network.apply(LINK, { kind: "add-route", route: added });
      const held = { ...added, interface: LINK };
      t.strictSame((await observe(bench)).routes, [held]);
      await bench.removeLink(LINK);
      t.strictSame((await observe(bench)).routes, [held]);
      for (let i = 0; i < 2; i++)
        await bench.network.apply(LINK, { kind: "remove-route", route: held });
      t.strictSame((await observe(bench)).routes, []);
    });
  }

  test("a rule for our own table is added once and removed once, each family alone", async (t, bench) => {
    await ready(bench);
    for (let i = 0; i < 2; i++) {
      await bench.network.apply(LINK, { kind: "add-rule", family: 6 });
      await bench.network.apply(LINK, { kind: "add-rule", family: 4 });
    }
    t.strictSame((await observe(bench)).rules, [4, 6]);
    for (let i = 0; i < 2; i++) await bench.network.apply(LINK, { kind: "remove-rule", family: 4 });
    t.strictSame((await observe(bench)).rules, [6]);
    await bench.network.apply(LINK, { kind: "remove-rule", family: 6 });
    t.strictSame((await observe(bench)).rules, undefined);
  });

  test("W39 somebody else's routes are never observed, removed or replaced", async (t, bench) => {
    await ready(bench);
    await bench.addLink(OTHER);
    await bench.network.apply(OTHER, { kind: "set-link", mtu: 1500, up: true });
    const destination = cidr("10.99.0.0/16");
    await bench.addForeignRoute({ destination, interface: OTHER });
    t.strictSame((await observe(bench)).routes, []);
    const theirs = { ...route(destination, null), interface: OTHER };
    await bench.network.apply(LINK, { kind: "remove-route", route: theirs });
    const adding = bench.network.apply(LINK, {
      kind: "add-route",
      route: route(destination, null),
    });
    await rejectsWith(t, adding, { code: "io", says: /10\.99\.0\.0\/16/ });
    t.strictSame(await bench.foreignRoutes(), [destination]);
  });

  test("a route whose source is no address of the machine is refused with its name", async (t, bench) => {
    await ready(bench);
    const foreign = route("10.250.0.0/20", "203.0.113.7");
    const adding = bench.network.apply(LINK, { kind: "add-route", route: foreign });
    await rejectsWith(t, adding, { code: "io", says: /Add route 10\.250\.0\.0\/20.*xylem0/ });
  });

  test("routes go with a link that is taken down or removed", async (t, bench) => {
    await ready(bench);
    await bench.network.apply(LINK, { kind: "add-route", route: route("10.250.0.0/20", null) });
    await bench.network.apply(LINK, { kind: "set-link", mtu: 1380, up: false });
    t.strictSame((await observe(bench)).routes, []);
    await bench.removeLink(LINK);
    t.match(await observe(bench), { link: null, addresses: [], routes: [] });
  });

  test("with the last IPv4 address all IPv4 routes of the interface go, as Linux has it", async (t, bench) => {
    await ready(bench);
    for (const destination of ["10.250.0.0/20", "fd00:250::/48"]) {
      await bench.network.apply(LINK, { kind: "add-route", route: route(destination, null) });
    }
    const address = cidr("198.18.0.1/32");
    await bench.network.apply(LINK, { kind: "remove-address", address });
    const left = { ...route("fd00:250::/48", null), interface: LINK };
    t.strictSame((await observe(bench)).routes, [left]);
  });

  test("with a route's source goes the IPv4 route; the IPv6 route stays without it", async (t, bench) => {
    await ready(bench);
    for (const address of ["198.18.0.9/32", "fd00:18::9/128"]) {
      await bench.network.apply(LINK, { kind: "add-address", address: cidr(address) });
    }
    const routes = [route("10.250.0.0/20", "198.18.0.1"), route("fd00:250::/48", "fd00:18::1")];
    for (const added of routes)
      await bench.network.apply(LINK, { kind: "add-route", route: added });
    for (const address of ["198.18.0.1/32", "fd00:18::1/128"]) {
      await bench.network.apply(LINK, { kind: "remove-address", address: cidr(address) });
    }
    const left = { ...route("fd00:250::/48", null), interface: LINK };
    t.strictSame((await observe(bench)).routes, [left]);
  });

  test("adding to an interface that is gone names it; removing from it is success", async (t, bench) => {
    const address = cidr("198.18.0.1/32");
    const adding = bench.network.apply(LINK, { kind: "add-address", address });
    await rejectsWith(t, adding, { code: "no-such-interface", says: /xylem0/ });
    await bench.network.apply(LINK, { kind: "remove-address", address });
    const gone = { ...route("10.250.0.0/20", null), interface: LINK };
    await bench.network.apply(LINK, { kind: "remove-route", route: gone });
  });

  test("W37 rp_filter of our interface is read and set", async (t, bench) => {
    await bench.addLink(LINK);
    const name = `net.ipv4.conf.${LINK}.rp_filter`;
    for (const value of ["1", "2"]) {
      await bench.network.apply(LINK, { kind: "set-sysctl", name, value });
      t.strictSame((await observe(bench, { [name]: "" })).sysctls, { [name]: value });
    }
  });

  test("a sysctl that does not exist is left out when read and refused when set", async (t, bench) => {
    const name = `net.ipv4.conf.${LINK}.rp_filter`;
    t.strictSame((await observe(bench, { [name]: "2" })).sysctls, {});
    const setting = bench.network.apply(LINK, { kind: "set-sysctl", name, value: "2" });
    await rejectsWith(t, setting, { code: "no-such-interface", says: /rp_filter/ });
  });
}

async function rejectsWith(
  t: Test,
  call: Promise<unknown>,
  want: { code: string; says: RegExp },
): Promise<void> {
  const error = await call.then(
    () => null,
    (e: unknown) => e,
  );
  if (!isHostError(error)) {
    t.fail("a HostError was expected", { error });
    return;
  }
  t.equal(error.code, want.code, error.message);
  t.match(error.message, want.says);
}

function route(destination: string, source: string | null): Route {
  return { destination: cidr(destination), source: source === null ? null : ip(source) };
}

function cidr(text: string): Cidr {
  const read = parseCidr(text);
  if (!read.ok) throw new TypeError(read.problem);
  return read.value;
}

function ip(text: string): IpAddress {
  const read = parseIp(text);
  if (!read.ok) throw new TypeError(read.problem);
  return read.value;
}
