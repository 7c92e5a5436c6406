/** The real clock: monotonic time from `performance`, timers that do not keep the process alive. */

import type { Clock } from "#src/ports/clock.ts";

export const realClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  after(delayMs, action) {
    const timer = setTimeout(action, delayMs);
    timer.unref();
    return () => {
      clearTimeout(timer);
    };
  },
};
