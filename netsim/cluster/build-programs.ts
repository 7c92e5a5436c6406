/** Builds what the lab runs, where it is not in the cache yet, and says how far it is: `node build-programs.ts`. */

import { type BuildProgress, openPrograms } from "./programs.ts";

const isTerminal = process.stderr.isTTY;
/** Without a terminal a line now and then is enough to see that it lives. */
const quietMs = 30_000;

const minutes = (ms: number): string =>
  ms < 90_000 ? `${Math.round(ms / 1000)} s` : `${(ms / 60_000).toFixed(1)} min`;

let shownMs = Number.NEGATIVE_INFINITY;
let shownStep = "";
const show = ({ step, index, count, elapsedMs, roughTotalMs }: BuildProgress): void => {
  const isNew = step !== shownStep;
  if (!isTerminal && !isNew && elapsedMs - shownMs < quietMs) return;
  shownMs = elapsedMs;
  shownStep = step;
  const left = Math.max(0, roughTotalMs - elapsedMs);
  const rest = left > 0 ? `about ${minutes(left)} left` : "longer than it usually takes";
  const line = `xylem: building ${step} (${index} of ${count}), ${minutes(elapsedMs)} elapsed, ${rest}`;
  process.stderr.write(isTerminal ? `\r\u001b[K${line}` : `${line}\n`);
};

await openPrograms({ onProgress: show });
if (isTerminal && shownStep !== "") process.stderr.write("\n");
process.stderr.write("xylem: the lab's programs are built\n");
