/** A whole machine in a lab: its own mounts, host name, processes and cgroups around a network namespace. */

import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";

import { makeCgroups } from "./cgroup.ts";
import type { Lab } from "./lab.ts";
import { enterNamespace, type Namespace, type SpawnInsideOptions, withArgv0 } from "./namespace.ts";
import {
  type RunOptions,
  type RunResult,
  runCommand,
  type Running,
  spawnCommand,
} from "./process.ts";
import { waitFor } from "./wait.ts";
import { namespaceName } from "./wiring.ts";

const startTimeoutMs = 10_000;

export interface Machine {
  readonly name: string;
  readonly namespace: Namespace;
  /** The machine's first process, as the host numbers it. */
  readonly initPid: number;
  /** The folders behind the machine's /var/lib and /var/log, as the host sees them; in RAM. */
  readonly varLib: string;
  readonly varLog: string;
  /** Runs a program on the machine to its end. */
  run(argv: readonly string[], options?: RunOptions): Promise<RunResult>;
  /** Starts a program on the machine. */
  spawn(argv: readonly string[], options: SpawnInsideOptions): Running;
  isRunning(): boolean;
  /** Pulls the plug: everything on the machine ends at once, containers included; its network stays. */
  kill(): Promise<void>;
}

/** Joins the cgroups whose procs files come before "--", then becomes the program after it. */
const joinCgroups = `while [ "$1" != -- ]; do echo $$ > "$1"; shift; done; shift; exec "$@"`;

/**
 * The first process of a machine: mounts what is the machine's own, says "ready" with its number on the host, and then
 * reaps whatever loses its parent. $1: name, $2: cgroup version, $3: the machine's folder.
 */
const initScript = `set -e
read -r host_pid _ < /proc/self/stat
hostname "$1"
mount --make-rshared /
mount -t proc proc /proc
mount -t sysfs sysfs /sys
if [ "$2" = 2 ]; then
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mkdir -p /sys/fs/cgroup/init
  echo $$ > /sys/fs/cgroup/init/cgroup.procs
else
  mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
  while IFS=: read -r id controllers path; do
    [ -n "$controllers" ] || continue
    options=$controllers
    case $controllers in name=*) options=none,$controllers;; esac
    mkdir -p "/sys/fs/cgroup/\${controllers#name=}"
    mount -t cgroup -o "$options" cgroup "/sys/fs/cgroup/\${controllers#name=}"
  done < /proc/self/cgroup
fi
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock
mount --bind "$3/var-lib" /var/lib
mount --bind "$3/var-log" /var/log
echo "$host_pid" > "$3/init-pid.new"
mv "$3/init-pid.new" "$3/init-pid"
trap 'exit 0' TERM
while :; do sleep 3600 & wait $!; done
`;

/** Boots a machine of the topology; the lab ends it at `close`. A machine that was killed can be started again. */
export const startMachine = async (lab: Lab, name: string): Promise<Machine> => {
  const namespace = lab.namespace(name);
  const folder = `${lab.ram}/${name}`;
  const varLib = `${folder}/var-lib`;
  const varLog = `${folder}/var-log`;
  for (const each of [varLib, varLog]) mkdirSync(each, { recursive: true });
  const cgroups = makeCgroups(namespaceName(lab.name, name), (resource) => lab.record(resource));
  const join = ["bash", "-c", joinCgroups, "join", ...cgroups.procsFiles, "--"];
  const init = startInit({ lab, namespace, folder, join, cgroupVersion: cgroups.version });
  const initPid = await bootedPid(init, folder);
  const all = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"];
  const enter = [...join, "nsenter", "--target", `${initPid}`, ...all, "--"];
  return {
    name,
    namespace,
    initPid,
    varLib,
    varLog,
    isRunning: () => init.isRunning(),
    run: (argv, options = {}) => {
      const { cwd, ...rest } = options;
      return runCommand([...enter, ...inFolder(cwd), ...argv], rest);
    },
    spawn: (argv, { log, argv0, env, cwd }) => {
      const program = spawnCommand([...enter, ...inFolder(cwd), ...withArgv0(argv0, argv)], {
        log: log.startsWith("/") ? log : `${lab.dir}/log/${log}`,
        signals: "children",
        ...(env === undefined ? {} : { env }),
      });
      lab.own(program);
      return program;
    },
    kill: async () => {
      init.kill("SIGKILL");
      await init.exited;
    },
  };
};

interface InitOptions {
  readonly lab: Lab;
  readonly namespace: Namespace;
  /** The machine's folder in RAM. */
  readonly folder: string;
  /** The command line that puts what follows into the machine's cgroups. */
  readonly join: readonly string[];
  readonly cgroupVersion: 1 | 2;
}

const startInit = ({ lab, namespace, folder, join, cgroupVersion }: InitOptions): Running => {
  rmSync(`${folder}/init-pid`, { force: true });
  const apart = ["--mount", "--uts", "--ipc", "--pid", "--cgroup", "--fork", "--kill-child=KILL"];
  const script = ["bash", "-c", initScript, "init", namespace.machine, `${cgroupVersion}`, folder];
  const init = spawnCommand(
    [...join, ...enterNamespace(namespace.name), "unshare", ...apart, "--", ...script],
    { log: `${lab.dir}/log/${namespace.machine}-init.log`, signals: "children" },
  );
  lab.own(init, "machine");
  return init;
};

const bootedPid = (init: Running, folder: string): Promise<number> =>
  waitFor(
    `the machine boots (its log: ${init.log})`,
    () => {
      if (existsSync(`${folder}/init-pid`))
        return Number(readFileSync(`${folder}/init-pid`, "utf8"));
      const said = readFileSync(init.log, "utf8").slice(-1_000);
      throw new Error(
        init.isRunning() ? `no ready mark, ${said}` : `its first process ended, ${said}`,
      );
    },
    { timeoutMs: startTimeoutMs, intervalMs: 10 },
  );

/** nsenter leaves a program in the machine's root folder, so the machine itself changes to `cwd`. */
const inFolder = (cwd: string | undefined): string[] =>
  cwd === undefined ? [] : ["env", `--chdir=${cwd}`];
