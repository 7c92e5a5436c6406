import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";

import t from "tap";

import { type Lab, openLab } from "./lab.ts";
import { startMachine } from "./machine.ts";
import { isAlive } from "./process.ts";
import type { Topology } from "./topology.ts";
import { waitFor } from "./wait.ts";

if (process.getuid?.() !== 0) {
  t.pass("all tests of this file", { skip: "needs root: they make network namespaces" });
  process.exit(0);
}
t.setTimeout(120_000);

const lone: Topology = {
  name: "test-machine",
  networks: { lan: { ranges: ["10.77.0.0/29"] } },
  machines: {
    a: { interfaces: { eth0: { network: "lan", addresses: ["10.77.0.1/29"] } } },
    b: { interfaces: { eth0: { network: "lan", addresses: ["10.77.0.2/29"] } } },
  },
};
let lab: Lab;
t.before(async () => {
  lab = await openLab(lone);
});
t.teardown(() => lab.close());

void t.test("a machine has its own name, processes, mounts, network and cgroups", async (t) => {
  const machine = await startMachine(lab, "a");
  t.equal((await machine.run(["hostname"])).stdout.trim(), "a");
  t.match((await machine.run(["ip", "-br", "addr"])).stdout, /eth0.*10\.77\.0\.1\/29/);
  t.match(
    (await machine.run(["ls", "/sys/class/net"])).stdout,
    /eth0/,
    "/sys is of its own network",
  );
  const processes = (await machine.run(["ps", "-e", "-o", "pid="])).stdout.trim().split("\n");
  t.ok(processes.length < 8, `only its own processes: ${processes.length}`);
  const cgroups = (await machine.run(["cat", "/proc/self/cgroup"])).stdout.trim().split("\n");
  t.ok(
    cgroups.every((line) => line.endsWith(":/")),
    `each hierarchy starts at the machine: ${cgroups.join(" ")}`,
  );
  await machine.run(["touch", "/var/lib/mine", "/var/log/mine", "/run/mine"]);
  t.same(readdirSync(machine.varLib), ["mine"]);
  t.same(readdirSync(machine.varLog), ["mine"]);
  t.notOk(existsSync("/var/lib/mine") || existsSync("/run/mine"), "the host sees none of it");
  for (const kind of ["net", "mnt", "pid", "uts", "ipc", "cgroup"]) {
    t.not(
      readlinkSync(`/proc/${machine.initPid}/ns/${kind}`),
      readlinkSync(`/proc/self/ns/${kind}`),
      kind,
    );
  }
  await machine.kill();
});

void t.test(
  "a program on a machine gets argv[0], folder, environment and signals, and its exit code is told",
  async (t) => {
    const machine = await startMachine(lab, "a");
    const script = `trap 'echo ended; exit 7' TERM; echo "$PWD $GIVEN $(tr '\\0' ' ' < /proc/$$/cmdline)"; while :; do sleep 0.02; done`;
    const program = machine.spawn(["/bin/bash", "-c", script], {
      log: "program.log",
      argv0: "kubelet",
      cwd: "/tmp",
      env: { GIVEN: "yes" },
    });
    const said = (): string => readFileSync(program.log, "utf8");
    await waitFor("it speaks", () => said().includes("yes") || null);
    t.match(said(), /^\/tmp yes kubelet/);
    await program.stop(2_000);
    t.same(await program.exited, { code: 7, signal: null });
    t.match(said(), /ended/);
    await machine.kill();
  },
);

void t.test("pulling the plug ends everything on the machine, and it can boot again", async (t) => {
  const machine = await startMachine(lab, "b");
  const program = machine.spawn(["bash", "-c", "setsid sleep 1000 & disown; exec sleep 1000"], {
    log: "sleeper.log",
  });
  const pids = await waitFor("both sleep", async () => {
    const { stdout } = await lab.switch.run([
      "pgrep",
      "--ns",
      `${machine.initPid}`,
      "--nslist",
      "pid",
      "-x",
      "sleep",
    ]);
    const found = stdout.trim().split("\n").map(Number);
    return found.length >= 2 ? found : null;
  });
  await machine.kill();
  await program.exited;
  t.equal(machine.isRunning(), false);
  await waitFor("all are gone", () => pids.every((pid) => !isAlive(pid)));
  const again = await startMachine(lab, "b");
  t.equal((await again.run(["hostname"])).stdout.trim(), "b");
});

void t.test("a machine that can't boot says why", async (t) => {
  await t.rejects(startMachine(lab, "nobody"), {
    message: /There is no machine "nobody" in the lab/,
  });
});
