/** One program of the product started into trouble: wrapped, with its own arguments, asked what it says of itself. */

import { join } from "node:path";
import type { Machine } from "#netsim/lab/machine.ts";
import type { Namespace } from "#netsim/lab/namespace.ts";
import type { Exit } from "#netsim/lab/process.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import type { Cluster } from "./cluster.ts";

export interface TroubledSpec {
  /** Names its log. */
  readonly name: string;
  readonly place: Namespace | Machine;
  readonly script: "gateway" | "agent" | "controller";
  readonly args: readonly string[];
  readonly statusPort: number;
  /** Goes before node's command line, e.g. unshare or setpriv with their flags. */
  readonly wrapper?: readonly string[];
}

export interface TroubledProgram {
  readonly name: string;
  readonly log: string;
  readonly exited: Promise<Exit>;
  readonly isRunning: () => boolean;
  /** What `/readyz` answers; "ok" when it is ready. */
  readonly readiness: () => Promise<string>;
  /** Resolves with what `/readyz` says once it matches; the error quotes its last answer. */
  readonly says: (pattern: RegExp, timeoutMs?: number) => Promise<string>;
  readonly stop: () => Promise<void>;
}

const root = join(import.meta.dirname, "../..");
const stopGraceMs = 10_000;

/** Starts it; the lab ends it at its close. */
export function startTroubled({ lab, programs }: Cluster, spec: TroubledSpec): TroubledProgram {
  const { name, place, statusPort } = spec;
  const log = join(lab.dir, "log", `${name}.log`);
  const argv = [
    ...(spec.wrapper ?? []),
    ...[process.execPath, "--enable-source-maps", join(root, `dist/${spec.script}.js`)],
    ...spec.args,
    ...["--status-port", `${statusPort}`],
  ];
  const running = place.spawn(argv, { log, cwd: root });
  const url = `http://127.0.0.1:${statusPort}/readyz`;
  const readiness = async (): Promise<string> => {
    const { stdout, stderr } = await place.run([programs.labpod, "get", "-timeout", "1s", url], {
      check: false,
    });
    // labpod itself says on stderr that the answer was a 503.
    return (stdout === "" ? stderr : stdout).trim();
  };
  return {
    name,
    log,
    exited: running.exited,
    isRunning: () => running.isRunning(),
    readiness,
    says: (pattern, timeoutMs = 30_000) =>
      waitFor(
        `${name} says ${pattern.source}`,
        async () => {
          if (!running.isRunning()) throw new Error(`it has ended; see ${log}`);
          const said = await readiness();
          if (!pattern.test(said)) throw new Error(said);
          return said;
        },
        { timeoutMs, intervalMs: 300 },
      ),
    stop: () => running.stop(stopGraceMs),
  };
}
