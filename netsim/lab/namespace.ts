/** One network namespace of a lab and the programs that run in it (ip-netns(8), nsenter(1)). */

import {
  type RunOptions,
  type RunResult,
  runCommand,
  type Running,
  spawnCommand,
} from "./process.ts";

/** The folder in which iproute2 keeps named network namespaces. */
export const namespaceFolder = "/run/netns";

export interface SpawnInsideOptions {
  /** A file name in the lab's log folder, or an absolute path. */
  readonly log: string;
  /** What the program sees as argv[0]; programs that are several in one are chosen by it. */
  readonly argv0?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

export interface Namespace {
  /** The machine's name in the topology. */
  readonly machine: string;
  /** The name that `ip netns` shows. */
  readonly name: string;
  run(argv: readonly string[], options?: RunOptions): Promise<RunResult>;
  spawn(argv: readonly string[], options: SpawnInsideOptions): Running;
}

/** Not `ip netns exec`: that one remounts /sys and hides the cgroups. */
export const enterNamespace = (name: string): string[] => [
  "nsenter",
  `--net=${namespaceFolder}/${name}`,
  "--",
];

/** Wraps a command line so that the program sees `argv0`; the shell is replaced by the program. */
export const withArgv0 = (argv0: string | undefined, argv: readonly string[]): readonly string[] =>
  argv0 === undefined ? argv : ["bash", "-c", 'exec -a "$0" "$@"', argv0, ...argv];

export interface NamespaceOptions {
  readonly machine: string;
  readonly name: string;
  /** Where logs with relative names go. */
  readonly logFolder: string;
  /** Is told of every program in the background, so that the lab can end it. */
  readonly onSpawn: (running: Running) => void;
}

/** Returns the handle of a namespace that exists. */
export const openNamespace = (options: NamespaceOptions): Namespace => ({
  machine: options.machine,
  name: options.name,
  run: (argv, runOptions) => runCommand([...enterNamespace(options.name), ...argv], runOptions),
  spawn: (argv, spawnOptions) => {
    const { log, argv0, env, cwd } = spawnOptions;
    const running = spawnCommand([...enterNamespace(options.name), ...withArgv0(argv0, argv)], {
      log: log.startsWith("/") ? log : `${options.logFolder}/${log}`,
      ...(env === undefined ? {} : { env }),
      ...(cwd === undefined ? {} : { cwd }),
    });
    options.onSpawn(running);
    return running;
  },
});
