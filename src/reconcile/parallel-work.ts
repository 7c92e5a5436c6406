/** Runs the same work on many items with a bound on how much is on its way at once. */

/**
 * Runs `work` on every item, at most `max` at a time, in order of start. A failure does not keep the others from being
 * tried; the first one is thrown at the end.
 */
export const inParallel = async <T>(
  items: Iterable<T>,
  max: number,
  work: (item: T) => Promise<void>,
): Promise<void> => {
  if (Array.isArray(items) && items.length === 0) return;
  const queue = items[Symbol.iterator]();
  const failures: unknown[] = [];
  const worker = async (): Promise<void> => {
    for (let next = queue.next(); next.done !== true; next = queue.next()) {
      try {
        await work(next.value);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: max }, worker));
  if (failures.length > 0) throw failures[0];
};
