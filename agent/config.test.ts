/** The agent's command line: defaults, and that what is wrong is one sentence. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import t from "tap";
import { readAgentConfig } from "./config.ts";

void t.test("a node is enough; the rest has defaults", async (t) => {
  t.strictSame(readAgentConfig(["--node", "n1"], "1.2.3"), {
    node: "n1",
    kubeconfig: null,
    keyFile: "/var/lib/xylem/agent.key",
    port: 51_820,
    interface: "xylem0",
    offload: true,
    statusAddress: "127.0.0.1",
    statusPort: 9447,
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
  { name: "--help", args: ["--help"], code: 0, want: /Ends the tunnel of the shoot's control/u },
  { name: "nothing", args: [], code: 1, want: /required option '--node <name>'/u },
  { name: "port 0", args: ["--node", "n1", "--port", "0"], code: 1, want: /from 1 to 65535/u },
  {
    name: "a key file in a folder that is a file",
    args: ["--node", "n1", "--key-file", `${import.meta.filename}/agent.key`],
    code: 1,
    want: /key file .*can't be read or written \(ENOTDIR\): mount a writable directory/u,
  },
];

for (const { name, args, code, want } of LINES) {
  void t.test(`with ${name} it exits ${code} and says what to do`, async (t) => {
    const ended = await run(...args);
    t.equal(ended.code, code);
    t.match(ended.text, want);
  });
}
