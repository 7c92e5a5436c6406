/** Finds which process holds a UDP port of this network namespace, through /proc/net/udp and /proc/PID/fd (proc(5)). */

import { readdir, readFile, readlink } from "node:fs/promises";

/** A machine with more processes is not searched to the end: the answer is a courtesy in an error message. */
const PROCESSES_MAX = 4_096;

/** `process NAME (pid N)`; null when it can't be seen, e.g. in another PID namespace. Never throws. */
export async function holderOfUdpPort(port: number): Promise<string | null> {
  const tables = await Promise.all(["udp", "udp6"].map((table) => readText(`/proc/net/${table}`)));
  const inodes = new Set(tables.flatMap((table) => inodesOfPort(table, port)));
  if (inodes.size === 0) return null;
  const pids = (await listing("/proc")).filter((name) => /^\d+$/.test(name));
  for (const pid of pids.slice(0, PROCESSES_MAX)) {
    if (!(await holdsSocket(pid, inodes))) continue;
    const name = (await readText(`/proc/${pid}/comm`)).trim();
    return `process ${name === "" ? "unknown" : name} (pid ${pid})`;
  }
  return null;
}

/** Inodes of the sockets bound to a port, from the text of /proc/net/udp. */
export function inodesOfPort(table: string, port: number): readonly string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  return table
    .split("\n")
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[1]?.endsWith(suffix) === true)
    .flatMap((fields) => (fields[9] === undefined ? [] : [fields[9]]));
}

async function holdsSocket(pid: string, inodes: ReadonlySet<string>): Promise<boolean> {
  for (const fd of await listing(`/proc/${pid}/fd`)) {
    const target = await readlink(`/proc/${pid}/fd/${fd}`).catch(() => "");
    const inode = /^socket:\[(\d+)\]$/.exec(target)?.[1];
    if (inode !== undefined && inodes.has(inode)) return true;
  }
  return false;
}

const readText = (path: string): Promise<string> => readFile(path, "utf8").catch(() => "");

const listing = (path: string): Promise<readonly string[]> => readdir(path).catch(() => []);
