/**
 * Bundles each program into one ESM file with a source map under dist/ (or the folder given), as an image or a node
 * carries it: no node_modules. Beside it lies netlink.node; `#dataplane` is left to the package.json around it.
 */

import { copyFileSync, existsSync, mkdirSync, renameSync } from "node:fs";
import { builtinModules } from "node:module";
import { join } from "node:path";
import { build, type Plugin } from "esbuild";

const programs = {
  gateway: "gateway/main.ts",
  agent: "agent/main.ts",
  controller: "controller/main.ts",
  xylem: "cli/main.ts",
};

/** CommonJS dependencies ask for `require`, which an ES module has to make for itself. */
const banner =
  "import { createRequire as xylemCreateRequire } from 'node:module'; const require = xylemCreateRequire(import.meta.url), xylemRequire = require, __dirname = import.meta.dirname;";

const outdir = process.argv[2] ?? "dist";

const builtins = new Set(builtinModules);

/**
 * Takes Node's own modules with `getBuiltinModule` instead of `import`: an import reads every export of a module, lazy
 * ones too, and `node:http` has one behind which the whole of undici, HTTP/2 and web streams is loaded (1.4 MB private
 * and 3 MB resident memory; seen with Node.js 26.10).
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

/** node-gyp-build looks for the native part of `netlink` in folders around its source; here it lies beside the bundle. */
const nativeBeside: Plugin = {
  name: "native-beside",
  setup: (bundler) => {
    bundler.onResolve({ filter: /^node-gyp-build$/ }, ({ path }) => ({
      path,
      namespace: "native",
    }));
    bundler.onLoad({ filter: /.*/, namespace: "native" }, () => ({
      contents: "module.exports = () => xylemRequire('./netlink.node');",
    }));
  },
};

/** In one step: a program that starts meanwhile reads the old file or the new one. */
const placeNative = (): void => {
  const file = join(outdir, "netlink.node");
  copyFileSync(
    `node_modules/netlink/prebuilds/linux-${process.arch}/node.napi.node`,
    `${file}.new`,
  );
  renameSync(`${file}.new`, file);
};

mkdirSync(outdir, { recursive: true });
placeNative();
const entryPoints = Object.fromEntries(
  Object.entries(programs).filter(([, file]) => existsSync(file)),
);
await build({
  entryPoints,
  outdir,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node24",
  sourcemap: true,
  minifyWhitespace: true,
  external: ["#dataplane"],
  banner: { js: banner },
  plugins: [lazyBuiltins, withoutTracing, nativeBeside],
  logLevel: "warning",
});
process.stderr.write(`xylem: bundled ${Object.keys(entryPoints).join(", ")} into ${outdir}/\n`);
