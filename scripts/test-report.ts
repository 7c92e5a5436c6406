/** Reads what test programs print (TAP of tap, result lines of cargo test) and counts tests by title. */

import { Parser, type Result } from "tap-parser";

/** One test that did not pass. */
export interface TestFailure {
  readonly title: string;
  /** What the test program said of it, ready to print. */
  readonly detail: string;
}

export interface TestCounts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly failures: readonly TestFailure[];
  readonly skips: readonly { readonly title: string; readonly reason: string }[];
}

interface Tally {
  passed: number;
  failed: number;
  skipped: number;
  failures: TestFailure[];
  skips: { title: string; reason: string }[];
}

const describe = (result: Result): string => {
  const { diff, ...rest } = (result.diag ?? {}) as { diff?: string } & Record<string, unknown>;
  const shown = Object.entries(rest)
    .filter(([key]) => !["source", "stack", "tapCaught", "type"].includes(key))
    .map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
  return [result.name, ...(diff === undefined ? [] : [diff.trimEnd()]), ...shown].join("\n");
};

/** A title counts as a test when no test stands inside it; its assertions are its detail. */
const follow = (parser: Parser, path: readonly string[], tally: Tally): void => {
  let children = 0;
  const failing: string[] = [];
  parser.on("child", (child: Parser) => {
    children += 1;
    follow(child, [...path, child.name], tally);
  });
  parser.on("assert", (result: Result) => {
    if (result.skip !== false && result.skip !== undefined) {
      tally.skipped += 1;
      const reason = typeof result.skip === "string" ? result.skip : "no reason given";
      tally.skips.push({ title: [...path, result.name].join(" > "), reason });
    } else if (!result.ok && (result.todo === false || result.todo === undefined)) {
      failing.push(describe(result));
    }
  });
  parser.on("complete", (results: { ok: boolean }) => {
    if (children > 0 && (path.length > 0 || failing.length === 0)) return;
    if (path.length === 0 && results.ok) return;
    if (path.length === 0 && children > 0 && tally.failed > 0) return;
    if (results.ok) tally.passed += 1;
    else {
      tally.failed += 1;
      tally.failures.push({ title: path.join(" > ") || "(file)", detail: failing.join("\n") });
    }
  });
};

/** Counts the tests of one TAP stream. A stream that ends early is a failure of the file. */
export const countTap = async (text: string): Promise<TestCounts> => {
  const tally: Tally = { passed: 0, failed: 0, skipped: 0, failures: [], skips: [] };
  const parser = new Parser();
  follow(parser, [], tally);
  await new Promise<void>((resolve) => {
    parser.on("complete", () => resolve());
    parser.end(text);
  });
  return tally;
};

/** Counts `test result:` lines of cargo test; the detail of a failure is its `---- name stdout ----` block. */
export const countCargo = (text: string): TestCounts => {
  const tally: Tally = { passed: 0, failed: 0, skipped: 0, failures: [], skips: [] };
  for (const match of text.matchAll(
    /^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored/gm,
  )) {
    tally.passed += Number(match[1]);
    tally.failed += Number(match[2]);
    tally.skipped += Number(match[3]);
  }
  for (const match of text.matchAll(
    /^---- (.+) stdout ----\n([\s\S]*?)(?=\n---- |\nfailures:)/gm,
  )) {
    tally.failures.push({ title: match[1] ?? "", detail: match[2] ?? "" });
  }
  return tally;
};
