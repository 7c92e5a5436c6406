/** The frame of a program, as a process of its own: clean stop on a signal, failure at the start, a stop that hangs. */

import { spawn } from "node:child_process";
import { join } from "node:path";
import t from "tap";

interface Ended {
  readonly code: number | null;
  readonly out: string;
}

/** Runs a program whose `start` is the given source, signals it once it says that it is up, and waits for its end. */
const run = (source: string, signal: NodeJS.Signals | null): Promise<Ended> =>
  new Promise((resolve) => {
    const file = (name: string): string => JSON.stringify(join(import.meta.dirname, name));
    const script = `
      import { runProgram } from ${file("program.ts")};
      const say = (level) => (fields, message) => process.stdout.write(level + ": " + message + "\\n");
      const log = { debug: say("debug"), info: say("info"), warn: say("warn"), error: say("error") };
      await runProgram(log, async () => { ${source} });`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", script]);
    let out = "";
    const hear = (chunk: Buffer): void => {
      const before = out;
      out += chunk.toString();
      const isUp = out.includes("up\n") && !before.includes("up\n");
      if (isUp && signal !== null) child.kill(signal);
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("close", (code) => resolve({ code, out }));
  });

const UP = 'process.stdout.write("up\\n");';

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  void t.test(`${signal} stops it cleanly, although something still listens`, async (t) => {
    const source = `
      const { createServer } = await import("node:net");
      await new Promise((resolve) => createServer().listen(0, "127.0.0.1", resolve));
      ${UP}
      return { stop: async () => { process.stdout.write("given back\\n"); } };`;
    const { code, out } = await run(source, signal);
    t.equal(code, 0);
    t.match(out, /up\ninfo: stopping\ngiven back\ninfo: stopped\n$/u);
  });
}

void t.test("nothing else keeps it alive, and it lives", async (t) => {
  const source = `setTimeout(() => process.kill(process.pid, "SIGTERM"), 50).unref();
    return { stop: async () => undefined };`;
  t.equal((await run(source, null)).code, 0);
});

void t.test("a start that fails is one sentence and exit code 1", async (t) => {
  const { code, out } = await run('throw new Error("/dev/net/tun is missing");', null);
  t.equal(code, 1);
  t.equal(out, "error: /dev/net/tun is missing\n");
});

void t.test("a stop that fails is exit code 1", async (t) => {
  const source = `${UP} return { stop: () => Promise.reject(new Error("the kernel is busy")) };`;
  const { code, out } = await run(source, "SIGTERM");
  t.equal(code, 1);
  t.match(out, /error: the kernel is busy\n$/u);
});
