import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { fileURLToPath } from "node:url";

import t from "tap";

import { startCapture, countPackets } from "./capture.ts";
import { hostDifferences, listNamespaces } from "./host-state.ts";
import { LabLeakError, openLab, removeLeftovers } from "./lab.ts";
import { isMountPoint, labNames, ledgerRoot, readResources } from "./ledger.ts";
import { ping } from "./ping.ts";
import { isAlive, runCommand, spawnCommand } from "./process.ts";
import type { Topology } from "./topology.ts";
import { waitFor } from "./wait.ts";

if (process.getuid?.() !== 0) {
  t.pass("all tests of this file", { skip: "needs root: they make network namespaces" });
  process.exit(0);
}
t.setTimeout(120_000);

const pair = (name: string): Topology => ({
  name,
  networks: { lan: { ranges: ["10.78.0.0/28"] } },
  machines: {
    a: { interfaces: { eth0: { network: "lan", addresses: ["10.78.0.1/28"] } } },
    b: { interfaces: { eth0: { network: "lan", addresses: ["10.78.0.2/28"] } } },
  },
});
const namespacesOf = (name: string): string[] =>
  listNamespaces().filter((each) => each.startsWith(`xy-${name}-`));

void t.test("nothing is left after close, and closing twice is once", async (t) => {
  const lab = await openLab(pair("test-close"));
  lab.namespace("a").spawn(["sleep", "1000"], { log: "sleep.log" });
  t.equal(namespacesOf("test-close").length, 3);
  await lab.close();
  await lab.close();
  t.same(namespacesOf("test-close"), []);
  t.notOk(existsSync(lab.dir));
  t.notOk(labNames().includes("test-close"));
});

void t.test("two labs with the same ranges run side by side", async (t) => {
  const [one, two] = await Promise.all([openLab(pair("test-one")), openLab(pair("test-two"))]);
  const reports = await Promise.all(
    [one, two].map((lab) => ping(lab.namespace("a"), "10.78.0.2", { count: 1 })),
  );
  t.same(
    reports.map(({ received }) => received),
    [1, 1],
  );
  await Promise.all([one.close(), two.close()]);
});

void t.test(
  "there is room for the file watches of several clusters while a lab is open",
  async (t) => {
    const limit = "/proc/sys/fs/inotify/max_user_instances";
    try {
      accessSync(limit, constants.W_OK);
    } catch {
      t.pass("the limit can't be raised", { skip: `${limit} is read-only on this machine` });
      return;
    }
    const lab = await openLab(pair("test-room"));
    t.ok(Number(readFileSync(limit, "utf8")) >= 1_024);
    await lab.close();
  },
);

void t.test("a lab whose name begins with another's is no leak of that one", async (t) => {
  const short = await openLab(pair("test-name"));
  const long = await openLab(pair("test-name-longer"));
  await t.resolves(short.close());
  await t.resolves(long.close());
});

void t.test("a name that a living process uses is refused", async (t) => {
  const lab = await openLab(pair("test-twice"));
  await t.rejects(openLab(pair("test-twice")), {
    message: /"test-twice" is in use by process \d+/,
  });
  await lab.close();
});

void t.test("a topology that can't be built leaves nothing behind", async (t) => {
  const topology = pair("test-broken");
  const routes = [{ to: "default", via: "203.0.113.77" }];
  const broken = { ...topology, machines: { ...topology.machines, c: { interfaces: {}, routes } } };
  await t.rejects(openLab(broken), { name: "CommandError" });
  t.same(namespacesOf("test-broken"), []);
  t.notOk(labNames().includes("test-broken"));
});

void t.test("the leak check finds what was planted", async (t) => {
  await t.test("a process that its parent has left behind", async (t) => {
    const lab = await openLab(pair("test-stray"));
    await lab.namespace("a").run(["bash", "-c", "setsid sleep 987 >/dev/null 2>&1 </dev/null &"]);
    const error = await lab.close().then(
      () => null,
      (cause: unknown) => cause,
    );
    t.ok(error instanceof LabLeakError);
    t.match(error, { leaks: [/still ran in a namespace \(process\): \d+ .*sleep 987/] });
    t.same(namespacesOf("test-stray"), [], "and ends it all the same");
  });
  await t.test("a namespace and a mount that nobody recorded", async (t) => {
    const lab = await openLab(pair("test-planted"), { keep: true });
    const extra = "xy-test-planted-extra";
    await runCommand(["ip", "netns", "add", extra]);
    mkdirSync(`${lab.dir}/mounted`);
    await runCommand(["mount", "-t", "tmpfs", "tmpfs", `${lab.dir}/mounted`]);
    const error = await lab.close().then(
      () => null,
      (cause: unknown) => cause,
    );
    t.ok(error instanceof LabLeakError);
    t.match(error, {
      leaks: [`left behind (mount): ${lab.dir}/mounted`, `left behind (namespace): ${extra}`],
    });
    await runCommand(["ip", "netns", "del", extra]);
    await runCommand(["umount", `${lab.dir}/mounted`]);
    rmSync(lab.dir, { recursive: true });
  });
  await t.test("a link of the host that came, and a route that went", (t) => {
    const before = { link: ["1: lo"], route: ["default via 10.0.0.1"] };
    const now = { link: ["1: lo", "7: xy0"], route: [] };
    t.same(hostDifferences(before, now), [
      "left behind (link): 7: xy0",
      "lost (route): default via 10.0.0.1",
    ]);
    t.end();
  });
});

void t.test("what the caller records goes with the lab", async (t) => {
  const lab = await openLab(pair("test-record"));
  const path = `${lab.dir}/extra`;
  lab.record({ kind: "mount", path });
  mkdirSync(path);
  await runCommand(["mount", "-t", "tmpfs", "tmpfs", path]);
  await lab.close();
  t.notOk(isMountPoint(path) || existsSync(path));
});

void t.test(
  "after kill -9 no program goes on, and the next run removes what is left",
  async (t) => {
    const dir = t.testdir();
    const script = fileURLToPath(new URL("lab.ts", import.meta.url));
    const machine = fileURLToPath(new URL("machine.ts", import.meta.url));
    const program = `
    const { openLab } = await import(${JSON.stringify(script)});
    const { startMachine } = await import(${JSON.stringify(machine)});
    const lab = await openLab(${JSON.stringify(pair("test-crash"))});
    const sleeper = lab.namespace("a").spawn(["sleep", "1001"], { log: "sleep.log" });
    const b = await startMachine(lab, "b");
    console.log(JSON.stringify({ pids: [sleeper.pid, b.initPid], dir: lab.dir }));
    setInterval(() => {}, 1000);`;
    const owner = spawnCommand([process.execPath, "--input-type=module", "-e", program], {
      log: `${dir}/owner.log`,
    });
    const crashed = await waitFor("the lab is up", () => {
      const said: { pids: number[]; dir: string } = JSON.parse(readFileSync(owner.log, "utf8"));
      return said;
    });
    owner.kill("SIGKILL");
    await owner.exited;
    await waitFor("its programs end with it", () => crashed.pids.every((pid) => !isAlive(pid)));
    t.equal(namespacesOf("test-crash").length, 3, "namespaces do not end by themselves");
    const cgroups = readResources("test-crash").flatMap((each) =>
      each.kind === "cgroup" ? [each.path] : [],
    );
    t.ok(cgroups.length > 0 && cgroups.every((path) => existsSync(path)));

    t.ok((await removeLeftovers()).includes("test-crash"));
    t.same(namespacesOf("test-crash"), []);
    t.notOk(existsSync(crashed.dir));
    t.notOk(isMountPoint(`${crashed.dir}/ram`));
    t.notOk(cgroups.some((path) => existsSync(path)));
    t.notOk(labNames().includes("test-crash"));
  },
);

void t.test("opening a lab first removes a crashed one of the same name", async (t) => {
  const name = "test-reopen";
  mkdirSync(`${ledgerRoot}/${name}`, { recursive: true });
  // Process 1 lives, but it did not start at tick 1: a number that is in use again is no owner.
  writeFileSync(`${ledgerRoot}/${name}/owner.json`, JSON.stringify({ pid: 1, startTicks: "-1" }));
  writeFileSync(
    `${ledgerRoot}/${name}/resources.jsonl`,
    '{"kind":"namespace","name":"xy-test-reopen-old"}\n{"kind":"na',
  );
  await runCommand(["ip", "netns", "add", "xy-test-reopen-old"]);
  const lab = await openLab(pair(name));
  t.notOk(namespacesOf(name).includes("xy-test-reopen-old"));
  await lab.close();
});

void t.test("evidence keeps the folder with each machine's state, logs and captures", async (t) => {
  const lab = await openLab(pair("test-evidence"));
  const capture = await startCapture(lab, "b", { filter: "icmp" });
  await ping(lab.namespace("a"), "10.78.0.2", { count: 3, intervalMs: 20 });
  await capture.stop();
  t.equal(await countPackets(lab, capture.file, "icmp"), 6);
  mkdirSync(`${lab.ram}/a/var-log/pods`, { recursive: true });
  writeFileSync(`${lab.ram}/a/var-log/pods/web.log`, "served");
  const dir = await lab.evidence();
  await lab.close();
  t.same(readdirSync(dir).sort(), ["a-var-log", "a.txt", "b.txt", "capture", "log", "switch.txt"]);
  t.match(readFileSync(`${dir}/b.txt`, "utf8"), /10\.78\.0\.2\/28/);
  t.equal(
    readFileSync(`${dir}/a-var-log/pods/web.log`, "utf8"),
    "served",
    "although it was in RAM",
  );
  rmSync(dir, { recursive: true });
});

void t.test("a program that does not end in time is killed with its children", async (t) => {
  await t.rejects(runCommand(["bash", "-c", "sleep 1002 & sleep 1002"], { timeoutMs: 100 }), {
    message: /did not end within 100 ms/,
  });
});

void t.test("a program that is not installed is named", async (t) => {
  await t.rejects(runCommand(["no-such-program"]), { message: /no-such-program/ });
});
