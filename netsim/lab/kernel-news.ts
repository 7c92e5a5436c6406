/** Listens to what the kernel tells of changes to links, addresses, routes, rules and packet filters of machines. */

import { readFileSync } from "node:fs";
import { setTimeout as after } from "node:timers/promises";
import type { Namespace } from "./namespace.ts";
import type { Running } from "./process.ts";
import { waitFor } from "./wait.ts";

export interface KernelNews {
  /** Ends the listening; the lines that were heard since the start and hold `word`, with machine and source. */
  stop(): Promise<readonly string[]>;
}

interface Source {
  readonly name: "netlink" | "nft";
  readonly listen: readonly string[];
  /** Makes a piece of news of that name, and takes back what it made. */
  readonly poke: (name: string) => readonly (readonly string[])[];
}

const sources: readonly Source[] = [
  {
    name: "netlink",
    listen: ["ip", "-o", "monitor", "link", "address", "route", "rule"],
    poke: (name) => [
      ["ip", "link", "add", name, "type", "bridge"],
      ["ip", "link", "del", name],
    ],
  },
  {
    name: "nft",
    listen: ["nft", "monitor"],
    poke: (name) => [
      ["nft", "add", "table", "inet", name],
      ["nft", "delete", "table", "inet", name],
    ],
  },
];

const first = "lab-first-news";
const last = "lab-last-news";

/** Resolves when every machine's listeners have heard a first piece of news, which the lab made itself. */
export const listenToKernel = async (
  machines: readonly Namespace[],
  word: string,
): Promise<KernelNews> => {
  const ears = machines.flatMap((machine) =>
    sources.map((source) => {
      // Both programs write by line only to a terminal.
      const running = machine.spawn(["stdbuf", "-oL", ...source.listen], {
        log: `${machine.machine}-${source.name}-news.log`,
      });
      return { machine, source, running };
    }),
  );
  await Promise.all(ears.map((ear) => hear(ear, first)));
  const stop: KernelNews["stop"] = async () => {
    // Who has heard the last news has heard all before.
    await Promise.all(ears.map((ear) => hear(ear, last)));
    await Promise.all(ears.map(({ running }) => running.stop(1_000)));
    return ears.flatMap(({ machine, source, running }) =>
      heardBetween(running, word).map((line) => `${machine.machine} ${source.name}: ${line}`),
    );
  };
  return { stop };
};

interface Ear {
  readonly machine: Namespace;
  readonly source: Source;
  readonly running: Running;
}

/** Pokes until it is heard. */
const hear = ({ machine, source, running }: Ear, name: string): Promise<boolean> =>
  waitFor(
    `${source.name} of ${machine.machine} tells of ${name}`,
    async () => {
      for (const argv of source.poke(name)) await machine.run(argv);
      await after(50);
      return linesOf(running).some((line) => line.includes(name));
    },
    { timeoutMs: 30_000 },
  );

const linesOf = ({ log }: Running): readonly string[] => readFileSync(log, "utf8").split("\n");

const heardBetween = (running: Running, word: string): readonly string[] => {
  const lines = linesOf(running);
  const from = lines.findIndex((line) => line.includes(first));
  const to = lines.findLastIndex((line) => line.includes(last));
  return lines.slice(from + 1, to).filter((line) => line.includes(word));
};
