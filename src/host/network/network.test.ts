/** The Network suite against the fake, and as root against the kernel in a fresh network namespace. */

import { execFileSync } from "node:child_process";
import { userInfo } from "node:os";
import t, { type Test } from "tap";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { parseIp } from "#src/model/ip.ts";
import type { NetworkOperation, Route } from "#src/model/network.ts";
import { valueOf } from "#src/model/parsed.ts";
import { FakeNetwork } from "./fake-network.ts";
import { freshNamespace } from "./fresh-namespace.ts";
import { NetlinkNetwork } from "./netlink-network.ts";
import { networkCompliance, type NetworkBench } from "./network-compliance.ts";

const namespace = freshNamespace(import.meta.filename);
switch (namespace.kind) {
  case "inside": {
    const network = new NetlinkNetwork();
    t.teardown(() => network.close());
    networkCompliance(t, async () => kernelBench(network));
    void t.test("a missing capability is named with its fix", async (t) => {
      t.equal(userInfo().uid, 0);
      const said = withoutNetAdmin();
      t.match(said, /no-permission Set link .* on lo failed \(EPERM\).*NET_ADMIN/);
    });
    void t.test(
      "W37 rp_filter is set where /proc/sys is read-only and NET_ADMIN is all we have",
      async (t) => {
        ip("tuntap add dev xylem0 mode tun");
        t.teardown(() => ip("link del xylem0"));
        t.equal(withReadOnlySysctls(), "1 then 2");
      },
    );
    for (const family of [4, 6] as const) {
      void t.test(
        `our own table wins over equal IPv${family} routes, but not for kept-out addresses and answers`,
        (t) => ownTableWins(t, network, family),
      );
    }
    void t.test("a large routing table is read completely", async (t) => {
      ip("link add many0 type bridge");
      ip("link set many0 up");
      const lines = Array.from(
        { length: 3_000 },
        (_, i) => `route add 10.${i >> 8}.${i & 255}.0/24 dev many0 proto 158`,
      );
      execFileSync("ip", ["-batch", "-"], { input: lines.join("\n") });
      const { routes } = await network.observe({ interface: "many0", sysctls: {} });
      t.equal(new Set(routes.map((r) => r.destination)).size, 3_000);
      ip("link del many0");
    });
    break;
  }
  case "outside":
    void t.test("fake", async (t) => networkCompliance(t, fakeBench));
    void t.spawn(namespace.command, [...namespace.args], { env: namespace.env }, "kernel");
    break;
  case "impossible":
    void t.test("fake", async (t) => networkCompliance(t, fakeBench));
    void t.test("kernel", { skip: namespace.reason }, () => undefined);
    break;
}

async function fakeBench(): Promise<NetworkBench> {
  const network = new FakeNetwork();
  return {
    network,
    addLink: async (name) => network.addLink(name),
    removeLink: async (name) => network.removeLink(name),
    addForeignRoute: async (options) => network.addRouteOf({ ...options, protocol: 3 }),
    foreignRoutes: async () =>
      [...network.print().matchAll(/^route (\S+) .* proto 3$/gm)].map((m) => m[1] ?? ""),
  };
}

function kernelBench(network: NetlinkNetwork): NetworkBench {
  return {
    network,
    addLink: async (name) => {
      ip(`tuntap add dev ${name} mode tun`);
    },
    removeLink: async (name) => {
      if (ip("-br link").includes(name)) ip(`link del ${name}`);
    },
    addForeignRoute: async (options) => {
      ip(`route add ${options.destination} dev ${options.interface} proto boot`);
    },
    foreignRoutes: async () =>
      ip("route show proto boot")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => line.split(" ")[0] ?? ""),
  };
}

function ip(args: string): string {
  return execFileSync("ip", args.split(" "), { encoding: "utf8" });
}

/** The kernel's own choice of a route, for packets with and without our mark. */
async function ownTableWins(t: Test, network: NetlinkNetwork, family: 4 | 6): Promise<void> {
  const [range, needed, other, pod, slot] =
    family === 4
      ? ["10.250.0.0/20", "10.250.3.7/32", "10.250.3.8", "10.250.0.9/20", "198.18.0.1/32"]
      : ["fd25::/64", "fd25::3:7/128", "fd25::3:8", "fd25::9/64", "fd18::1/128"];
  const parsedCidr = (text: string): Cidr => valueOf(parseCidr(text));
  const way = (flags = "", address = other): string =>
    ip(`-${family} route get ${address}${flags}`).replace(/\s+/gu, " ");
  ip("tuntap add dev xylem0 mode tun");
  ip("link add eth0 type bridge");
  t.teardown(() => {
    ip("link del xylem0");
    ip("link del eth0");
  });
  ip(`-${family} address add ${pod} dev eth0${family === 6 ? " nodad" : ""}`);
  ip("link set eth0 up");
  const apply = (operation: NetworkOperation): Promise<void> => network.apply("xylem0", operation);
  await apply({ kind: "set-link", mtu: 1380, up: true });
  await apply({ kind: "add-address", address: parsedCidr(slot) });
  const source = valueOf(parseIp(slot.replace(/\/.*/u, "")));
  const routes: readonly Route[] = [
    { destination: parsedCidr(range), source, table: "own" },
    { destination: parsedCidr(needed), source: null, table: "own", way: "keep-out" },
  ];
  for (const route of routes) await apply({ kind: "add-route", route });
  t.match(way(), / dev eth0 /u, "without the rule nobody looks into our table");
  await apply({ kind: "add-rule", family });
  t.match(way(), new RegExp(` dev xylem0 .*src ${source} `, "u"));
  t.match(way("", needed.replace(/\/.*/u, "")), / dev eth0 /u);
  t.match(way(" mark 158"), / dev eth0 /u, "an answer");
  t.match(way(" mark 159"), / dev xylem0 /u);
  await apply({ kind: "remove-rule", family });
  t.match(way(), / dev eth0 /u);
  for (const route of routes)
    await apply({ kind: "remove-route", route: { ...route, interface: "xylem0" } });
  t.same((await network.observe({ interface: "xylem0", sysctls: {} })).routes, []);
}

/** Runs one operation in a process that has dropped NET_ADMIN, and gives the code and sentence of its error. */
function withoutNetAdmin(): string {
  const script = `
    const { NetlinkNetwork } = await import(${JSON.stringify(import.meta.resolve("./netlink-network.ts"))});
    try {
      await new NetlinkNetwork().apply("lo", { kind: "set-link", mtu: 1500, up: true });
    } catch (e) { console.log(e.code, e.message); }
    process.exit(0);`;
  const node = [process.execPath, "--input-type=module", "--eval", script];
  return execFileSync("setpriv", ["--bounding-set=-net_admin", "--inh-caps=-net_admin", ...node], {
    encoding: "utf8",
  });
}

/** Sets rp_filter to 1, then to 2 through our port, and gives what was read before and after. */
function withReadOnlySysctls(): string {
  const name = "net.ipv4.conf.xylem0.rp_filter";
  const script = `
    const { NetlinkNetwork } = await import(${JSON.stringify(import.meta.resolve("./netlink-network.ts"))});
    const network = new NetlinkNetwork();
    const read = async () => (await network.observe({ interface: "xylem0", sysctls: { "${name}": "" } })).sysctls["${name}"];
    const before = await read();
    await network.apply("xylem0", { kind: "set-sysctl", name: "${name}", value: "2" });
    console.log(before, "then", await read());
    process.exit(0);`;
  const shell = [
    `sysctl -qw ${name}=1`,
    "mount --bind /proc/sys /proc/sys",
    "mount -o remount,bind,ro /proc/sys",
    'exec "$0" --input-type=module --eval "$1"',
  ].join(" && ");
  const args = ["--mount", "sh", "-c", shell, process.execPath, script];
  return execFileSync("unshare", args, { encoding: "utf8" }).trim();
}
