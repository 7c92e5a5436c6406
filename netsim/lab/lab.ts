/** Opens and closes a lab: a topology in network namespaces, with logs, evidence and a leak check at the end. */

import { mkdirSync, mkdtempSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { setTimeout as after } from "node:timers/promises";

import { type Balancer, openBalancer } from "./balancer.ts";
import { writeEvidence } from "./evidence.ts";
import {
  hostDifferences,
  type HostState,
  readHostState,
  restoreHostSysctls,
  saveHostSysctls,
} from "./host-state.ts";
import {
  claimLedger,
  type Ledger,
  ledgerRoot,
  removeDeadLabs,
  type RemoveReport,
  removeResources,
  type Resource,
} from "./ledger.ts";
import { type Namespace, openNamespace } from "./namespace.ts";
import { runCommand, type Running } from "./process.ts";
import { missingForLab, surroundingsNow } from "./requirements.ts";
import { type Topology, topologyProblems } from "./topology.ts";
import { namespaceName, namespaceNames, switchMachine, wire } from "./wiring.ts";

const stopGraceMsDefault = 1_500;
const leakLooks = 5;
const leakLookIntervalMs = 300;
const ramSize = "6g";

export interface LabOptions {
  /** The folder for logs, captures and files; default: a new one in the system's folder for temporary files. */
  readonly dir?: string;
  /** Keep the folder after `close`; default false. `evidence` keeps it too. */
  readonly keep?: boolean;
  /** How long programs get to end by themselves at `close`; default 1.5 s. */
  readonly stopGraceMs?: number;
}

export interface Lab {
  readonly name: string;
  readonly topology: Topology;
  /** Logs are in `dir/log`, captures in `dir/capture`. */
  readonly dir: string;
  /** A tmpfs that lives as long as the lab: data of etcd, images, folders of machines. */
  readonly ram: string;
  namespace(machine: string): Namespace;
  /** The namespace with all bridges. */
  readonly switch: Namespace;
  balancer(name: string): Balancer;
  /** Records something that the caller is about to make, so that `close` or the next run removes it. */
  record(resource: Resource): void;
  /** Makes `close` stop what the caller has started: programs first, then the machines that they may run on. */
  own(running: Running, stage?: "program" | "machine"): void;
  /** Writes the state of every machine beside the logs, keeps the folder after `close`, and returns its path. */
  evidence(): Promise<string>;
  /** Ends and removes everything; throws a LabLeakError when something was left or is left. Idempotent. */
  close(): Promise<void>;
}

/** Something that a lab has made was still there when all should have been gone. */
export class LabLeakError extends Error {
  readonly leaks: readonly string[];

  constructor(lab: string, leaks: readonly string[], options?: ErrorOptions) {
    super(`The lab "${lab}" leaked:\n  ${leaks.join("\n  ")}`, options);
    this.name = "LabLeakError";
    this.leaks = leaks;
  }
}

/** Removes what labs of dead processes have left, and returns the names of those labs. */
export const removeLeftovers = async (): Promise<string[]> => {
  const removed = await removeDeadLabs();
  await restoreHostSysctls();
  removeEmptyRoot();
  return removed;
};

/** Builds a topology; first removes what a crashed lab of the same name has left. Needs root. */
export const openLab = async (topology: Topology, options: LabOptions = {}): Promise<Lab> => {
  const problems = [...missingForLab(surroundingsNow()), ...topologyProblems(topology)];
  if (problems.length > 0) throw new Error(problems.join("\n"));
  const ledger = await claimLedger(topology.name);
  const dir = options.dir ?? mkdtempSync(`${tmpdir()}/xylem-lab-${topology.name}-`);
  try {
    return await build(topology, ledger, {
      dir,
      keep: options.keep ?? false,
      isOwnDir: options.dir === undefined,
      stopGraceMs: options.stopGraceMs ?? stopGraceMsDefault,
    });
  } catch (error) {
    // Commands of the failed build may still run: they are no leak, they end with their namespace.
    const { failures } = await dismantle(ledger, { keepDir: null });
    if (failures.length > 0) throw new LabLeakError(topology.name, failures, { cause: error });
    throw error;
  }
};

interface Place {
  readonly dir: string;
  readonly keep: boolean;
  /** Whether the lab made the folder itself. */
  readonly isOwnDir: boolean;
  readonly stopGraceMs: number;
}

const build = async (topology: Topology, ledger: Ledger, place: Place): Promise<Lab> => {
  const { dir } = place;
  const ram = `${dir}/ram`;
  const logFolder = `${dir}/log`;
  mkdirSync(logFolder, { recursive: true });
  await saveHostSysctls();
  const before = await readHostState({ prefix: namespaceName(topology.name, ""), dir });
  if (place.isOwnDir) ledger.record({ kind: "folder", path: dir });
  ledger.record({ kind: "folder", path: ram });
  ledger.record({ kind: "mount", path: ram });
  mkdirSync(ram, { recursive: true });
  await runCommand(["mount", "-t", "tmpfs", "-o", `size=${ramSize},mode=755`, "xylem-lab", ram]);
  for (const name of namespaceNames(topology)) ledger.record({ kind: "namespace", name });
  await wire(topology);

  const owned: Record<"program" | "machine", Running[]> = { program: [], machine: [] };
  const own: Lab["own"] = (running, stage = "program") => {
    owned[stage].push(running);
  };
  const namespaces = new Map(
    [switchMachine, ...Object.keys(topology.machines)].map((machine) => [
      machine,
      openNamespace({
        machine,
        name: namespaceName(topology.name, machine),
        logFolder,
        onSpawn: own,
      }),
    ]),
  );
  const namespace = (machine: string): Namespace => found(namespaces, machine, "machine");
  const balancers = new Map<string, Balancer>();
  for (const [name, spec] of Object.entries(topology.balancers ?? {})) {
    balancers.set(name, await openBalancer({ topology, spec, namespace }));
  }
  let isKept = place.keep;
  let closing: Promise<void> | null = null;
  const close = async (): Promise<void> => {
    for (const balancer of balancers.values()) await balancer.close();
    await Promise.all(owned.program.map((program) => program.stop(place.stopGraceMs)));
    await Promise.all(owned.machine.map((machine) => machine.stop(place.stopGraceMs)));
    const { strays, failures } = await dismantle(ledger, { keepDir: isKept ? dir : null });
    const leaks = strays.map((stray) => `still ran in a namespace (process): ${stray}`);
    leaks.push(
      ...failures,
      ...(await lastingDifferences(before, { prefix: namespaceName(topology.name, ""), dir })),
    );
    if (leaks.length > 0) throw new LabLeakError(topology.name, leaks);
  };
  return {
    name: topology.name,
    topology,
    dir,
    ram,
    namespace,
    switch: namespace(switchMachine),
    balancer: (name) => found(balancers, name, "balancer"),
    record: (resource) => ledger.record(resource),
    own,
    evidence: async () => {
      isKept = true;
      await writeEvidence({ dir, ram }, [...namespaces.values()]);
      return dir;
    },
    close: () => (closing ??= close()),
  };
};

/** Removes what the ledger holds. */
const dismantle = async (
  ledger: Ledger,
  { keepDir }: { readonly keepDir: string | null },
): Promise<RemoveReport> => {
  const resources = ledger
    .resources()
    .filter((each) => each.kind !== "folder" || each.path !== keepDir);
  const report = await removeResources(resources);
  if (report.failures.length > 0) ledger.abandon();
  else ledger.forget();
  await restoreHostSysctls();
  removeEmptyRoot();
  return report;
};

/** What others do on the host at the same time comes and goes; a leak stays. */
const lastingDifferences = async (
  before: HostState,
  lab: { readonly prefix: string; readonly dir: string },
): Promise<string[]> => {
  for (let looks = 1; ; looks += 1) {
    const differences = hostDifferences(before, await readHostState(lab));
    if (differences.length === 0 || looks === leakLooks) return differences;
    await after(leakLookIntervalMs);
  }
};

const removeEmptyRoot = (): void => {
  try {
    rmdirSync(ledgerRoot);
  } catch {
    // Another lab runs, or there never was one.
  }
};

const found = <T>(map: ReadonlyMap<string, T>, name: string, what: string): T => {
  const value = map.get(name);
  if (value === undefined)
    throw new Error(`There is no ${what} "${name}" in the lab: ${[...map.keys()].join(", ")}.`);
  return value;
};
