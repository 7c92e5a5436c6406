/** The linter refuses every arrow that the map of rooms (docs/architecture.md) does not draw. */

import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import t from "tap";

interface Sample {
  readonly title: string;
  readonly room: string;
  readonly source: string;
  readonly isRefused: boolean;
}

const importing = (room: string, from: string, isRefused: boolean): Sample => ({
  title: `${room} ${isRefused ? "must not" : "may"} import ${from}`,
  room,
  source: `import { a } from "${from}";\nexport const b = a;\n`,
  isRefused,
});

/** Room, what it must not import, what it may. */
const arrows: readonly (readonly [string, readonly string[], readonly string[]])[] = [
  ["src/model", ["#src/codec/a.ts", "#src/ports/a.ts", "node:fs", "pino"], ["./a.ts"]],
  [
    "src/codec",
    ["#src/plan/a.ts", "#src/host/a.ts", "node:fs", "yaml"],
    ["#src/model/a.ts", "./a.ts"],
  ],
  ["src/plan", ["#src/codec/a.ts", "#src/ports/a.ts", "node:crypto"], ["#src/model/a.ts"]],
  ["src/ports", ["#src/plan/a.ts", "#src/host/a.ts", "node:net"], ["#src/model/a.ts"]],
  [
    "src/reconcile",
    ["#src/host/a.ts", "node:fs", "yaml"],
    ["#src/plan/a.ts", "#src/ports/a.ts", "#src/codec/a.ts"],
  ],
  [
    "src/host",
    ["#src/plan/a.ts", "#src/reconcile/a.ts", "#netsim/lab/a.ts"],
    ["#src/codec/a.ts", "node:fs"],
  ],
  [
    "gateway",
    ["../agent/a.ts", "../netsim/lab/a.ts", "#netsim/lab/a.ts"],
    ["#src/host/a.ts", "node:fs"],
  ],
  ["agent", ["../gateway/a.ts", "#netsim/lab/a.ts"], ["#src/plan/a.ts"]],
  ["controller", ["../gateway/a.ts", "#netsim/lab/a.ts"], ["#src/plan/a.ts"]],
  ["cli", ["../gateway/a.ts", "#netsim/lab/a.ts"], ["#src/plan/a.ts"]],
];

const impure = [
  "Date.now()",
  "performance.now()",
  "process.pid",
  "crypto.randomUUID()",
  "setTimeout(() => 1, 1)",
  "fetch('x')",
  "Math.random()",
];

const samples: readonly Sample[] = [
  ...arrows.flatMap(([room, refused, allowed]) => [
    ...refused.map((from) => importing(room, from, true)),
    ...allowed.map((from) => importing(room, from, false)),
  ]),
  ...["src/model", "src/codec", "src/plan"].flatMap((room) =>
    impure.map((expression) => ({
      title: `${room} must not use ${expression}`,
      room,
      source: `export const a = ${expression};\n`,
      isRefused: true,
    })),
  ),
];

/** Lints all samples in one run; what the linter said of rooms, by file. */
const lintAll = (files: readonly string[]): ReadonlySet<string> => {
  const { stdout } = spawnSync("node_modules/.bin/oxlint", ["--format", "json", ...files], {
    encoding: "utf8",
  });
  const { diagnostics } = JSON.parse(stdout) as {
    diagnostics: readonly { code: string; filename: string }[];
  };
  return new Set(
    diagnostics
      .filter(({ code }) => code.includes("no-restricted-"))
      .map(({ filename }) => filename),
  );
};

void t.test(
  "the linter refuses what the map of rooms does not draw, and time, chance and IO in pure rooms",
  async (t) => {
    const placed = samples.map((sample, index) => ({
      ...sample,
      file: `${sample.room}/lint-sample-${process.pid}-${index}.ts`,
    }));
    t.teardown(() => {
      for (const { file } of placed) rmSync(file, { force: true });
    });
    for (const { room, file, source } of placed) {
      mkdirSync(room, { recursive: true });
      writeFileSync(file, source);
    }
    const refused = lintAll(placed.map(({ file }) => file));
    for (const { title, file, isRefused } of placed) t.equal(refused.has(file), isRefused, title);
  },
);
