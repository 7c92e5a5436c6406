/** Asks a web server again and again with a new connection each, and tells how long it gave no answer. */

import { readFileSync } from "node:fs";
import { setTimeout as after } from "node:timers/promises";
import type { Namespace } from "#netsim/lab/namespace.ts";
import { waitFor } from "#netsim/lab/wait.ts";

/** One program for all questions: on a busy machine, to start one for each would take longer than the answer. */
const askerSource = `
const { get } = require("node:http");
const [url] = process.argv.slice(1);
const ask = () => get(url, { agent: false, timeout: 5000 }, (answer) => {
  answer.on("end", () => console.log(performance.now())).resume();
}).on("timeout", function () { this.destroy(); }).on("error", () => undefined);
setInterval(ask, 50);
`;

/** Silence is looked for until so long after the fault. */
const watchMs = 4_000;
const answersFirst = 10;

export interface Gap {
  /** By the clock of the program that asked. */
  readonly gapMs: number;
  readonly answers: number;
}

/** The longest time without an answer, from when some had come until seconds after `during`. */
export const longestGap = async (
  from: Namespace,
  url: string,
  during: () => Promise<void>,
): Promise<Gap> => {
  const asker = from.spawn([process.execPath, "-e", askerSource, url], { log: "asker.log" });
  const answeredMs = (): readonly number[] =>
    readFileSync(asker.log, "utf8").split("\n").filter(Boolean).map(Number);
  await waitFor(`${url} answers`, () => answeredMs().length >= answersFirst);
  await during();
  const before = answeredMs().length;
  await after(watchMs);
  await waitFor(`${url} answers again`, () => answeredMs().length > before);
  await asker.stop(1_000);
  const times = answeredMs();
  const gaps = times.slice(1).map((ms, index) => ms - (times[index] ?? ms));
  return { gapMs: Math.max(...gaps), answers: times.length };
};
