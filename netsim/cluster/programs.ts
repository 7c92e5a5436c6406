/** Builds the real programs that the lab runs, once, and keeps them outside the tree by content hash. */

import { createHash } from "node:crypto";
import { access, mkdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "#netsim/lab/process.ts";
import { cacheFolder } from "../../scripts/cache-folder.ts";

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
  /** Where the machine may have the same programs already: what the first must print for `--version`. */
  readonly isOnMachineIf?: string;
}

const kubernetesVersion = "v1.37.2";
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
    isOnMachineIf: containerdVersion,
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
  },
  {
    name: "labpod",
    roughTotalMs: 10_000,
    args: ["build", ...commonFlags, "-ldflags", "-s -w"],
    sources: { folder: "labpod", files: ["main.go", "go.mod"] },
    outputs: { labpod: "labpod" },
  },
];

/**
 * Returns the programs, building what the cache lacks: one at a time, and nothing half-built is ever visible.
 * Cold this takes about ten minutes on two cores; with everything in the cache, well under a second.
 */
export async function openPrograms(options: ProgramsOptions = {}): Promise<Programs> {
  const root = join(options.cacheFolder ?? cacheFolder(), "programs");
  const compiler = await compilerVersion();
  const folders: string[] = [];
  for (const [index, unit] of units.entries()) {
    const found = await folderOnMachine(unit);
    const folder = found ?? join(root, await contentHash(unit, compiler));
    if (found === null && !(await isComplete(folder, unit))) {
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

/** A folder of PATH that has all of a unit's programs in the right version; null: none has. */
async function folderOnMachine(unit: Unit): Promise<string | null> {
  const { isOnMachineIf: version } = unit;
  const [first] = Object.values(unit.outputs);
  if (version === undefined || first === undefined) return null;
  for (const folder of (process.env["PATH"] ?? "").split(":")) {
    if (!folder.startsWith("/") || !(await isComplete(folder, unit))) continue;
    const { code, stdout } = await runCommand([join(folder, first), "--version"], { check: false });
    const isSame = (word: string): boolean =>
      `v${word.replace(/^v/, "").split("+")[0]}` === version;
    if (code === 0 && stdout.split(/\s/).some(isSame)) return folder;
  }
  return null;
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
  const unfinished = `${folder}.unfinished-${process.pid}`;
  await mkdir(unfinished, { recursive: true });
  const startMs = performance.now();
  onElapsed(0);
  const ticking = setInterval(() => onElapsed(performance.now() - startMs), 1000);
  try {
    await compile(unit, unfinished);
    for (const [made, ours] of Object.entries(unit.outputs)) {
      if (made !== ours) await rename(join(unfinished, made), join(unfinished, ours));
    }
    await publish(unfinished, folder, unit);
  } finally {
    clearInterval(ticking);
    await rm(unfinished, { recursive: true, force: true });
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
