/** The frame of a long-running program: starts it, stops it cleanly on a signal, and never leaves quietly. */

import type { Log } from "#src/ports/log.ts";

export interface RunningProgram {
  stop(): Promise<void>;
}

/** A stop that takes longer is given up, before a kubelet's SIGKILL after 30 s. */
const STOP_TIMEOUT_MS = 15_000;

/** Keeps the process alive: everything else in it is unreferenced, so that nothing keeps it by accident. */
const KEEP_ALIVE_MS = 0x7fff_ffff;

/** Runs until SIGTERM or SIGINT; the process exits with 0 after a clean stop, with 1 else. */
export const runProgram = async (log: Log, start: () => Promise<RunningProgram>): Promise<void> => {
  const keepAlive = setInterval(() => undefined, KEEP_ALIVE_MS);
  const signalled = new Promise<string>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => resolve(signal));
  });
  try {
    const program = await start();
    const signal = await signalled;
    log.info({ signal }, "stopping");
    const timer = setTimeout(() => {
      log.error(
        { timeoutMs: STOP_TIMEOUT_MS },
        "the stop takes too long: leaving, the next start cleans up",
      );
      process.exit(1);
    }, STOP_TIMEOUT_MS);
    await program.stop();
    clearTimeout(timer);
    log.info({}, "stopped");
  } catch (error) {
    log.error({ error }, error instanceof Error ? error.message : String(error));
    process.exitCode = 1;
  } finally {
    clearInterval(keepAlive);
  }
  // Standard streams and sockets of others must not hold the process once everything is stopped.
  process.exit();
};
