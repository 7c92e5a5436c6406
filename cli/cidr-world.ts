/** Where `xylem cidr` reads, prints and ends; a test has its own. */

import { Option, type Command } from "commander";
import { realClock } from "#src/host/clock.ts";
import { kubeconfigFile } from "#src/host/kube/kubeconfig.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import { realRandom } from "#src/host/random.ts";
import { version } from "#src/host/version.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import type { Kube } from "#src/ports/kube.ts";

export interface CidrWorld {
  readonly out: (text: string) => void;
  readonly error: (text: string) => void;
  readonly exit: (code: number) => void;
  readonly stdin: () => AsyncIterable<Uint8Array>;
  /** Characters in a line of the terminal. */
  readonly columns: () => number;
  readonly connect: (kubeconfig: string) => Kube;
}

export const EXIT_FINE = 0;
/** A check failed, a claim got nothing, ranges collide. */
export const EXIT_FOUND = 1;
/** Bad usage, or something that can't be read. */
export const EXIT_BAD_INPUT = 2;

/** What `-o text` may fill where no terminal says its width. */
const COLUMNS_STANDARD = 80;

export const realCidrWorld: CidrWorld = {
  out: (text) => void process.stdout.write(`${text}\n`),
  error: (text) => void process.stderr.write(`${text}\n`),
  exit: (code) => {
    process.exitCode = code;
  },
  stdin: () => process.stdin,
  columns: () => process.stdout.columns ?? (Number(process.env["COLUMNS"]) || COLUMNS_STANDARD),
  connect: (kubeconfig) => {
    const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
    return connectKube({
      credentials: kubeconfigFile(kubeconfig),
      clock: realClock,
      random: realRandom,
      log: silent,
      userAgent: `xylem/${version}`,
    });
  },
};

export interface OutputFlag {
  readonly output: "text" | "json";
}

export interface SourceFlags extends OutputFlag {
  readonly filename: readonly string[];
  readonly kubeconfig?: string;
}

export const addOutput = (command: Command): Command =>
  command.addOption(
    new Option("-o, --output <format>", "how to print").choices(["text", "json"]).default("text"),
  );

/** Adds -f, --kubeconfig and -o. */
export const addSources = (command: Command): Command =>
  addOutput(
    command
      .option(
        "-f, --filename <path>",
        "file or folder of YAML or JSON, - is standard input (repeat for more)",
        (path: string, before: readonly string[]) => [...before, path],
        [],
      )
      .option("--kubeconfig <file>", "look at the cluster of this kubeconfig"),
  );

/** Says a problem and ends with the code for bad input. */
export const refuse = (world: CidrWorld, sentence: string): void => {
  world.error(`xylem: ${sentence}`);
  world.exit(EXIT_BAD_INPUT);
};

/** A problem as one sentence with its fix. */
export const problemSentence = (read: Parsed<unknown> & { readonly ok: false }): string =>
  read.suggestion === undefined
    ? read.problem
    : `${read.problem}; write ${quoted(read.suggestion)}`;

/** JSON for other programs: two spaces, numbers beyond 2^53 as text. */
export const jsonText = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? String(part) : part), 2);
