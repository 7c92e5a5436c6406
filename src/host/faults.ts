/** Failures that a fake host answers with instead of doing what it was asked. */

import type { HostError } from "#src/ports/host-error.ts";

interface Fault {
  readonly call: string;
  readonly error: HostError;
  timesLeft: number;
}

/** Faults of one fake, by the call (or operation kind) that they hit. */
export class Faults {
  #faults: Fault[] = [];

  /** Makes the next `times` calls fail; without `times`, every call until `clear`. */
  add(call: string, error: HostError, times = Number.POSITIVE_INFINITY): void {
    this.#faults.push({ call, error, timesLeft: times });
  }

  clear(): void {
    this.#faults = [];
  }

  /** Throws when a fault waits for this call. */
  hit(call: string): void {
    const fault = this.#faults.find((f) => f.call === call && f.timesLeft > 0);
    if (fault === undefined) return;
    fault.timesLeft--;
    throw fault.error;
  }
}
