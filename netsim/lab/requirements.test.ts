import { chmodSync } from "node:fs";

import t from "tap";

import { missingForLab } from "./requirements.ts";

const names = "bash conntrack ip mount nft nsenter setpriv sysctl unshare".split(" ");

void t.test("nothing is missing where every program is somewhere on the path", (t) => {
  const dir = t.testdir({ a: files(names.slice(0, 4)), b: files(names.slice(4)) });
  makeExecutable(`${dir}/a`, names.slice(0, 4));
  makeExecutable(`${dir}/b`, names.slice(4));
  t.same(missingForLab({ path: `${dir}/a:${dir}/b`, userId: 0 }), []);
  t.end();
});

void t.test("what is missing is named with its package, a file that can't be run included", (t) => {
  const dir = t.testdir(files(names));
  makeExecutable(
    dir,
    names.filter((name) => name !== "nft" && name !== "conntrack"),
  );
  t.same(missingForLab({ path: dir, userId: 0 }), [
    'The program "conntrack" is missing: install the package conntrack.',
    'The program "nft" is missing: install the package nftables.',
  ]);
  t.end();
});

void t.test("somebody else than root is told so first", (t) => {
  t.match(missingForLab({ path: "", userId: 1000 }), [/^A lab needs root/]);
  t.end();
});

function files(list: readonly string[]): Record<string, string> {
  return Object.fromEntries(list.map((name) => [name, ""]));
}

function makeExecutable(dir: string, list: readonly string[]): void {
  for (const name of list) chmodSync(`${dir}/${name}`, 0o755);
}
