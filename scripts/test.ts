/**
 * Runs the tests and ends with one line, `N passed, N failed, N skipped`.
 *   node scripts/test.ts [--layer unit|world|dataplane|lab] [PATTERN...]
 * unit: no privileges, in parallel. world: as unit, for minutes. dataplane: the Rust crate. lab: root, network
 * namespaces, one at a time.
 */

import { spawn } from "node:child_process";
import { globSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openPrograms } from "#netsim/cluster/programs.ts";
import { removeLeftovers } from "#netsim/lab/lab.ts";
import { cacheFolder } from "./cache-folder.ts";
import { countCargo, countTap, type TestCounts } from "./test-report.ts";

type Layer = "unit" | "world" | "dataplane" | "lab";

interface Job {
  readonly name: string;
  readonly layer: Layer;
  readonly argv: readonly [string, ...string[]];
  readonly timeoutMs: number;
  /** Mostly waits: runs beside the others of the lab. */
  readonly isQuiet?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  readonly count: (text: string) => TestCounts | Promise<TestCounts>;
}

interface Outcome {
  readonly job: Job;
  readonly counts: TestCounts;
  readonly seconds: number;
}

const UNIT_TIMEOUT_MS = 120_000;
const LAB_TIMEOUT_MS = 1_500_000;
const UNIT_PARALLEL = 2;
const LAB_PARALLEL = 2;
const WORLD_TIMEOUT_MS = 1_500_000;
/** Schedules of allocators that the whole run explores, in as many programs as run at once. */
const SCHEDULES = 100_000;
/** Bound of what is kept of one program's output, in characters. */
const OUTPUT_MAX = 32 * 1024 * 1024;

/** Lab tests that wait for minutes and hardly use the machine. */
const quietFiles: ReadonlySet<string> = new Set([
  "dataplane/interop-rekey.test.ts",
  "dataplane/silence.test.ts",
  "netsim/cluster/idle.test.ts",
]);

/** The same for so long that they begin before everything else. */
const longFiles: ReadonlySet<string> = new Set(["netsim/lab/silent-stream.test.ts"]);

/** What plants leaks on the host for the leak check to find: other labs would find them too. */
const aloneFiles: ReadonlySet<string> = new Set(["netsim/lab/lab.test.ts"]);

const tapJob = (file: string, layer: Layer): Job => ({
  name: file,
  layer,
  isQuiet: quietFiles.has(file),
  argv: [process.execPath, file],
  // A quarter of a short test's time is compiling tap. Not in the lab, whose programs are measured.
  ...(layer === "unit" ? { env: { NODE_COMPILE_CACHE: join(cacheFolder(), "compiled") } } : {}),
  timeoutMs: layer === "unit" ? UNIT_TIMEOUT_MS : LAB_TIMEOUT_MS,
  count: countTap,
});

/** Each explores seeds of its own; the unit layer has explored the first few already. */
const worldJobs = (): readonly Job[] =>
  Array.from({ length: UNIT_PARALLEL }, (_, at): Job => {
    const file = "netsim/world/allocation-world.test.ts";
    const count = SCHEDULES / UNIT_PARALLEL;
    return {
      name: `${file} (${count} schedules, part ${at + 1})`,
      layer: "world",
      argv: [process.execPath, file],
      env: { XYLEM_SCHEDULES: String(count), XYLEM_SCHEDULE_FIRST: String(1 + at * count) },
      timeoutMs: WORLD_TIMEOUT_MS,
      count: countTap,
    };
  });

/** Variables for tests that run a program of the lab but must not import netsim. */
const labEnvironment = async (): Promise<Readonly<Record<string, string>>> => ({
  XYLEM_WIREGUARD_GO: (await openPrograms()).wireguardGo,
});

const findJobs = (): Job[] => {
  const lab = globSync([
    "netsim/lab/**/*.test.ts",
    "netsim/cluster/**/*.test.ts",
    "dataplane/*.test.ts",
  ]);
  const unit = globSync(
    "{src,gateway,agent,controller,cli,charts,scripts,netsim}/**/*.test.ts",
  ).filter((file) => !lab.includes(file));
  const cargo = ["cargo", "test", "--locked", "--manifest-path", "dataplane/Cargo.toml"] as const;
  return [
    // The long ones first, so that the short ones fill what is left of the machine.
    ...worldJobs(),
    ...unit.toSorted().map((file) => tapJob(file, "unit")),
    {
      name: "dataplane (cargo test)",
      layer: "dataplane",
      argv: [...cargo],
      // Outside the tree, so that a fresh clone does not compile every dependency again.
      env: { CARGO_TARGET_DIR: join(cacheFolder(), "dataplane", "target-test") },
      timeoutMs: LAB_TIMEOUT_MS,
      count: countCargo,
    },
    ...lab.toSorted().map((file) => tapJob(file, "lab")),
  ];
};

/** Runs one program in its own process group, so that a program over its time is ended with all it started. */
const execute = (job: Job): Promise<{ text: string; errors: string; ended: string | null }> =>
  new Promise((resolve) => {
    const [command, ...args] = job.argv;
    const child = spawn(command, args, {
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
      // tap would end a whole file after 30 s; each job has a limit of its own here.
      env: { ...process.env, TAP_TIMEOUT: "0", ...job.env },
    });
    let text = "";
    let errors = "";
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      if (child.pid !== undefined) process.kill(-child.pid, "SIGTERM");
      setTimeout(
        () =>
          child.pid !== undefined && child.exitCode === null && process.kill(-child.pid, "SIGKILL"),
        20_000,
      ).unref();
    }, job.timeoutMs);
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      if (text.length < OUTPUT_MAX) text += chunk;
    });
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
      if (errors.length < OUTPUT_MAX) errors += chunk;
    });
    child.on("error", (error) =>
      resolve({ text, errors, ended: `could not start: ${error.message}` }),
    );
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      const ended = isLate
        ? `was ended after ${job.timeoutMs / 1000} s`
        : code === 0
          ? null
          : `exited with ${signal ?? `code ${code}`}`;
      resolve({ text, errors, ended });
    });
  });

const runJob = async (job: Job): Promise<Outcome> => {
  const start = performance.now();
  const { text, errors, ended } = await execute(job);
  let counts = await job.count(text);
  const ran = counts.passed + counts.failed + counts.skipped;
  if ((ended !== null && counts.failed === 0) || ran === 0) {
    const tail = `${text}\n${errors}`.trimEnd().split("\n").slice(-40).join("\n");
    const failure = { title: "(file)", detail: `${job.name} ${ended ?? "ran no test"}\n${tail}` };
    counts = { ...counts, failed: counts.failed + 1, failures: [...counts.failures, failure] };
  }
  return { job, counts, seconds: (performance.now() - start) / 1000 };
};

const indent = (text: string): string => text.replaceAll(/^/gm, "      ");

const show = ({ job, counts, seconds }: Outcome): void => {
  const parts = [`${counts.passed} passed`];
  if (counts.failed > 0) parts.push(`${counts.failed} failed`);
  if (counts.skipped > 0) parts.push(`${counts.skipped} skipped`);
  const verdict = counts.failed > 0 ? "FAIL" : "ok  ";
  console.log(`${verdict} ${seconds.toFixed(1).padStart(7)}s  ${job.name}: ${parts.join(", ")}`);
  for (const { title, detail } of counts.failures)
    console.log(`    not ok: ${title}\n${indent(detail)}`);
  for (const { title, reason } of counts.skips) console.log(`    skipped: ${title}: ${reason}`);
};

const runAll = async (jobs: readonly Job[], parallel: number): Promise<Outcome[]> => {
  const queue = [...jobs];
  const outcomes: Outcome[] = [];
  const worker = async (): Promise<void> => {
    for (let job = queue.shift(); job !== undefined; job = queue.shift()) {
      const outcome = await runJob(job);
      show(outcome);
      outcomes.push(outcome);
    }
  };
  await Promise.all(Array.from({ length: parallel }, worker));
  return outcomes;
};

/** The lab, whose machines wait more than they work: a few files at a time, and beside them those that mostly wait. */
const runBeside = async (jobs: readonly Job[]): Promise<Outcome[]> => {
  const alone = jobs.filter((job) => aloneFiles.has(job.name));
  const quiet = jobs.filter((job) => job.isQuiet === true);
  const loud = jobs.filter((job) => job.isQuiet !== true && !aloneFiles.has(job.name));
  const first = await runAll(alone, 1);
  return [
    ...first,
    ...(await Promise.all([runAll(loud, LAB_PARALLEL), runAll(quiet, quiet.length)])).flat(),
  ];
};

/**
 * Runs the lab's failed files once more, with the machine to themselves: their packets, processes and clocks are
 * real, and share two cores with the quiet files. What fails twice has failed; the first failure stays in sight.
 */
const runAgain = async (outcomes: readonly Outcome[]): Promise<Outcome[]> => {
  const isUnsteady = ({ job, counts }: Outcome): boolean =>
    job.layer === "lab" && counts.failed > 0;
  const failed = outcomes.filter(isUnsteady);
  if (failed.length === 0) return [...outcomes];
  console.log(`running ${failed.map(({ job }) => job.name).join(", ")} once more, alone`);
  await removeLeftovers();
  const again = await runAll(
    failed.map(({ job }) => job),
    1,
  );
  for (const { job, counts } of again)
    if (counts.failed === 0) console.log(`unsteady: ${job.name} failed at first (see above)`);
  return [...outcomes.filter((outcome) => !isUnsteady(outcome)), ...again];
};

const main = async (): Promise<number> => {
  const { values, positionals } = parseArgs({
    options: { layer: { type: "string", multiple: true }, help: { type: "boolean", short: "h" } },
    allowPositionals: true,
  });
  if (values.help === true) {
    console.log(
      "usage: test.ts [--layer unit|world|dataplane|lab]... [PATTERN...]\nPATTERN: part of a test file's path",
    );
    return 0;
  }
  const wanted = findJobs().filter(
    (job) =>
      (values.layer === undefined || values.layer.includes(job.layer)) &&
      (positionals.length === 0 || positionals.some((part) => job.name.includes(part))),
  );
  const isPlain = ({ layer }: Job): boolean => layer === "unit" || layer === "world";
  const rest = wanted.filter((job) => !isPlain(job));
  const hasLab = rest.some((job) => job.layer === "lab");
  const removed = hasLab ? await removeLeftovers() : [];
  if (hasLab) Object.assign(process.env, await labEnvironment());
  if (removed.length > 0) console.log(`removed what killed runs had left: ${removed.join(", ")}`);
  const isLong = ({ name }: Job): boolean => longFiles.has(name);
  const long = runAll(rest.filter(isLong), 1);
  const outcomes = await runAgain([
    ...(await runAll(wanted.filter(isPlain), UNIT_PARALLEL)),
    ...(await runBeside(rest.filter((job) => !isLong(job)))),
    ...(await long),
  ]);
  const sum = (pick: (counts: TestCounts) => number): number =>
    outcomes.reduce((total, outcome) => total + pick(outcome.counts), 0);
  const failed = sum((counts) => counts.failed);
  const passed = sum((counts) => counts.passed);
  console.log(`${passed} passed, ${failed} failed, ${sum((counts) => counts.skipped)} skipped`);
  return failed === 0 && passed > 0 ? 0 : 1;
};

process.exitCode = await main();
