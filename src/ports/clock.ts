/** Time as a dependency, so that the same code runs under a virtual clock. */

export type Cancel = () => void;

export interface Clock {
  /** Monotonic milliseconds; only differences have a meaning. */
  nowMs(): number;
  /** Milliseconds since 1970, for timestamps that people and objects see. */
  wallMs(): number;
  /** Runs `action` once after `delayMs`; the returned function cancels it. Does not keep the process alive alone. */
  after(delayMs: number, action: () => void): Cancel;
}
