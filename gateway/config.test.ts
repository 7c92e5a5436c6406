/** The gateway's command line: defaults, and that what is wrong is one sentence. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import t from "tap";
import { readGatewayConfig } from "./config.ts";

const NEEDED = [
  ...["--namespace", "shoot--a", "--tunnel", "alpha", "--identity", "uid"],
  ...["--shoot-kubeconfig", "shoot.kubeconfig"],
];

void t.test("what is needed is enough; the rest has defaults", async (t) => {
  t.strictSame(readGatewayConfig(NEEDED, "1.2.3"), {
    namespace: "shoot--a",
    tunnel: "alpha",
    identity: "uid",
    shootKubeconfig: "shoot.kubeconfig",
    seedKubeconfig: null,
    stateDir: null,
    paths: 4,
    discoverPods: null,
    interface: "xylem0",
    offload: true,
    statusAddress: "127.0.0.1",
    statusPort: 9446,
    logLevel: "info",
  });
});

const run = (...args: readonly string[]) =>
  new Promise<{ code: number; text: string }>((resolve) => {
    const argv = [join(import.meta.dirname, "main.ts"), ...args];
    execFile(process.execPath, argv, (error, stdout, stderr) => {
      const code = typeof error?.code === "number" ? error.code : 0;
      resolve({ code, text: stdout + stderr });
    });
  });

const LINES: readonly { name: string; args: readonly string[]; code: number; want: RegExp }[] = [
  { name: "--help", args: ["--help"], code: 0, want: /Connects the API server or Prometheus/u },
  { name: "--version", args: ["--version"], code: 0, want: /^\d+\.\d+\.\d+\n$/u },
  { name: "nothing", args: [], code: 1, want: /required option '--namespace <name>'/u },
  {
    name: "nine paths",
    args: [...NEEDED, "--paths", "9"],
    code: 1,
    want: /give a whole number from 1 to 8/u,
  },
];

for (const { name, args, code, want } of LINES) {
  void t.test(`with ${name} it exits ${code} and says what to do`, async (t) => {
    const ended = await run(...args);
    t.equal(ended.code, code);
    t.match(ended.text, want);
  });
}
