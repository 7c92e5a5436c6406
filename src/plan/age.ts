/** The order in which objects own things: older first, then by UID, so that everybody agrees. */

interface Aged {
  readonly createdMs: number;
  readonly uid: string;
}

export const byAge = (a: Aged, b: Aged): number => {
  if (a.createdMs !== b.createdMs) return a.createdMs - b.createdMs;
  if (a.uid === b.uid) return 0;
  return a.uid < b.uid ? -1 : 1;
};
