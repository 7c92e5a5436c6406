/** Medians and ranges of repeated measurements. */

/** What a set of samples says: never only its best. */
export interface Summary {
  readonly count: number;
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/** The middle sample, or the mean of the middle two; NaN for no samples. */
export const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
};

/** Summarizes samples; all NaN for none. */
export const summarize = (values: readonly number[]): Summary => ({
  count: values.length,
  median: median(values),
  low: values.length === 0 ? Number.NaN : Math.min(...values),
  high: values.length === 0 ? Number.NaN : Math.max(...values),
});

/** Divides round by round: what disturbed one round disturbed both systems in it. */
export const ratios = (
  ours: readonly number[],
  { theirs }: { readonly theirs: readonly number[] },
): number[] =>
  ours.slice(0, theirs.length).map((value, round) => value / (theirs[round] ?? Number.NaN));

/** Every system is once first and once last: round `round` begins with another one. */
export const rotate = <T>(items: readonly T[], round: number): T[] => {
  const start = items.length === 0 ? 0 : round % items.length;
  return [...items.slice(start), ...items.slice(0, start)];
};
