/** Bundles each program into one ESM file with a source map under dist/, as an image or a node carries it. */

import { existsSync, mkdirSync } from "node:fs";
import { builtinModules } from "node:module";
import { build, type Plugin } from "esbuild";

const programs = {
  gateway: "gateway/main.ts",
  agent: "agent/main.ts",
  controller: "controller/main.ts",
  xylem: "cli/main.ts",
};

/** CommonJS dependencies ask for `require`, which an ES module has to make for itself. */
const banner =
  "import { createRequire as xylemCreateRequire } from 'node:module'; const require = xylemCreateRequire(import.meta.url);";

const builtins = new Set(builtinModules);

/**
 * Takes Node's own modules with `getBuiltinModule` instead of `import`: an import reads every export of a module, lazy
 * ones too, and `node:http` has one behind which the whole of undici, HTTP/2 and web streams is loaded (2 MB private
 * and 4 MB resident memory; seen with Node.js 26.10).
 */
const lazyBuiltins: Plugin = {
  name: "lazy-builtins",
  setup: (bundler) => {
    bundler.onResolve({ filter: /^(node:)?[a-z0-9_/]+$/ }, ({ path }) => {
      const name = path.replace(/^node:/, "");
      return builtins.has(name) ? { path: `node:${name}`, namespace: "builtin" } : undefined;
    });
    bundler.onLoad({ filter: /.*/, namespace: "builtin" }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
    }));
  },
};

/** prom-client asks it for the span of an exemplar of its default metrics, and we have neither: 0.5 MB less. */
const withoutTracing: Plugin = {
  name: "without-tracing",
  setup: (bundler) => {
    bundler.onResolve({ filter: /^@opentelemetry\/api$/ }, ({ path }) => ({
      path,
      namespace: "absent",
    }));
    bundler.onLoad({ filter: /.*/, namespace: "absent" }, () => ({
      contents: "exports.context = { active() {} }; exports.trace = { getSpan() {} };",
    }));
  },
};

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
  plugins: [lazyBuiltins, withoutTracing],
  logLevel: "warning",
});
process.stderr.write(`xylem: bundled ${Object.keys(entryPoints).join(", ")} into dist/\n`);
