/** `xylem cidr check`: are these canonical CIDRs, and if not, why not and what would be. */

import type { Command } from "commander";
import { parseCidr } from "#src/model/cidr.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import {
  addOutput,
  EXIT_FINE,
  EXIT_FOUND,
  jsonText,
  problemSentence,
  refuse,
  type CidrWorld,
  type OutputFlag,
} from "./cidr-world.ts";

const INPUT_BYTES_MAX = 1_000_000;
const ENTRIES_MAX = 100_000;
/** More sentences than anybody reads; JSON has all. */
const SENTENCES_MAX = 1000;
/** Input with so many mistakes is no list of CIDRs: the rest of it is not looked at, so that it is refused quickly. */
const MISTAKES_MAX = 10_000;

interface CheckResult {
  readonly input: string;
  readonly ok: boolean;
  readonly problem?: string;
  readonly suggestion?: string;
}

/** Adds `check` to `xylem cidr`. */
export const addCheck = (cidr: Command, world: CidrWorld): void => {
  addOutput(cidr.command("check"))
    .description(
      "say of each CIDR whether it is valid and canonical, and if not, why and what would be",
    )
    .argument(
      "<cidr...>",
      "blocks such as 10.250.0.0/20 or fd00:10::/64; - reads them from standard input",
    )
    .addHelpText(
      "after",
      `
Standard input has one CIDR a line; empty lines and lines that begin with # are passed over; at most
${INPUT_BYTES_MAX / 1_000_000} MB and ${ENTRIES_MAX} entries are read.

Examples:
  xylem cidr check 10.250.0.0/20 fd00:10::/64
  xylem cidr check 10.0.0.5/24              # ends with 1 and says: write "10.0.0.0/24"
  kubectl get nodes -o jsonpath='{range .items[*]}{.spec.podCIDR}{"\\n"}{end}' | xylem cidr check -

Exit code: 0 all are valid and canonical, 1 one is not, 2 bad usage or too much input.`,
    )
    .action(async (texts: readonly string[], flags: OutputFlag) => {
      const entries = await readEntries(texts, world);
      if (!entries.ok) return refuse(world, entries.problem);
      const results = checkMany(entries.value);
      showResults(results, { flags, world, unread: entries.value.length - results.length });
    });
};

/** The arguments, with what standard input has in the place of `-`. */
const readEntries = async (
  texts: readonly string[],
  world: CidrWorld,
): Promise<Parsed<readonly string[]>> => {
  const entries: string[] = [];
  if (texts.filter((text) => text === "-").length > 1) {
    return problem("- is given twice: standard input can be read once");
  }
  for (const text of texts) {
    if (text !== "-") {
      entries.push(text);
      continue;
    }
    const lines = await readLines(world.stdin());
    if (!lines.ok) return lines;
    for (const line of lines.value) entries.push(line);
  }
  if (entries.length > ENTRIES_MAX) return tooMany();
  return entries.length === 0
    ? problem("standard input has no CIDR: give one a line")
    : parsed(entries);
};

const tooMany = () =>
  problem(`there are more than ${ENTRIES_MAX} CIDRs: check them in several calls`);

/** Stops at the first byte too many, so that endless input ends too. */
const readLines = async (input: AsyncIterable<Uint8Array>): Promise<Parsed<readonly string[]>> => {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of input) {
    bytes += chunk.length;
    if (bytes > INPUT_BYTES_MAX) {
      return problem(
        `standard input has more than ${INPUT_BYTES_MAX} bytes: check it in several calls`,
      );
    }
    chunks.push(chunk);
  }
  const lines = Buffer.concat(chunks).toString("utf8").split(/\r?\n/);
  const entries = lines.filter((line) => line.trim() !== "" && !line.startsWith("#"));
  return entries.length > ENTRIES_MAX ? tooMany() : parsed(entries);
};

const checkOne = (input: string): CheckResult => {
  const read = parseCidr(input);
  if (read.ok) return { input, ok: true };
  return {
    input,
    ok: false,
    problem: problemSentence(read),
    ...(read.suggestion === undefined ? {} : { suggestion: read.suggestion }),
  };
};

/** In order, up to the last mistake that is told. */
const checkMany = (entries: readonly string[]): readonly CheckResult[] => {
  const results: CheckResult[] = [];
  let mistakes = 0;
  for (const entry of entries) {
    const result = checkOne(entry);
    results.push(result);
    if (!result.ok) mistakes += 1;
    if (mistakes === MISTAKES_MAX) break;
  }
  return results;
};

const showResults = (
  results: readonly CheckResult[],
  {
    flags,
    world,
    unread,
  }: {
    readonly flags: OutputFlag;
    readonly world: CidrWorld;
    /** How many entries were not looked at. */
    readonly unread: number;
  },
): void => {
  const bad = results.filter(({ ok }) => !ok);
  world.exit(bad.length === 0 ? EXIT_FINE : EXIT_FOUND);
  if (flags.output === "json") {
    world.out(jsonText({ ok: bad.length === 0, results, ...(unread > 0 ? { unread } : {}) }));
    return;
  }
  const sentences = bad.slice(0, SENTENCES_MAX).map(({ problem: why }) => why ?? "");
  const more = bad.length - sentences.length;
  const end =
    bad.length === 0
      ? `${results.length === 1 ? "it is" : `all ${results.length} are`} valid and canonical`
      : `${bad.length} of ${results.length} ${bad.length === 1 ? "is" : "are"} not valid and canonical`;
  const rest =
    unread > 0 ? [`after ${MISTAKES_MAX} mistakes the other ${unread} were not looked at`] : [];
  world.out(
    [...sentences, ...(more > 0 ? [`and ${more} more: -o json has all`] : []), end, ...rest].join(
      "\n",
    ),
  );
};
