/** `xylem cidr map`: golden pictures of few, many, far apart and shared blocks, and bad input. */

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import {
  claimObject,
  fewObjects,
  manyObjects,
  poolObject,
  runCidr,
  seedObject,
  yamlOf,
} from "./cidr-samples.ts";

const folder = await mkdtemp(join(tmpdir(), "xylem-cidr-map-"));
t.teardown(() => rm(folder, { recursive: true }));
const golden = join(import.meta.dirname, "golden");

/** With UPDATE_GOLDEN=1 the pictures are written anew, to be looked at before they are committed. */
const sameAsGolden = async (t: Test, name: string, drawn: string): Promise<void> => {
  const file = join(golden, name);
  if (process.env["UPDATE_GOLDEN"] === "1") await writeFile(file, drawn);
  t.equal(drawn, await readFile(file, "utf8"), name);
};

const write = async (name: string, objects: readonly object[]): Promise<string> => {
  const file = join(folder, name);
  await writeFile(file, yamlOf(...objects));
  return file;
};

/** Twenty shoots in VPCs of their own: equal IPv4 ranges, which is allowed, and IPv6 far apart. */
const sharedObjects: readonly object[] = [
  seedObject("eu-1"),
  poolObject("six", ["fd00:10::/32"]),
  ...Array.from({ length: 20 }, (_, at) =>
    claimObject(`c${at}`, {
      vpc: `vpc-${at}`,
      nodes: { ipv6: { cidr: `fd00:10:${(at * 977 + 1).toString(16)}::/48` } },
      pods: { ipv4: { cidr: at === 7 ? "10.241.0.0/20" : "100.96.0.0/11" } },
    }),
  ),
];

const pictures: readonly {
  readonly name: string;
  readonly objects: readonly object[];
  readonly columns: number;
  readonly code: number;
}[] = [
  { name: "cidr-map-few", objects: fewObjects, columns: 80, code: 1 },
  { name: "cidr-map-many", objects: manyObjects(), columns: 100, code: 1 },
  { name: "cidr-map-shared", objects: sharedObjects, columns: 120, code: 1 },
];

for (const { name, objects, columns, code } of pictures) {
  void t.test(`the picture ${name} is as it was looked at, as text and as SVG`, async (t) => {
    const file = await write(`${name}.yaml`, objects);
    const text = await runCidr(["map", "-f", file], { columns });
    t.match(text, { error: "", code });
    await sameAsGolden(t, `${name}.txt`, text.out);
    for (const line of text.out
      .split("\n")
      .filter((one) => /^[0-9a-f.:]+ +[-.+!A-Za-z]+$/.test(one))) {
      t.ok(line.length <= columns, "a row is no wider than the terminal");
    }
    const svg = await runCidr(["map", "-f", file, "--svg", "-"]);
    await sameAsGolden(t, `${name}.svg`, svg.out);
  });
}

void t.test("ranges need no file: nested ones, IPv6, and a single address", async (t) => {
  const args = [
    "map",
    "10.0.0.0/16",
    "10.0.128.0/20",
    "10.3.0.0/17",
    "fd00:10::/64",
    "192.0.2.1/32",
  ];
  const said = await runCidr(args, { columns: 64 });
  t.equal(said.code, 1);
  await sameAsGolden(t, "cidr-map-ranges.txt", said.out);
});

void t.test(
  "--svg writes a file beside the text, --width and --list change the text",
  async (t) => {
    const file = await write("many.yaml", manyObjects());
    const svg = join(folder, "many.svg");
    const said = await runCidr(["map", "-f", file, "--svg", svg, "--width", "50", "--list"]);
    t.match(said.out, /\n10\.0\.0\.0       [!-~]{32}\n/);
    t.match(said.out, /10\.50\.0\.0\/17 +P pods of shoot--lab--s50\/net/);
    t.equal(await readFile(svg, "utf8"), await readFile(join(golden, "cidr-map-many.svg"), "utf8"));
  },
);

void t.test("--vpc shows what is in each other's way in one VPC", async (t) => {
  const file = await write("shared.yaml", sharedObjects);
  const said = await runCidr(["map", "-f", file, "--vpc", "vpc-7", "-o", "json"]);
  t.match(JSON.parse(said.out), {
    blocks: [
      { owner: "eu-1" },
      { owner: "eu-1" },
      { cidr: "10.241.0.0/20", owner: "shoot--c7/net" },
    ],
    collisions: [{ cidr: "10.241.0.0/20" }],
  });
});

void t.test("names that XML would read are escaped", async (t) => {
  const objects = [{ ...seedObject("eu-1"), spec: { nodes: ["10.0.0.0/8"] } }];
  const said = await runCidr(["map", "-f", await write("xml.yaml", objects), "--svg", "-"]);
  t.notMatch(said.out, /&(?!#[0-9]+;)/);
  t.match(said.out, /^<svg xmlns[^]*<\/svg>\n$/);
});

void t.test("bad input is one sentence and ends with 2", async (t) => {
  const pool = await write("pool.yaml", [poolObject("main", ["10.0.0.0/8"])]);
  const cases: readonly { readonly args: readonly string[]; readonly error: RegExp }[] = [
    { args: ["map"], error: /^xylem: say what to draw/ },
    { args: ["map", "10.0.0.5/8"], error: /write "10\.0\.0\.0\/8"/ },
    { args: ["map", "::/0", "--width", "x"], error: /--width must be a number/ },
    {
      args: ["map", "fd00::/8", "--svg", join(folder, "nix", "a.svg")],
      error: /a\.svg: it can't be written \(.*ENOENT/,
    },
    { args: ["map", "-f", pool, "--vpc", "nix"], error: /--vpc nix: nobody has anything in it/ },
  ];
  for (const { args, error } of cases) t.match(await runCidr(args), { out: "", error, code: 2 });
});
