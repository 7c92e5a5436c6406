/** What the machine has already is used when it is all there in the right version, and never otherwise. */

import { spawnSync } from "node:child_process";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import t from "tap";
import { findEach, findFolder, moduleVersion } from "./machine-programs.ts";
import { hyperkubeOnMachine } from "./programs.ts";

/** A program that prints one text, whatever it is asked. */
const write = async (folder: string, name: string, says: string, code = 0): Promise<void> => {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, name), `#!/bin/sh\necho "${says}" "$@"\nexit ${code}\n`);
  await chmod(join(folder, name), 0o755);
};

const kubernetes = async (folder: string, version: string): Promise<void> => {
  for (const name of ["apiserver", "controller-manager", "scheduler", "proxy"])
    await write(folder, `kube-${name}`, `Kubernetes ${version}`);
  await write(folder, "kubelet", `Kubernetes ${version}`);
  await write(folder, "kubectl", `Client Version: ${version}`);
  await write(folder, "etcd", "etcd Version: 3.7.0");
  await write(folder, "metrics-server", "v0.9.0");
};

const compiler = "for this test\n";

t.test("a folder counts when all its programs are there in the right version", async (t) => {
  const [old, half, right] = ["old", "half", "right"].map((name) => join(t.testdir(), name));
  if (old === undefined || half === undefined || right === undefined) return;
  const wanted = ["one", "two"].map((name) => ({ name, version: "v1.2.3" }));
  for (const name of ["one", "two"]) await write(old, name, "version v1.2.30");
  await write(half, "one", "v1.2.3");
  await write(half, "two", "v1.2.3", 1);
  t.equal(await findFolder(wanted, `${old}:${half}`), null, "older, and one that fails");
  await write(right, "one", "version v1.2.3+vendor.4");
  await write(right, "two", "it is 1.2.3 .");
  t.equal(await findFolder(wanted, `relative:${old}:${half}:${right}`), right);
  t.equal(await findFolder([], right), null, "nothing is nowhere");
});

t.test("a program without a useful version is known by its Go module", async (t) => {
  t.strictSame(moduleVersion("/usr/bin/wireguard-go"), [
    "go",
    "version",
    "-m",
    "/usr/bin/wireguard-go",
  ]);
  const folder = t.testdir();
  await write(folder, "script", "v1.0.0");
  const wanted = [{ name: "script", version: "v1.0.0", ask: moduleVersion }];
  t.equal(await findEach(wanted, folder), null, "a script is no Go program");
});

t.test("the machine's Kubernetes stands in for hyperkube, also spread over folders", async (t) => {
  const root = t.testdir();
  const [first, second] = [join(root, "first"), join(root, "second")];
  await kubernetes(first, "v1.37.1");
  t.equal(await hyperkubeOnMachine(join(root, "cache"), compiler, first), null, "another patch");
  await kubernetes(second, "v1.37.2");
  await write(first, "kube-proxy", "Kubernetes v1.37.2");
  const search = `${first}:${second}`;
  const folder = await hyperkubeOnMachine(join(root, "cache"), compiler, search);
  if (folder === null) throw new Error("expected a folder: all eight programs were there");
  const run = spawnSync(join(folder, "hyperkube"), ["kubectl", "get", "pods"], {
    encoding: "utf8",
  });
  t.equal(run.stdout.trim(), "Client Version: v1.37.2 get pods");
  t.match(await readFile(join(folder, "etcd"), "utf8"), /3\.7\.0/, "a pod finds them beside it");
  t.equal(await hyperkubeOnMachine(join(root, "cache"), compiler, search), folder, "made once");
  const wrong = spawnSync(join(folder, "hyperkube"), ["kubeadm"], { encoding: "utf8" });
  t.equal(wrong.status, 2);
  t.match(wrong.stderr, /no program beside it is called like/);
  const named = spawnSync(join(folder, "hyperkube"), ["--v=2"], {
    argv0: "kubelet",
    encoding: "utf8",
  });
  t.equal(named.stdout.trim(), "Kubernetes v1.37.2 --v=2", "by the name it is called with");
});
