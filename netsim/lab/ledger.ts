/** The record of what a lab has made, on disk before it is made, so that a crashed run can be cleaned up. */

import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { setTimeout as after } from "node:timers/promises";

import { namespaceFolder } from "./namespace.ts";
import { endProcess, isAlive, runCommand, startTicks } from "./process.ts";

/** The folder that holds one folder for each lab that exists or crashed. */
export const ledgerRoot = "/run/xylem-lab";

const removeTries = 50;
const removeIntervalMs = 40;

/** What a lab makes outside its own memory. */
export type Resource =
  | { readonly kind: "namespace"; readonly name: string }
  | { readonly kind: "mount"; readonly path: string }
  | { readonly kind: "cgroup"; readonly path: string }
  /** A folder that goes with the lab, unless the lab is kept. */
  | { readonly kind: "folder"; readonly path: string };

interface Owner {
  readonly pid: number;
  /** Tells a process from a later one with the same number. */
  readonly startTicks: string;
}

export interface Ledger {
  readonly name: string;
  /** Call before making the resource. */
  record(resource: Resource): void;
  resources(): readonly Resource[];
  /** Forgets the lab; call when everything is gone. */
  forget(): void;
  /** Leaves what could not be removed to the next run. */
  abandon(): void;
}

const folderOf = (name: string): string => `${ledgerRoot}/${name}`;

/** Claims a lab's name; fails when a living process has it, and removes what a dead one has left. */
export const claimLedger = async (name: string): Promise<Ledger> => {
  const owner = readOwner(name);
  if (owner !== null && isOwnerAlive(owner)) {
    throw new Error(
      `The lab "${name}" is in use by process ${owner.pid}: close that one or choose another name.`,
    );
  }
  await removeDeadLab(name);
  claimFolder(name, { pid: process.pid, startTicks: startTicks(process.pid) ?? "" });
  return {
    name,
    record: (resource) => appendFileSync(resourcesFile(name), `${JSON.stringify(resource)}\n`),
    resources: () => readResources(name),
    forget: () => forget(name),
    abandon: () => writeFileSync(`${folderOf(name)}/owner.json`, "{}"),
  };
};

/**
 * A lab's folder appears together with its owner, so that nobody takes a lab that is being claimed for a dead one. Of
 * two processes that claim at the same time, the rename of one fails.
 */
const claimFolder = (name: string, owner: Owner): void => {
  const unclaimed = `${ledgerRoot}/.${name}-${owner.pid}`;
  mkdirSync(unclaimed, { recursive: true });
  writeFileSync(`${unclaimed}/owner.json`, JSON.stringify(owner));
  try {
    renameSync(unclaimed, folderOf(name));
  } catch (cause) {
    rmSync(unclaimed, { recursive: true, force: true });
    throw new Error(`The lab "${name}" was claimed by another process just now.`, { cause });
  }
};

/** Removes everything that labs of dead processes have left on this machine, and returns their names. */
export const removeDeadLabs = async (): Promise<string[]> => {
  const removed: string[] = [];
  for (const name of labNames()) {
    const owner = readOwner(name);
    if (owner !== null && isOwnerAlive(owner)) continue;
    await removeDeadLab(name);
    removed.push(name);
  }
  return removed;
};

/** The names of the labs that exist or crashed on this machine. */
export const labNames = (): string[] => {
  try {
    return readdirSync(ledgerRoot, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && !entry.name.startsWith("."))
      .map((entry) => entry.name);
  } catch {
    return [];
  }
};

/** The resources that the ledger of a lab holds; empty for an unknown lab. */
export const readResources = (name: string): Resource[] => {
  if (!existsSync(resourcesFile(name))) return [];
  return readFileSync(resourcesFile(name), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .flatMap((line) => {
      const resource = parseResource(line);
      return resource === null ? [] : [resource];
    });
};

export interface RemoveReport {
  /** The processes that still ran and had to be ended, as "pid command". */
  readonly strays: readonly string[];
  /** What could not be removed, a sentence each. */
  readonly failures: readonly string[];
}

/** Ends the processes in the namespaces of the list and removes all that it names, newest first; absent is success. */
export const removeResources = async (resources: readonly Resource[]): Promise<RemoveReport> => {
  const names = resources.flatMap((each) => (each.kind === "namespace" ? [each.name] : []));
  const strays = await endProcessesIn(names);
  const failures: string[] = [];
  for (const resource of [...resources].reverse()) {
    try {
      await removeResource(resource);
    } catch (error) {
      failures.push(error instanceof Error ? error.message : String(error));
    }
  }
  return { strays, failures };
};

const removeResource = async (resource: Resource): Promise<void> => {
  switch (resource.kind) {
    case "namespace":
      if (!existsSync(`${namespaceFolder}/${resource.name}`)) return;
      await runCommand(["ip", "netns", "del", resource.name]);
      return;
    case "mount":
      while (isMountPoint(resource.path)) await runCommand(["umount", "--lazy", resource.path]);
      return;
    case "cgroup":
      await removeCgroup(resource.path);
      return;
    case "folder":
      rmSync(resource.path, { recursive: true, force: true });
      return;
  }
};

/** Tells whether a path is a mount point of this mount namespace. */
export const isMountPoint = (path: string): boolean =>
  readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .some((line) => line.split(" ")[4] === path);

/** The processes whose network namespace is one of these, as "pid command". */
export const processesIn = (
  namespaces: readonly string[],
): { readonly pid: number; readonly command: string }[] => {
  const inodes = new Set(namespaces.flatMap((name) => inodeOf(`${namespaceFolder}/${name}`)));
  if (inodes.size === 0) return [];
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => isAlive(pid) && inodes.has(namespaceInode(pid)))
    .map((pid) => ({ pid, command: commandOf(pid) }));
};

const endProcessesIn = async (namespaces: readonly string[]): Promise<string[]> => {
  const strays = processesIn(namespaces);
  await Promise.all(strays.map(({ pid }) => endProcess(pid)));
  return strays.map(({ pid, command }) => `${pid} ${command}`);
};

const removeDeadLab = async (name: string): Promise<void> => {
  if (!existsSync(folderOf(name))) return;
  const { failures } = await removeResources(readResources(name));
  if (failures.length > 0) {
    throw new Error(`What the dead lab "${name}" has left can't be removed: ${failures.join(" ")}`);
  }
  forget(name);
};

const forget = (name: string): void => {
  rmSync(folderOf(name), { recursive: true, force: true });
};

const resourcesFile = (name: string): string => `${folderOf(name)}/resources.jsonl`;

const readOwner = (name: string): Owner | null => {
  try {
    const owner: unknown = JSON.parse(readFileSync(`${folderOf(name)}/owner.json`, "utf8"));
    if (
      typeof owner !== "object" ||
      owner === null ||
      !("pid" in owner) ||
      !("startTicks" in owner)
    )
      return null;
    return typeof owner.pid === "number" && typeof owner.startTicks === "string"
      ? { pid: owner.pid, startTicks: owner.startTicks }
      : null;
  } catch {
    return null;
  }
};

const isOwnerAlive = (owner: Owner): boolean =>
  isAlive(owner.pid) && startTicks(owner.pid) === owner.startTicks;

/** A line cut short by a crash is no resource: what it would have named was not made yet. */
const parseResource = (line: string): Resource | null => {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value !== "object" || value === null || !("kind" in value)) return null;
    if (value.kind === "namespace") {
      return "name" in value && typeof value.name === "string"
        ? { kind: value.kind, name: value.name }
        : null;
    }
    if (value.kind !== "mount" && value.kind !== "cgroup" && value.kind !== "folder") return null;
    return "path" in value && typeof value.path === "string"
      ? { kind: value.kind, path: value.path }
      : null;
  } catch {
    return null;
  }
};

/** Removes a cgroup and those below it, waiting for processes that are still on their way out. */
const removeCgroup = async (path: string): Promise<void> => {
  for (let tries = removeTries; existsSync(path); tries -= 1) {
    try {
      removeCgroupTree(path);
    } catch (error) {
      if (tries <= 0)
        throw new Error(`The cgroup ${path} can't be removed: something still runs in it.`, {
          cause: error,
        });
      await after(removeIntervalMs);
    }
  }
};

const removeCgroupTree = (path: string): void => {
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (entry.isDirectory()) removeCgroupTree(`${path}/${entry.name}`);
  }
  rmdirSync(path);
};

const inodeOf = (path: string): number[] => {
  try {
    return [statSync(path).ino];
  } catch {
    return [];
  }
};

const namespaceInode = (pid: number): number => {
  try {
    return Number(/\d+/.exec(readlinkSync(`/proc/${pid}/ns/net`))?.[0] ?? "-1");
  } catch {
    return -1;
  }
};

const commandOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim().slice(0, 200);
  } catch {
    return "?";
  }
};
