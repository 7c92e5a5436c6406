/** How late this machine is at the moment, so that a bound on time tells a slow product from a busy machine. */

import { monitorEventLoopDelay } from "node:perf_hooks";

const resolutionMs = 10;
/** What passes from one end to the other is in turn the business of about this many programs, each as late as we are. */
const programs = 5;

export interface Lag {
  /** What a bound on the time of the tunnel may be exceeded by, for how late timers were since the start. */
  allowanceMs(): number;
}

/** Begins to watch; nothing has to be stopped. */
export const watchLag = (): Lag => {
  const delays = monitorEventLoopDelay({ resolution: resolutionMs });
  delays.enable();
  return {
    allowanceMs: () => programs * Math.max(0, Math.round(delays.max / 1e6) - resolutionMs),
  };
};
