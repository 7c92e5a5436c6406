/** Waits for a condition of the lab and says, when it does not come, what the last look showed. */

import { setTimeout as after } from "node:timers/promises";

export interface WaitOptions {
  /** Default 30 s: a busy machine is slow, and only what fails waits so long. */
  readonly timeoutMs?: number;
  /** Default 50 ms. */
  readonly intervalMs?: number;
}

type NotYet = false | null | undefined;

/**
 * Looks until the condition answers with something other than false, null or undefined, and returns that.
 * A condition that throws is not met yet; the error's message is what the look showed.
 */
export const waitFor = async <T>(
  description: string,
  condition: () => T | NotYet | Promise<T | NotYet>,
  options: WaitOptions = {},
): Promise<T> => {
  const timeoutMs = options.timeoutMs ?? 30_000;
  const startMs = performance.now();
  for (let looks = 1; ; looks += 1) {
    let saw: string;
    try {
      const answer = await condition();
      if (answer !== false && answer !== null && answer !== undefined) return answer;
      saw = String(answer);
    } catch (error) {
      saw = error instanceof Error ? error.message : String(error);
    }
    if (performance.now() - startMs >= timeoutMs) {
      throw new Error(
        `Expected within ${timeoutMs} ms: ${description}. The last of ${looks} looks showed: ${saw}`,
      );
    }
    await after(options.intervalMs ?? 50);
  }
};
