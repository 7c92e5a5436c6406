/** The linter refuses every arrow that the map of rooms (docs/architecture.md) does not draw. */

import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import t from "tap";

const lint = (file: string, source: string): string => {
  writeFileSync(file, source);
  try {
    const { stdout } = spawnSync("node_modules/.bin/oxlint", [file], { encoding: "utf8" });
    return stdout;
  } finally {
    rmSync(file);
  }
};

const cases: readonly {
  readonly room: string;
  readonly refused: readonly string[];
  readonly allowed: readonly string[];
}[] = [
  {
    room: "src/model",
    refused: ["#src/codec/a.ts", "#src/ports/a.ts", "node:fs", "pino"],
    allowed: ["./a.ts"],
  },
  {
    room: "src/codec",
    refused: ["#src/plan/a.ts", "#src/host/a.ts", "node:fs", "yaml"],
    allowed: ["#src/model/a.ts", "./a.ts"],
  },
  {
    room: "src/plan",
    refused: ["#src/codec/a.ts", "#src/ports/a.ts", "node:crypto"],
    allowed: ["#src/model/a.ts"],
  },
  {
    room: "src/ports",
    refused: ["#src/plan/a.ts", "#src/host/a.ts", "node:net"],
    allowed: ["#src/model/a.ts"],
  },
  {
    room: "src/reconcile",
    refused: ["#src/host/a.ts", "node:fs", "yaml"],
    allowed: ["#src/plan/a.ts", "#src/ports/a.ts", "#src/codec/a.ts"],
  },
  {
    room: "src/host",
    refused: ["#src/plan/a.ts", "#src/reconcile/a.ts", "#netsim/lab/a.ts"],
    allowed: ["#src/codec/a.ts", "node:fs"],
  },
  {
    room: "gateway",
    refused: ["../agent/a.ts", "../netsim/lab/a.ts", "#netsim/lab/a.ts"],
    allowed: ["#src/host/a.ts", "node:fs"],
  },
  { room: "agent", refused: ["../gateway/a.ts", "#netsim/lab/a.ts"], allowed: ["#src/plan/a.ts"] },
  {
    room: "controller",
    refused: ["../gateway/a.ts", "#netsim/lab/a.ts"],
    allowed: ["#src/plan/a.ts"],
  },
  { room: "cli", refused: ["../gateway/a.ts", "#netsim/lab/a.ts"], allowed: ["#src/plan/a.ts"] },
];

void t.test("an import that the map of rooms does not draw is refused by the linter", async (t) => {
  for (const { room, refused, allowed } of cases) {
    mkdirSync(room, { recursive: true });
    const file = `${room}/forbidden-import-${process.pid}.ts`;
    for (const from of refused) {
      const said = lint(file, `import { a } from "${from}";\nexport const b = a;\n`);
      t.match(said, "no-restricted-imports", `${room} must not import ${from}`);
    }
    for (const from of allowed) {
      const said = lint(file, `import { a } from "${from}";\nexport const b = a;\n`);
      t.notMatch(said, "no-restricted-imports", `${room} may import ${from}`);
    }
  }
});

void t.test("a pure room that asks for time, chance or IO is refused by the linter", async (t) => {
  const impure = [
    "Date.now()",
    "performance.now()",
    "process.pid",
    "crypto.randomUUID()",
    "setTimeout(() => 1, 1)",
    "fetch('x')",
    "Math.random()",
  ];
  for (const room of ["src/model", "src/codec", "src/plan"]) {
    for (const expression of impure) {
      const said = lint(`${room}/impure-${process.pid}.ts`, `export const a = ${expression};\n`);
      t.match(said, "no-restricted-", `${room} must not use ${expression}`);
    }
  }
});
