/** The controller's command line: what it prints for people, and that bad input is one sentence and an exit code. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import t from "tap";

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const run = (...args: readonly string[]): Promise<Ended> =>
  new Promise((resolve) => {
    const script = join(import.meta.dirname, "main.ts");
    execFile(process.execPath, [script, ...args], (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === "number" ? error.code : 0, stdout, stderr });
    });
  });

const ABSENT = "/nowhere/kubeconfig";
const ONE = ["--namespace", "a", "--tunnel", "b"];

const CASES: readonly { name: string; args: readonly string[]; code: number; want: RegExp }[] = [
  { name: "--help", args: ["--help"], code: 0, want: /Watches Tunnels in the seed/u },
  { name: "no shoot", args: ONE, code: 1, want: /give one of --shoot-kubeconfig/u },
  {
    name: "one kubeconfig for all tunnels",
    args: ["--shoot-kubeconfig", ABSENT],
    code: 1,
    want: /--shoot-kubeconfig is for one shoot: name its Tunnel with --tunnel/u,
  },
  {
    name: "a tunnel without its namespace",
    args: ["--tunnel", "b", "--shoot-kubeconfig", ABSENT],
    code: 1,
    want: /--tunnel needs --namespace/u,
  },
  {
    name: "a port that is none",
    args: [...ONE, "--shoot-kubeconfig", ABSENT, "--status-port", "70000"],
    code: 1,
    want: /give a whole number from 0 to 65535/u,
  },
  {
    name: "an image of the gateway that is none",
    args: [...ONE, "--shoot-kubeconfig", ABSENT, "--gateway-image", "a b"],
    code: 1,
    want: /image/u,
  },
  {
    name: "an injector that does not know its own namespace",
    args: [...ONE, "--shoot-kubeconfig", ABSENT, "--gateway-image", "example.com/gateway:1"],
    code: 1,
    want: /own namespace/u,
  },
  {
    name: "a seed kubeconfig that is not there",
    args: [...ONE, "--seed-kubeconfig", ABSENT, "--shoot-kubeconfig", ABSENT, "--once"],
    code: 1,
    want: /Kubeconfig \/nowhere\/kubeconfig can't be read \(ENOENT\); check the path/u,
  },
];

for (const { name, args, code, want } of CASES) {
  void t.test(`with ${name} it exits ${code} and says what to do`, async (t) => {
    const ended = await run(...args);
    t.equal(ended.code, code);
    t.match(ended.stdout + ended.stderr, want);
  });
}
