/** How Node.js runs a gateway or an agent: flags that keep a process small which is idle nearly always. */

/**
 * For the command line, before the script: V8 reads the first one only at its start. Measured with Node.js 26 on a
 * gateway with three peers, in MB: 29 private and 85 resident without any of them, 23 and 70 with all.
 */
export const nodeFlags: readonly string[] = [
  // MB. The young generation grows with each burst of work to 16 MB and more, and keeps what it has.
  "--max-semi-space-size=1",
  // The optimizing compilers: 9 MB of their code become resident, and nothing here stays hot for long enough.
  "--no-opt",
  "--no-maglev",
  "--optimize-for-size",
];
