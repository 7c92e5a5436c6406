/** The cgroups of a machine: a child of the lab's own cgroup in every hierarchy (cgroups(7)). */

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";

import type { Resource } from "./ledger.ts";

const cgroupRoot = "/sys/fs/cgroup";

/** How the machine sees its cgroups, and which files a process must write itself into to be in them. */
export interface MachineCgroups {
  readonly version: 1 | 2;
  readonly procsFiles: readonly string[];
}

/** Makes the cgroups of a machine and records each before it exists. */
export const makeCgroups = (name: string, record: (resource: Resource) => void): MachineCgroups => {
  const hierarchies = ownCgroups();
  const version1 = hierarchies.filter(({ controllers }) => controllers !== "");
  if (version1.length === 0) return makeUnifiedCgroup(name, record);
  const procsFiles = version1.map(({ controllers, path }) => {
    // A named hierarchy (name=systemd) is mounted under its bare name.
    const parent = `${cgroupRoot}/${controllers.replace(/^name=/, "")}${path}`.replace(/\/$/, "");
    const folder = `${parent}/${name}`;
    record({ kind: "cgroup", path: folder });
    mkdirSync(folder, { recursive: true });
    // A new cpuset group has no processors and no memory, and accepts nobody until it has.
    if (controllers.split(",").includes("cpuset")) {
      for (const file of ["cpuset.cpus", "cpuset.mems"]) {
        writeFileSync(`${folder}/${file}`, readFileSync(`${parent}/${file}`, "utf8").trim());
      }
    }
    return `${folder}/cgroup.procs`;
  });
  return { version: 1, procsFiles };
};

/** Version 2 only: below the root, the one group that may hold both processes and controllers for its children. */
const makeUnifiedCgroup = (name: string, record: (resource: Resource) => void): MachineCgroups => {
  const folder = `${cgroupRoot}/${name}`;
  record({ kind: "cgroup", path: folder });
  mkdirSync(folder, { recursive: true });
  const available = readFileSync(`${cgroupRoot}/cgroup.controllers`, "utf8")
    .trim()
    .split(" ")
    .filter(Boolean);
  if (available.length > 0 && existsSync(`${cgroupRoot}/cgroup.subtree_control`)) {
    writeFileSync(
      `${cgroupRoot}/cgroup.subtree_control`,
      available.map((each) => `+${each}`).join(" "),
    );
  }
  return { version: 2, procsFiles: [`${folder}/cgroup.procs`] };
};

const ownCgroups = (): { readonly controllers: string; readonly path: string }[] =>
  readFileSync("/proc/self/cgroup", "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [, controllers = "", ...path] = line.split(":");
      return { controllers, path: path.join(":") };
    });
