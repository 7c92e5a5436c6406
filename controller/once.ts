/** The `--once` mode: one pass over every Tunnel, bounded in time, then an exit code. */

import type { CredentialsSource } from "#src/host/kube/credentials.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Log } from "#src/ports/log.ts";
import type { Controller } from "./controller.ts";

/** A seed or shoot that does not answer within this time is a failure. */
const ONCE_MS_MAX = 30_000;

/** Sets the exit code: 0 when every Tunnel is as it should be, 1 else; names what is not. */
export const runOnce = async (
  log: Log,
  credentials: CredentialsSource,
  opened: { readonly controller: Controller; readonly close: () => Promise<void> },
): Promise<void> => {
  const { controller, close } = opened;
  try {
    await credentials.read({ fresh: true });
  } catch (error) {
    if (!isHostError(error)) throw error;
    log.error({ code: error.code }, error.message);
    process.exitCode = 1;
    return await close();
  }
  const late = Promise.withResolvers<null>();
  const timer = setTimeout(() => {
    late.resolve(null);
  }, ONCE_MS_MAX);
  const results = await Promise.race([controller.once(), late.promise]);
  clearTimeout(timer);
  if (results === null) {
    log.error(
      { status: controller.status() },
      controller.problem() ?? "a Tunnel's pass takes too long",
    );
  }
  for (const [tunnel, result] of results ?? []) {
    const problem = "problem" in result ? result.problem : null;
    if (problem === null) log.info({ tunnel }, "as it should be");
    else log.error({ tunnel }, problem);
  }
  const isReached = results !== null && [...results.values()].every((r) => r.kind === "reached");
  process.exitCode = isReached ? 0 : 1;
  await close();
};
