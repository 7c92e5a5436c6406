/**
 * Turns a fresh Debian machine and a fresh clone into something that runs: `npm start`, `npm test`, `npm run check`.
 * Runs on the machine's own Node (20 or newer) with nothing installed, so: built-ins only, plain JavaScript.
 */

import { execFileSync, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { release } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const node = join(root, "node_modules/.bin/node");
const started = Date.now();

/** Debian packages, and the command or file that shows that what is needed is there. */
const packages = [
  ["nftables", "nft"],
  ["iptables", "iptables"],
  ["iproute2", "ip"],
  ["iputils-ping", "ping"],
  ["procps", "sysctl"],
  ["util-linux", "unshare"],
  ["openssl", "openssl"],
  ["conntrack", "conntrack"],
  ["tcpdump", "tcpdump"],
  ["socat", "socat"],
  ["runc", "runc"],
  ["containernetworking-plugins", "/usr/lib/cni/bridge"],
  ["busybox-static", "/bin/busybox"],
  ["prometheus", "prometheus"],
];

/** What only measuring needs. */
const benchPackages = [["iperf3", "iperf3"]];

const usage = `usage: npm start -- [--once] [--json] [--no-install]
       npm test [-- PATTERN...]
       npm run bench [-- --only NAME] [--json] [--list]
       npm run check

  --once        run the main job, print its result and stop (exit code 0 or 1)
  --json        print the result of --once as JSON on standard output
  --no-install  install no system package: say which are missing and stop`;

const elapsed = () => `${((Date.now() - started) / 1000).toFixed(0)} s`;
const say = (text) => process.stderr.write(`xylem: ${text}\n`);
const fail = (text) => {
  say(text);
  process.exit(1);
};
const has = (what) => {
  if (what.startsWith("/")) return existsSync(what);
  const dirs = `${process.env.PATH}:/usr/sbin:/sbin`.split(":");
  return dirs.some((dir) => existsSync(join(dir, what)));
};
const succeeds = (command, args) => spawnSync(command, args, { stdio: "ignore" }).status === 0;

const isTunUsable = () => {
  try {
    accessSync("/dev/net/tun", constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
};
const isKernelNewEnough = () => {
  const [major = 0, minor = 0] = release().split(".").map(Number);
  return major > 5 || (major === 5 && minor >= 15);
};

/** What cannot be installed by us: said before any work starts, one sentence each. */
const requirements = [
  [
    () => process.platform === "linux",
    "this needs Linux: run it on a Linux machine or virtual machine",
  ],
  [isKernelNewEnough, `the kernel ${release()} is too old: Linux 5.15 or newer is needed`],
  [
    () => process.getuid?.() === 0,
    "network namespaces need root: run it again as root (sudo npm start)",
  ],
  [
    isTunUsable,
    "/dev/net/tun is missing or not readable: load it (modprobe tun), or give this container the device",
  ],
  [
    () => succeeds("unshare", ["--net", "--mount", "--pid", "--fork", "true"]),
    "new network, mount and PID namespaces can't be made here: run it on the machine itself or in a privileged container",
  ],
  [
    () => has("go"),
    "Go is missing: install Go 1.26 or newer (it builds the real Kubernetes that the lab runs)",
  ],
  [
    () => has("cargo"),
    "Rust is missing: install Rust 1.90 or newer with cargo (it builds the data plane)",
  ],
  [() => has("cc") || has("gcc"), "a C compiler is missing: install gcc (apt-get install gcc)"],
  [() => has("npm"), "npm is missing: install Node.js 20 or newer with npm"],
];

const checkRequirements = () => {
  const missing = requirements.filter(([isMet]) => !isMet()).map(([, sentence]) => sentence);
  for (const sentence of missing) say(sentence);
  if (missing.length > 0) process.exit(1);
};

/** A policy that keeps freshly installed packages from starting daemons (Debian policy 9.3.3.1). */
const withoutDaemons = (install) => {
  const policy = "/usr/sbin/policy-rc.d";
  const isOurs = !existsSync(policy);
  if (isOurs) writeFileSync(policy, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
  try {
    install();
  } finally {
    if (isOurs) rmSync(policy);
  }
};

const installPackages = (wanted, mayInstall) => {
  const missing = wanted.filter(([, proof]) => !has(proof)).map(([name]) => name);
  if (missing.length === 0) return;
  if (!mayInstall) {
    fail(
      `missing system packages: ${missing.join(" ")}; install them (apt-get install ${missing.join(" ")}) or leave out --no-install`,
    );
  }
  say(`installing system packages with apt-get: ${missing.join(" ")}`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const apt = (...args) => {
    const done = spawnSync("apt-get", ["-q", ...args], { env, encoding: "utf8" });
    if (done.status !== 0) fail(`apt-get ${args[0]} failed:\n${done.stderr ?? done.error}`);
  };
  withoutDaemons(() => {
    apt("update");
    apt("install", "-y", "--no-install-recommends", ...missing);
  });
};

/** npm ci, when the lock file is not the one that node_modules was made from. */
const installModules = () => {
  const stamp = join(root, "node_modules/.xylem-lock");
  const want = createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === want) return;
  say(`installing npm packages (npm ci), about 1 min, ${elapsed()} elapsed`);
  const done = spawnSync("npm", ["ci", "--no-fund", "--no-audit", "--loglevel=error"], {
    cwd: root,
    encoding: "utf8",
  });
  if (done.status !== 0) fail(`npm ci failed:\n${done.stdout}\n${done.stderr}`);
  execFileSync(node, ["--version"]);
  writeFileSync(stamp, want);
};

/** Runs a script of ours under the project's own Node; its exit code is ours, signals reach it. */
const run = (argv) =>
  new Promise((resolve) => {
    const child = spawn(node, argv, { cwd: root, stdio: "inherit" });
    const pass = (signal) => child.kill(signal);
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, pass);
    child.on("exit", (code, signal) => resolve(signal === null ? code : 1));
  });

const runOrStop = async (argv) => {
  const code = await run(argv);
  if (code !== 0) process.exit(code);
};

const prepareLab = async (mayInstall, morePackages = []) => {
  checkRequirements();
  installPackages([...packages, ...morePackages], mayInstall);
  installModules();
  await runOrStop(["dataplane/build.ts"]);
  await runOrStop(["scripts/bundle.ts"]);
  await runOrStop(["netsim/cluster/build-programs.ts"]);
};

const verbs = {
  start: async (args) => {
    await prepareLab(!args.includes("--no-install"));
    return run(["netsim/cluster/start.ts", ...args.filter((arg) => arg !== "--no-install")]);
  },
  test: async (args) => {
    await prepareLab(!args.includes("--no-install"));
    return run(["scripts/test.ts", ...args.filter((arg) => arg !== "--no-install")]);
  },
  bench: async (args) => {
    await prepareLab(!args.includes("--no-install"), benchPackages);
    return run(["netsim/bench/bench.ts", ...args.filter((arg) => arg !== "--no-install")]);
  },
  check: async () => {
    installModules();
    const bin = (name) => join(root, "node_modules/.bin", name);
    for (const { title, command, args } of [
      { title: "types", command: "tsc", args: ["--noEmit", "-p", "."] },
      { title: "lint", command: "oxlint", args: ["--type-aware"] },
      { title: "format", command: "oxfmt", args: ["--check", "."] },
    ]) {
      const done = spawnSync(bin(command), args, { cwd: root, encoding: "utf8" });
      if (done.status !== 0) fail(`${title} check failed:\n${done.stdout}${done.stderr}`);
      say(`${title} ok, ${elapsed()}`);
    }
    // The same for root as for everybody: what needs a network namespace is left to npm test.
    process.env.XYLEM_UNPRIVILEGED = "1";
    process.env.XYLEM_SCHEDULES ??= "200";
    return run(["scripts/test.ts", "--layer", "unit"]);
  },
};

const [verb = "", ...args] = process.argv.slice(2);
if (args.includes("--help") || args.includes("-h") || !(verb in verbs)) {
  process.stdout.write(`${usage}\n`);
  process.exit(verb in verbs ? 0 : 2);
}
process.exitCode = await verbs[verb](args);
