/** Runs and spawns programs for the lab: the only file of the lab that starts processes. */

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { constants } from "node:os";
import { dirname } from "node:path";

/** Bytes kept of each output stream of a run; a program that says more is an error of the lab. */
const outputBytesMax = 16 * 1024 * 1024;
const runTimeoutMsDefault = 30_000;
const groupKillGraceMs = 2_000;

export interface RunOptions {
  /** Default 30 s; the whole process group is killed then, and the run fails whatever `check` says. */
  readonly timeoutMs?: number;
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Default true: an exit code other than 0 throws a CommandError. */
  readonly check?: boolean;
}

export interface RunResult {
  /** The exit code; 128 + the signal's number after a signal. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program that could not be started, failed, or ran out of time. */
export class CommandError extends Error {
  readonly argv: readonly string[];
  readonly result: RunResult | null;

  constructor(argv: readonly string[], reason: string, result: RunResult | null) {
    const said =
      result === null ? "" : `: ${(result.stderr.trim() || result.stdout.trim()).slice(-2_000)}`;
    super(`\`${argv.join(" ").slice(0, 400)}\` ${reason}${said}`);
    this.name = "CommandError";
    this.argv = argv;
    this.result = result;
  }
}

export interface SpawnOptions {
  /** Absolute path; stdout and stderr are appended, the folder is made. */
  readonly log: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /**
   * Who gets the signals of `kill`: the process itself, or its children, for a program that waits for one child and
   * passes no signals on (nsenter into a PID namespace).
   */
  readonly signals?: "self" | "children";
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A program in the background; it is killed when the process that started it dies. */
export interface Running {
  readonly pid: number;
  readonly log: string;
  /** Resolves when the program has ended; never rejects. */
  readonly exited: Promise<Exit>;
  isRunning(): boolean;
  /** Default SIGTERM. A program that has ended already is success. */
  kill(signal?: NodeJS.Signals): void;
  /** SIGTERM, then SIGKILL to its process group after `graceMs`; resolves when it has ended. */
  stop(graceMs: number): Promise<void>;
}

/** Makes the kernel kill the program when this process dies, `kill -9` included. */
const withParentDeath = (argv: readonly string[]): string[] => [
  "setpriv",
  "--pdeathsig",
  "KILL",
  "--",
  ...argv,
];

/** Not the caller's whole environment: a test runner's NODE_OPTIONS must not reach the programs of a lab. */
const environment = (
  extra: Readonly<Record<string, string>> | undefined,
): Record<string, string> => ({
  PATH: `${process.env["PATH"] ?? ""}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin`,
  HOME: process.env["HOME"] ?? "/root",
  LANG: "C.UTF-8",
  ...extra,
});

const launch = (argv: readonly string[], options: Parameters<typeof spawn>[2]): ChildProcess => {
  const [program, ...rest] = withParentDeath(argv);
  if (program === undefined || argv.length === 0) throw new CommandError(argv, "is empty", null);
  return spawn(program, rest, { ...options, detached: true });
};

const startFailure = (argv: readonly string[], cause: Error): CommandError =>
  new CommandError(
    argv,
    `could not be started (${cause.message}); is the program installed?`,
    null,
  );

/** Runs a program to its end and returns what it said. */
export const runCommand = (argv: readonly string[], options: RunOptions = {}): Promise<RunResult> =>
  new Promise((resolve, reject) => {
    const child = launch(argv, {
      // Not an empty pipe: Node's pipes are sockets, and a bash that reads from a socket runs the user's ~/.bashrc.
      stdio: [options.input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
      env: environment(options.env),
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    });
    let isTimedOut = false;
    const timeoutMs = options.timeoutMs ?? runTimeoutMsDefault;
    const timer = setTimeout(() => {
      isTimedOut = true;
      signalGroup(child.pid, "SIGKILL");
    }, timeoutMs);
    const stdout = collect(child.stdout);
    const stderr = collect(child.stderr);
    child.once("error", (cause) => {
      clearTimeout(timer);
      reject(startFailure(argv, cause));
    });
    child.once("close", (code, signal) => {
      clearTimeout(timer);
      const result = { code: exitNumber({ code, signal }), stdout: stdout(), stderr: stderr() };
      if (isTimedOut) reject(new CommandError(argv, `did not end within ${timeoutMs} ms`, result));
      else if (result.code !== 0 && options.check !== false) {
        reject(new CommandError(argv, `ended with ${result.code}`, result));
      } else resolve(result);
    });
    // A program that ends without reading its input closes the pipe: its exit code tells the story.
    child.stdin?.on("error", () => {});
    child.stdin?.end(options.input);
  });

/** Starts a program in the background with its output in a log file. */
export const spawnCommand = (argv: readonly string[], options: SpawnOptions): Running => {
  mkdirSync(dirname(options.log), { recursive: true });
  const log = openSync(options.log, "a");
  const child = launch(argv, {
    stdio: ["ignore", log, log],
    env: environment(options.env),
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  closeSync(log);
  const exited = new Promise<Exit>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
    child.once("error", () => resolve({ code: 127, signal: null }));
  });
  const pid = child.pid;
  if (pid === undefined)
    throw new CommandError(argv, "could not be started; is the program installed?", null);
  const isRunning = (): boolean => child.exitCode === null && child.signalCode === null;
  const kill = (signal: NodeJS.Signals = "SIGTERM"): void => {
    if (!isRunning()) return;
    if (options.signals === "children") for (const each of childrenOf(pid)) signalPid(each, signal);
    else signalPid(pid, signal);
  };
  const stop = async (graceMs: number): Promise<void> => {
    if (!isRunning()) return;
    kill("SIGTERM");
    const timer = setTimeout(() => signalGroup(pid, "SIGKILL"), graceMs);
    await exited;
    clearTimeout(timer);
  };
  return { pid, log: options.log, exited, isRunning, kill, stop };
};

/** Ends a process by its id with SIGKILL and waits until it is gone; absent is success. */
export const endProcess = async (pid: number): Promise<void> => {
  signalPid(pid, "SIGKILL");
  const untilMs = performance.now() + groupKillGraceMs;
  while (isAlive(pid) && performance.now() < untilMs)
    await new Promise((resolve) => setTimeout(resolve, 10));
};

/** Tells whether a process exists and is not a zombie. */
export const isAlive = (pid: number): boolean => {
  const state = processState(pid);
  return state !== null && state !== "Z" && state !== "X";
};

/** The start time of a process in clock ticks since boot; null: no such process. proc(5), field 22. */
export const startTicks = (pid: number): string | null => statFields(pid)?.[19] ?? null;

const processState = (pid: number): string | null => statFields(pid)?.[0] ?? null;

/** The fields of /proc/PID/stat from the third on: the second may hold spaces and brackets. */
const statFields = (pid: number): string[] | null => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    return null;
  }
};

const childrenOf = (pid: number): number[] => {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
      .trim()
      .split(" ")
      .filter(Boolean)
      .map(Number);
  } catch {
    return [];
  }
};

const signalPid = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
};

const signalGroup = (pid: number | undefined, signal: NodeJS.Signals): void => {
  if (pid !== undefined) signalPid(-pid, signal);
};

const exitNumber = ({ code, signal }: Exit): number =>
  code ?? (signal === null ? 1 : 128 + constants.signals[signal]);

const collect = (stream: NodeJS.ReadableStream | null): (() => string) => {
  const chunks: Buffer[] = [];
  let size = 0;
  stream?.on("data", (chunk: Buffer) => {
    size += chunk.length;
    if (size <= outputBytesMax) chunks.push(chunk);
  });
  return () => Buffer.concat(chunks).toString("utf8");
};
