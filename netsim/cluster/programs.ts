/** Builds the real programs that the lab runs, once, and keeps them outside the tree by content hash. */

import { createHash } from "node:crypto";
import { access, copyFile, mkdir, readFile, realpath, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "#netsim/lab/process.ts";
import { cacheFolder } from "../../scripts/cache-folder.ts";
import { findEach, findFolder, type MachineProgram, moduleVersion } from "./machine-programs.ts";

/** Absolute path of each program. */
export interface Programs {
  /** kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, kubelet, kubectl, etcd, metrics-server. */
  readonly hyperkube: string;
  readonly containerd: string;
  readonly ctr: string;
  readonly wireguardGo: string;
  readonly labpod: string;
  /** Folder of containerd and its shim; containerd finds the shim through PATH. */
  readonly containerdFolder: string;
}

/** What a build is doing, for a person who waits. */
export interface BuildProgress {
  readonly step: string;
  /** 1-based. */
  readonly index: number;
  readonly count: number;
  readonly elapsedMs: number;
  /** Rough, on two cores with an empty Go cache. */
  readonly roughTotalMs: number;
}

export interface ProgramsOptions {
  readonly onProgress?: (progress: BuildProgress) => void;
  /** Default: $XYLEM_CACHE, else $XDG_CACHE_HOME/xylem, else ~/.cache/xylem. */
  readonly cacheFolder?: string;
  /** Where the machine may have the programs already. Default: $PATH. */
  readonly searchPath?: string;
}

interface Unit {
  readonly name: string;
  readonly roughTotalMs: number;
  /** Arguments of `go`, without the output. */
  readonly args: readonly string[];
  /** Folder of our own sources, null when the module proxy has them. */
  readonly sources: { readonly folder: string; readonly files: readonly string[] } | null;
  /** Names in the finished folder; for module builds the name that Go gives to a name of ours. */
  readonly outputs: Readonly<Record<string, string>>;
  /** What is taken from the machine instead, when one of its folders has all of it in this version. */
  readonly onMachine?: readonly MachineProgram[];
}

const kubernetesVersion = "v1.37.2";
const etcdVersion = "v3.7.0";
const metricsServerVersion = "v0.9.0";
const containerdVersion = "v2.4.2";
const wireguardGoVersion = "v0.0.0-20260522210424-ecfc5a8d5446";

// Debug information is a third of the compile time and nobody debugs these here; GOGC trades memory for a quarter of it.
const commonFlags = ["-trimpath", "-gcflags=all=-dwarf=false"];
const buildEnvironment = { GOGC: "400", CGO_ENABLED: "0", GOFLAGS: "" };
const buildTimeoutMs = 3_600_000;
const versionPackage = "k8s.io/component-base/version";

const units: readonly Unit[] = [
  {
    name: "hyperkube",
    roughTotalMs: 540_000,
    args: [
      "build",
      ...commonFlags,
      "-ldflags",
      `-s -w -X ${versionPackage}.gitVersion=${kubernetesVersion} -X ${versionPackage}.gitMajor=1 -X ${versionPackage}.gitMinor=37`,
    ],
    sources: { folder: "hyperkube", files: ["main.go", "go.mod", "go.sum"] },
    outputs: { hyperkube: "hyperkube" },
  },
  {
    name: "containerd",
    roughTotalMs: 130_000,
    args: [
      "install",
      ...commonFlags,
      "-tags",
      "no_btrfs no_devmapper no_zfs no_tracing",
      "-ldflags",
      "-s -w",
      ...["containerd", "containerd-shim-runc-v2", "ctr"].map(
        (command) => `github.com/containerd/containerd/v2/cmd/${command}@${containerdVersion}`,
      ),
    ],
    sources: null,
    outputs: {
      containerd: "containerd",
      "containerd-shim-runc-v2": "containerd-shim-runc-v2",
      ctr: "ctr",
    },
    onMachine: ["containerd", "containerd-shim-runc-v2", "ctr"].map((name) => ({
      name,
      version: containerdVersion,
      ask: (path) => [path, "-v"],
    })),
  },
  {
    name: "wireguard-go",
    roughTotalMs: 10_000,
    args: [
      "install",
      ...commonFlags,
      "-ldflags",
      "-s -w",
      `golang.zx2c4.com/wireguard@${wireguardGoVersion}`,
    ],
    sources: null,
    outputs: { wireguard: "wireguard-go" },
    onMachine: [{ name: "wireguard-go", version: wireguardGoVersion, ask: moduleVersion }],
  },
  {
    name: "labpod",
    roughTotalMs: 10_000,
    args: ["build", ...commonFlags, "-ldflags", "-s -w"],
    sources: { folder: "labpod", files: ["main.go", "go.mod"] },
    outputs: { labpod: "labpod" },
  },
];

/** What hyperkube has in it, as the machine may have it in parts. */
const kubernetesParts: readonly MachineProgram[] = [
  ...["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet"].map(
    (name) => ({ name, version: kubernetesVersion }),
  ),
  {
    name: "kubectl",
    version: kubernetesVersion,
    ask: (path) => [path, "version", "--client"] as const,
  },
  { name: "etcd", version: etcdVersion },
  { name: "metrics-server", version: metricsServerVersion },
];

const dispatcher: Unit = {
  name: "dispatcher",
  roughTotalMs: 5_000,
  args: ["build", ...commonFlags, "-ldflags", "-s -w"],
  sources: { folder: "dispatcher", files: ["main.go", "go.mod"] },
  outputs: { dispatcher: "hyperkube" },
};

/**
 * Returns the programs, building what the cache lacks: one at a time, and nothing half-built is ever visible.
 * Cold this takes about ten minutes on two cores; with everything in the cache, well under a second.
 */
export async function openPrograms(options: ProgramsOptions = {}): Promise<Programs> {
  const root = join(options.cacheFolder ?? cacheFolder(), "programs");
  const searchPath = options.searchPath ?? process.env["PATH"] ?? "";
  const compiler = await compilerVersion();
  const folders: string[] = [];
  for (const [index, unit] of units.entries()) {
    let folder = join(root, await contentHash(unit, compiler));
    const isBuilt = await isComplete(folder, unit);
    const found = isBuilt ? null : await folderOnMachine(unit, root, compiler, searchPath);
    folder = found ?? folder;
    if (found === null && !isBuilt) {
      await build(unit, folder, (elapsedMs) => {
        const { name: step, roughTotalMs } = unit;
        options.onProgress?.({
          step,
          index: index + 1,
          count: units.length,
          elapsedMs,
          roughTotalMs,
        });
      });
    }
    folders.push(folder);
  }
  const [hyperkube = "", containerdFolder = "", wireguard = "", labpod = ""] = folders;
  return {
    hyperkube: join(hyperkube, "hyperkube"),
    containerd: join(containerdFolder, "containerd"),
    ctr: join(containerdFolder, "ctr"),
    wireguardGo: join(wireguard, "wireguard-go"),
    labpod: join(labpod, "labpod"),
    containerdFolder,
  };
}

/** A folder with a unit's programs from the machine; null: it has not all of them in the right version. */
async function folderOnMachine(
  unit: Unit,
  root: string,
  compiler: string,
  searchPath: string,
): Promise<string | null> {
  if (unit.onMachine !== undefined) return findFolder(unit.onMachine, searchPath);
  return unit.name === "hyperkube" ? hyperkubeOnMachine(root, compiler, searchPath) : null;
}

/** A folder that does what hyperkube does by the machine's own programs, made below `root`; null: not all are there. */
export async function hyperkubeOnMachine(
  root: string,
  compiler: string,
  searchPath: string,
): Promise<string | null> {
  const parts = await findEach(kubernetesParts, searchPath);
  return parts === null ? null : gather(parts, root, compiler);
}

/** Puts the machine's Kubernetes programs into one folder (pods mount it), behind hyperkube's name. */
async function gather(
  parts: ReadonlyMap<string, string>,
  root: string,
  compiler: string,
): Promise<string> {
  const hash = createHash("sha256").update(await contentHash(dispatcher, compiler));
  for (const [name, path] of parts) {
    const { size, mtimeMs } = await stat(await realpath(path));
    hash.update(`\0${name}\0${path}\0${size}\0${mtimeMs}`);
  }
  const folder = join(root, `machine-${hash.digest("hex").slice(0, 16)}`);
  const names = [...parts.keys()];
  const whole = {
    ...dispatcher,
    outputs: { ...dispatcher.outputs, ...Object.fromEntries(names.map((name) => [name, name])) },
  };
  if (await isComplete(folder, whole)) return folder;
  await fill(folder, whole, async (unfinished) => {
    await make(dispatcher, unfinished);
    for (const [name, path] of parts) await copyFile(path, join(unfinished, name));
  });
  return folder;
}

async function compilerVersion(): Promise<string> {
  const found = await runCommand(["go", "env", "GOVERSION", "GOARCH"], {
    cwd: join(import.meta.dirname, "hyperkube"),
    env: goEnvironment({}),
    check: false,
  }).catch((cause: unknown) => {
    throw new Error("the lab's programs need Go 1.26 or newer: install golang", { cause });
  });
  if (found.code !== 0)
    throw new Error(`go env failed: ${found.stderr.trim()}; repair the Go install`);
  return found.stdout;
}

async function contentHash(unit: Unit, compiler: string): Promise<string> {
  const hash = createHash("sha256");
  hash.update(JSON.stringify([compiler, unit.name, unit.args, buildEnvironment, unit.outputs]));
  for (const file of unit.sources?.files ?? []) {
    hash.update(`\0${file}\0`);
    hash.update(await readFile(join(import.meta.dirname, unit.sources?.folder ?? "", file)));
  }
  return `${unit.name}-${hash.digest("hex").slice(0, 16)}`;
}

async function isComplete(folder: string, unit: Unit): Promise<boolean> {
  const found = Object.values(unit.outputs).map((name) => access(join(folder, name)));
  return (await Promise.allSettled(found)).every(({ status }) => status === "fulfilled");
}

async function build(unit: Unit, folder: string, onElapsed: (ms: number) => void): Promise<void> {
  const startMs = performance.now();
  onElapsed(0);
  const ticking = setInterval(() => onElapsed(performance.now() - startMs), 1000);
  try {
    await fill(folder, unit, (unfinished) => make(unit, unfinished));
  } finally {
    clearInterval(ticking);
  }
}

/** Fills a folder under another name first, so that nobody ever sees a part of it. */
async function fill(
  folder: string,
  unit: Unit,
  write: (unfinished: string) => Promise<void>,
): Promise<void> {
  const unfinished = `${folder}.unfinished-${process.pid}`;
  await mkdir(unfinished, { recursive: true });
  try {
    await write(unfinished);
    await publish(unfinished, folder, unit);
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
}

/** Compiles a unit into a folder, under our names. */
async function make(unit: Unit, folder: string): Promise<void> {
  await compile(unit, folder);
  for (const [made, ours] of Object.entries(unit.outputs)) {
    if (made !== ours) await rename(join(folder, made), join(folder, ours));
  }
}

async function compile(unit: Unit, output: string): Promise<void> {
  const isOurs = unit.sources !== null;
  const argv = ["go", ...unit.args, ...(isOurs ? ["-o", join(output, unit.name), "."] : [])];
  const done = await runCommand(argv, {
    cwd: join(import.meta.dirname, unit.sources?.folder ?? ""),
    env: goEnvironment({ ...buildEnvironment, ...(isOurs ? {} : { GOBIN: output }) }),
    timeoutMs: buildTimeoutMs,
    check: false,
  });
  if (done.code !== 0) {
    throw new Error(
      `building ${unit.name} failed: ${done.stderr.trim().split("\n").slice(-20).join("\n")}`,
    );
  }
}

/** Go is configured by its user's environment (proxies, caches), which `runCommand` does not pass on by itself. */
function goEnvironment(extra: Readonly<Record<string, string>>): Record<string, string> {
  const inherited = Object.entries(process.env).flatMap(([name, value]) =>
    value === undefined || name === "NODE_OPTIONS" ? [] : [[name, value] as const],
  );
  return { ...Object.fromEntries(inherited), ...extra };
}

/** Another process may have finished the same build first; its result is as good as ours. */
async function publish(unfinished: string, folder: string, unit: Unit): Promise<void> {
  try {
    await rename(unfinished, folder);
  } catch (error) {
    if (!(await isComplete(folder, unit))) throw error;
  }
}
