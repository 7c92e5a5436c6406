/** Bundles each program into one ESM file with a source map under dist/, as an image or a node carries it. */

import { existsSync, mkdirSync } from "node:fs";
import { build } from "esbuild";

const programs = {
  gateway: "gateway/main.ts",
  agent: "agent/main.ts",
  controller: "controller/main.ts",
  xylem: "cli/main.ts",
};

/** CommonJS dependencies ask for `require`, which an ES module has to make for itself. */
const banner =
  "import { createRequire as xylemCreateRequire } from 'node:module'; const require = xylemCreateRequire(import.meta.url);";

mkdirSync("dist", { recursive: true });
const entryPoints = Object.fromEntries(
  Object.entries(programs).filter(([, file]) => existsSync(file)),
);
await build({
  entryPoints,
  outdir: "dist",
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node24",
  sourcemap: true,
  minifyWhitespace: true,
  external: ["#dataplane", "netlink"],
  banner: { js: banner },
  logLevel: "warning",
});
process.stderr.write(`xylem: bundled ${Object.keys(entryPoints).join(", ")} into dist/\n`);
