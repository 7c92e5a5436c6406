/** Chance as a dependency, so that jitter and keys are repeatable in tests. */

export interface Random {
  /** A number in [0, 1). */
  unit(): number;
  /** Unpredictable bytes, for keys. */
  bytes(count: number): Uint8Array;
}
