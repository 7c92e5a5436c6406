/** Where `xylem policy` prints and how it ends; a test has its own. */

import { type Command, Option } from "commander";

/** Of `explain` and `diff`, for arguments and files that can't be used. */
export const EXIT_BAD_INPUT = 2;

export interface PolicyOutput {
  readonly out: (text: string) => void;
  readonly error: (text: string) => void;
  readonly exit: (code: number) => void;
}

export const terminal: PolicyOutput = {
  out: (text) => void process.stdout.write(`${text}\n`),
  error: (text) => void process.stderr.write(`${text}\n`),
  exit: (code) => {
    process.exitCode = code;
  },
};

export interface SourceFlags {
  readonly filename: readonly string[];
  readonly kubeconfig?: string;
  readonly output: "text" | "json";
}

/** Adds -f, --kubeconfig and -o. */
export const addSources = (command: Command, what: string): Command =>
  command
    .option(
      "-f, --filename <path>",
      what,
      (path: string, before: readonly string[]) => [...before, path],
      [],
    )
    .option("--kubeconfig <file>", "look at the cluster of this kubeconfig")
    .addOption(
      new Option("-o, --output <format>", "how to print").choices(["text", "json"]).default("text"),
    );

/** Lets a command and those added to it later end with 2 on bad arguments: 1 means "denied" or "differs" here. */
export const endingWithBadInput = (command: Command): Command =>
  command.exitOverride((end) => process.exit(end.exitCode === 0 ? 0 : EXIT_BAD_INPUT));

/** Says a problem and ends with the code for bad input. */
export const refuse = (output: PolicyOutput, sentence: string): void => {
  output.error(`xylem: ${sentence}`);
  output.exit(EXIT_BAD_INPUT);
};
