/** The rows that `npm run bench` prints: as a table for people, as JSON for programs. */

import { summarize, type Summary } from "./statistics.ts";

/** One figure of one run. */
export interface Row {
  readonly figure: string;
  readonly unit: string;
  /** The median where there are samples. */
  readonly xylem: number;
  /** At most this much; absent: nothing was promised. */
  readonly goal?: number;
  readonly isMet?: boolean;
  /** The same figure of others, measured in the same run. */
  readonly peers: Readonly<Record<string, number>>;
  readonly samples?: Samples;
  readonly note?: string;
}

export interface Samples {
  readonly count: number;
  readonly low: number;
  readonly high: number;
}

/** The machine that the numbers are from. */
export interface MachineFacts {
  readonly cpu: string;
  readonly cores: number;
  readonly kernel: string;
  readonly memoryGb: number;
  readonly node: string;
  /** Load average of the last minute when the run began: other work spoils the figures. */
  readonly load: number;
}

/** A measurement that came to no figure. */
export interface Failure {
  readonly name: string;
  readonly error: string;
}

export interface Report {
  readonly machine: MachineFacts;
  readonly rows: readonly Row[];
  readonly failures: readonly Failure[];
}

export interface Measured {
  readonly figure: string;
  readonly unit: string;
  readonly values: readonly number[];
  /** At most this much. */
  readonly goal?: number;
  /** Samples of others, by name. */
  readonly peers?: Readonly<Record<string, readonly number[]>>;
  readonly note?: string;
}

/** Makes a row from samples; a goal is met or missed by what the row shows, not by what rounding hides. */
export const rowOf = (measured: Measured): Row => {
  const { figure, unit, values, goal, peers = {}, note } = measured;
  const own = summarize(values);
  return {
    figure,
    unit,
    xylem: rounded(own.median),
    ...(goal === undefined ? {} : { goal, isMet: rounded(own.median) <= goal }),
    peers: Object.fromEntries(
      Object.entries(peers).map(([name, samples]) => [name, rounded(summarize(samples).median)]),
    ),
    ...(own.count > 1 ? { samples: samplesOf(own) } : {}),
    ...(note === undefined ? {} : { note }),
  };
};

const samplesOf = ({ count, low, high }: Summary): Samples => ({
  count,
  low: rounded(low),
  high: rounded(high),
});

/** Three significant digits, and whole numbers from 100 on: nothing here is known better than that. */
export const rounded = (value: number): number => {
  if (!Number.isFinite(value)) return value;
  if (Math.abs(value) >= 100) return Math.round(value);
  return Number(value.toPrecision(3));
};

const columns = ["figure", "unit", "xylem", "range", "goal", "", "others"] as const;

/** Renders the report for a person: machine first, then one line a row. */
export const tableOf = ({ machine, rows, failures }: Report): string => {
  const lines = [columns.slice(), ...rows.map(cellsOf)];
  const widths = columns.map((_, index) =>
    Math.max(...lines.map((cells) => (cells[index] ?? "").length)),
  );
  const isNumber = (index: number): boolean => index === 2 || index === 4;
  const text = lines.map((cells) =>
    cells
      .map((cell, index) =>
        isNumber(index) ? cell.padStart(widths[index] ?? 0) : cell.padEnd(widths[index] ?? 0),
      )
      .join("  ")
      .trimEnd(),
  );
  const missed = rows.filter(({ isMet }) => isMet === false).length;
  return [
    machineLine(machine),
    "",
    ...text,
    ...rows.flatMap(({ figure, note }) => (note === undefined ? [] : ["", `${figure}: ${note}`])),
    ...(missed === 0 ? [] : ["", `${missed} ${missed === 1 ? "goal is" : "goals are"} missed.`]),
    ...failures.flatMap(({ name, error }) => ["", `${name} could not be measured: ${error}`]),
    "",
  ].join("\n");
};

/** One line about the machine. */
export const machineLine = (machine: MachineFacts): string =>
  `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGb} GB, Linux ${machine.kernel}, Node.js ${machine.node}, load ${machine.load} at the start`;

const cellsOf = (row: Row): string[] => [
  row.figure,
  row.unit,
  String(row.xylem),
  row.samples === undefined
    ? ""
    : `${row.samples.low} to ${row.samples.high} (${row.samples.count})`,
  row.goal === undefined ? "" : `<= ${row.goal}`,
  row.isMet === undefined ? "" : row.isMet ? "met" : "MISSED",
  Object.entries(row.peers)
    .map(([name, value]) => `${name} ${value}`)
    .join(", "),
];

/** Renders the report for a program; `failures` is there only when something failed. */
export const jsonOf = ({ machine, rows, failures }: Report): string =>
  `${JSON.stringify({ machine, rows, ...(failures.length === 0 ? {} : { failures }) }, null, 2)}\n`;
