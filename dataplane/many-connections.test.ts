/** More connections than what others had room for, at the same time, through one tunnel. Needs root. */

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";
import { TunnelPair } from "./tunnel-pair.ts";

const program = fileURLToPath(new URL("many-connections-process.ts", import.meta.url));
const isRoot = process.getuid?.() === 0;
const hasTun = spawnSync("test", ["-c", "/dev/net/tun"]).status === 0;
const EACH = 10_000;
/** Each its own program: a program may have only so many descriptors. */
const servers = [
  { port: 9_100, address: "10.99.0.2" },
  { port: 9_101, address: "fd99::2" },
] as const;

const descriptors = Number(spawnSync("bash", ["-c", "ulimit -Hn"], { encoding: "utf8" }).stdout);
const skip =
  !isRoot || !hasTun
    ? "needs root and /dev/net/tun"
    : descriptors < EACH + 100
      ? `needs ${EACH + 100} descriptors a program (ulimit -Hn says ${descriptors})`
      : false;

t.setTimeout(400_000);

t.test("T35 20,000 connections at the same time: each one is answered", { skip }, async (t) => {
  const pair = await TunnelPair.open({ outer: "ipv4" });
  t.teardown(() => pair.close());
  pair.greet("gateway", "10.99.0.2");
  const programs = servers.map(({ port }) =>
    spawn("nsenter", [
      `--net=/run/netns/${pair.namespaces.agent}`,
      process.execPath,
      program,
      "serve",
      `${port}`,
    ]),
  );
  t.teardown(() => programs.forEach((each) => each.kill("SIGKILL")));
  await Promise.all(servers.map(({ port }) => pair.waitForListener("agent", port)));
  const folder = mkdtempSync(join(tmpdir(), "xylem-many-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const dials = servers.map(({ port, address }) => {
    const argv = ["dial", address, `${port}`, `${EACH}`, folder, `${servers.length}`];
    return pair.start("gateway", [program, ...argv]);
  });
  const answered = await Promise.all(dials);
  t.strictSame(
    answered.map((text) => Number(text)),
    [EACH, EACH],
  );
});
