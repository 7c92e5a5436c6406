/** `xylem cidr translate` on files, on a cluster, and on bad input. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { ADDRESS_MAPS, TUNNELS } from "#src/ports/kube-resource.ts";
import { runCidr, yamlOf } from "./cidr-samples.ts";

const folder = await mkdtemp(join(tmpdir(), "xylem-translate-"));
t.teardown(() => rm(folder, { recursive: true }));

const owner = (name: string) => ({ namespace: `shoot--${name}`, name, uid: `uid-${name}` });
const maps = {
  apiVersion: "xylem.dev/v1alpha1",
  kind: "AddressMaps",
  metadata: { name: "eu-1" },
  spec: {
    entries: [
      { mapped: "10.64.0.0/20", real: "10.250.0.0/20", tunnel: owner("a") },
      { mapped: "10.64.16.0/20", real: "10.250.0.0/20", tunnel: owner("b") },
      { mapped: "fd99::/56", real: "fd25:0:1::/56", tunnel: owner("b") },
    ],
  },
};
const tunnel = {
  apiVersion: "xylem.dev/v1alpha1",
  kind: "Tunnel",
  metadata: { namespace: "shoot--a", name: "a" },
  spec: {},
  status: { addressMaps: [{ real: "10.250.0.0/20", mapped: "10.64.0.0/20" }] },
};
const write = async (name: string, ...objects: readonly object[]): Promise<string> => {
  const file = join(folder, name);
  await writeFile(file, yamlOf(...objects));
  return file;
};
const file = await write("maps.yaml", maps);
const both = await write("both.yaml", maps, tunnel, {
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "x" },
});
const broken = await write("broken.yaml", {
  ...maps,
  spec: { entries: [{ ...maps.spec.entries[0], real: "10.250.0.0/21" }] },
});

const ROWS: readonly {
  name: string;
  args: readonly string[];
  out?: readonly string[];
  error?: RegExp;
  code: number;
}[] = [
  {
    name: "a real address of two shoots has two mapped ones",
    args: ["10.250.1.11", "-f", file],
    out: [
      "10.250.1.11 of Tunnel shoot--a/a is dialed as 10.64.1.11 (10.250.0.0/20 is 10.64.0.0/20)",
      "10.250.1.11 of Tunnel shoot--b/b is dialed as 10.64.17.11 (10.250.0.0/20 is 10.64.16.0/20)",
    ],
    code: 0,
  },
  {
    name: "one Tunnel, given twice",
    args: ["10.250.1.11", "-f", both, "--tunnel", "shoot--a/a"],
    out: [
      "10.250.1.11 of Tunnel shoot--a/a is dialed as 10.64.1.11 (10.250.0.0/20 is 10.64.0.0/20)",
    ],
    code: 0,
  },
  {
    name: "mapped addresses of both families",
    args: ["10.64.17.11", "FD99::0:7", "-f", file],
    out: [
      "10.64.17.11 stands for 10.250.1.11 of Tunnel shoot--b/b (10.64.16.0/20 is 10.250.0.0/20)",
      "fd99::7 stands for fd25:0:1::7 of Tunnel shoot--b/b (fd99::/56 is fd25:0:1::/56)",
    ],
    code: 0,
  },
  {
    name: "an address without a map",
    args: ["192.0.2.1", "-f", file],
    out: ["192.0.2.1 has no address map: it is dialed as it is"],
    code: 1,
  },
  { name: "no address", args: ["10.0.0", "-f", file], error: /IPv4 has four numbers/u, code: 2 },
  { name: "no source", args: ["10.0.0.1"], error: /-f FILE.*--kubeconfig FILE/u, code: 2 },
  {
    name: "no Tunnel's name",
    args: ["10.0.0.1", "-f", file, "--tunnel", "a"],
    error: /--tunnel "a" names no Tunnel: write NAMESPACE\/NAME/u,
    code: 2,
  },
  {
    name: "a map of two sizes",
    args: ["10.0.0.1", "-f", broken],
    error: /broken\.yaml.*spec\.entries\[0\] maps 10\.250\.0\.0\/21 to 10\.64\.0\.0\/20/u,
    code: 2,
  },
];

for (const { name, args, out, error, code } of ROWS) {
  void t.test(`translate: ${name}`, async (t) => {
    const said = await runCidr(["translate", ...args]);
    t.equal(said.out, out === undefined ? "" : `${out.join("\n")}\n`);
    t.match(said.error, error ?? /^$/u);
    t.equal(said.code, code);
  });
}

void t.test("translate -o json has everything a program needs", async (t) => {
  const { out } = await runCidr(["translate", "10.64.1.11", "-f", file, "-o", "json"]);
  t.same(JSON.parse(out), {
    answers: [
      {
        address: "10.64.1.11",
        translations: [
          {
            to: "real",
            address: "10.250.1.11",
            tunnel: { namespace: "shoot--a", name: "a" },
            real: "10.250.0.0/20",
            mapped: "10.64.0.0/20",
          },
        ],
      },
    ],
  });
});

void t.test("translate asks a seed; who may not read AddressMaps has his Tunnels", async (t) => {
  const open = () => new FakeKube({ clock: new FakeClock(), log: new FakeLog() });
  const kube = open();
  kube.seed(ADDRESS_MAPS, maps);
  const args = ["translate", "10.64.1.11", "--kubeconfig", "seed"];
  t.match(await runCidr(args, { kube }), { out: /stands for 10\.250\.1\.11/u, code: 0 });
  const limited = open();
  limited.seed(TUNNELS, tunnel);
  limited.failNext("list", "forbidden");
  t.match(await runCidr(args, { kube: limited }), { out: /stands for 10\.250\.1\.11/u, code: 0 });
  const away = open();
  away.breakDown();
  t.match(await runCidr(args, { kube: away }), { error: /outage/u, code: 2 });
});
