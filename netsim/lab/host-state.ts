/** What a lab must leave as it was on the machine that runs it. */

import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

import { labNames, ledgerRoot } from "./ledger.ts";
import { namespaceFolder } from "./namespace.ts";
import { runCommand } from "./process.ts";
import { namespaceName } from "./wiring.ts";

/** Watches of files, for all programs of a user together: one cluster of the lab needs 44, and several stand side by side. */
const inotifyInstances = { key: "fs.inotify.max_user_instances", min: 1_024 } as const;

/** Set for the whole machine, not for its namespaces: by the kubelet, and the last one by the lab. */
const hostSysctls = [
  "vm.overcommit_memory",
  "kernel.panic",
  "kernel.panic_on_oops",
  "kernel.keys.root_maxkeys",
  "kernel.keys.root_maxbytes",
  inotifyInstances.key,
];
const sysctlsFile = `${ledgerRoot}/host-sysctls.json`;

/** Every part as sorted lines without counters and timers. */
export type HostState = Readonly<Record<string, readonly string[]>>;

/** Reads the host's links, addresses, routes, rules, packet filters, and the mounts and namespaces of one lab. */
export const readHostState = async (lab: {
  readonly prefix: string;
  readonly dir: string;
}): Promise<HostState> => {
  const [links, addresses, routes4, routes6, rules4, rules6, filters] = await Promise.all([
    lines(["ip", "-o", "link"]),
    lines(["ip", "-br", "addr"]),
    lines(["ip", "-4", "route", "show", "table", "all"]),
    lines(["ip", "-6", "route", "show", "table", "all"]),
    lines(["ip", "-4", "rule"]),
    lines(["ip", "-6", "rule"]),
    lines(["nft", "-s", "list", "ruleset"]),
  ]);
  const mounts = readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .filter((path) => path === lab.dir || path.startsWith(`${lab.dir}/`));
  return {
    link: links.map((line) => line.replace(/ (qlen \d+|state \S+)/g, "")),
    address: addresses,
    route: [...routes4, ...routes6].map((line) => line.replace(/ expires \S+/, "")),
    rule: [...rules4, ...rules6],
    "packet filter": filters,
    mount: mounts,
    namespace: namespacesOf(lab.prefix),
  };
};

/** The namespaces of one lab, and not those of another one whose name goes on where this one's ends. */
const namespacesOf = (prefix: string): string[] => {
  const names = listNamespaces().filter((name) => name.startsWith(prefix));
  const others = labNames()
    .map((lab) => namespaceName(lab, ""))
    .filter((other) => other !== prefix && other.startsWith(prefix));
  return names.filter((name) => !others.some((other) => name.startsWith(other)));
};

/** What differs, one sentence each; empty when nothing does. */
export const hostDifferences = (before: HostState, now: HostState): string[] =>
  Object.keys({ ...before, ...now }).flatMap((part) => {
    const old = before[part] ?? [];
    const current = now[part] ?? [];
    return [
      ...current
        .filter((line) => !old.includes(line))
        .map((line) => `left behind (${part}): ${line}`),
      ...old.filter((line) => !current.includes(line)).map((line) => `lost (${part}): ${line}`),
    ];
  });

/** Saves the host's sysctls once for all labs that run now, and makes room for several clusters. */
export const saveHostSysctls = async (): Promise<void> => {
  if (!existsSync(sysctlsFile)) {
    const values: Record<string, string> = {};
    for (const key of hostSysctls) {
      const value = await readSysctl(key);
      if (value !== null) values[key] = value;
    }
    writeFileSync(sysctlsFile, JSON.stringify(values));
  }
  const { key, min } = inotifyInstances;
  // A machine that forbids it can still run one lab after the other.
  if (Number((await readSysctl(key)) ?? min) < min)
    await runCommand(["sysctl", "-qw", `${key}=${min}`], { check: false });
};

const readSysctl = async (key: string): Promise<string | null> => {
  const { code, stdout } = await runCommand(["sysctl", "-n", key], { check: false });
  return code === 0 ? stdout.trim() : null;
};

/** Sets the host's sysctls back when no lab is left; until then the others may still need them. */
export const restoreHostSysctls = async (): Promise<void> => {
  if (labNames().length > 0 || !existsSync(sysctlsFile)) return;
  const values: unknown = JSON.parse(readFileSync(sysctlsFile, "utf8"));
  if (typeof values === "object" && values !== null) {
    const wanted = Object.entries(values).map(([key, value]) => `${key}=${String(value)}`);
    if (wanted.length > 0) await runCommand(["sysctl", "-qw", ...wanted]);
  }
  rmSync(sysctlsFile, { force: true });
};

/** The named network namespaces of this machine. */
export const listNamespaces = (): string[] => {
  try {
    return readdirSync(namespaceFolder);
  } catch {
    return [];
  }
};

const lines = async (argv: readonly string[]): Promise<string[]> => {
  const { stdout } = await runCommand(argv, { check: false });
  return stdout
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "")
    .sort();
};
