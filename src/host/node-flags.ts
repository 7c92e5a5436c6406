/** How Node.js runs a gateway or an agent: flags that keep a process small which is idle nearly always. */

/**
 * For the command line, before the script: V8 reads the first one only at its start. docs/benchmarks.md says what they
 * save; without any of them a gateway with three peers had 85 MB resident.
 */
export const nodeFlags: readonly string[] = [
  // MB. The young generation grows with each burst of work to 16 MB and more, and keeps what it has.
  "--max-semi-space-size=1",
  // The compilers: 10 MB of their code become resident, and nothing here stays hot for long enough.
  "--no-opt",
  "--no-maglev",
  "--no-sparkplug",
  "--optimize-for-size",
  // Lets a program collect what a burst of work left behind, see memory-relief.ts.
  "--expose-gc",
  // Helpers cost more time than they save in a heap of 12 MB: a tenth of all CPU time with 1,000 peers.
  "--single-threaded-gc",
];
