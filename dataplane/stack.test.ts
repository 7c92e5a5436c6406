/** A gateway without TUN, as nobody, and an agent with one: TCP through the gateway's own TCP/IP. Needs root for the namespaces. */

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import t from "tap";
import { makeBytes, SERVER_PORT } from "./stack-server-process.ts";
import { TRANSFER_PORT } from "./transfer-process.ts";
import { TunnelPair } from "./tunnel-pair.ts";

const program = fileURLToPath(new URL("stack-server-process.ts", import.meta.url));
const transfer = fileURLToPath(new URL("transfer-process.ts", import.meta.url));
const isRoot = process.getuid?.() === 0;
const hasTun = spawnSync("test", ["-c", "/dev/net/tun"]).status === 0;
const skip = isRoot && hasTun ? false : "needs root and /dev/net/tun";

const V4 = `10.99.0.2:${SERVER_PORT}`;
const V6 = `[fd99::2]:${SERVER_PORT}`;

/** The pair, a server on the agent's side, and a folder for the gateway's Unix sockets. */
class Scene {
  readonly pair: TunnelPair;
  readonly #server: ChildProcess;
  readonly #folder: string;
  #sockets = 0;

  private constructor(pair: TunnelPair) {
    this.pair = pair;
    this.#folder = mkdtempSync(join(tmpdir(), "xylem-stack-"));
    chmodSync(this.#folder, 0o777);
    const netns = `--net=/run/netns/${pair.namespaces.agent}`;
    this.#server = spawn("nsenter", [netns, process.execPath, program], { stdio: "inherit" });
  }

  static async open(options: { offload?: boolean } = {}): Promise<Scene> {
    const pair = await TunnelPair.open({ outer: "ipv4", noTun: true, ...options });
    const scene = new Scene(pair);
    try {
      await pair.waitForListener("agent", SERVER_PORT);
      return scene;
    } catch (error) {
      await scene.close();
      throw error;
    }
  }

  /** A forward on a Unix socket, which the test reaches from outside the namespace. */
  async forward(target: string, more: { userTimeoutMs?: number } = {}): Promise<string> {
    this.#sockets += 1;
    const listen = join(this.#folder, `${this.#sockets}.sock`);
    await this.pair.gateway.forward({ listen, target, ...more });
    return listen;
  }

  async close(): Promise<void> {
    await this.pair.close();
    this.#server.kill("SIGKILL");
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

interface Arrived {
  readonly count: number;
  readonly hash: string;
}

/** Reads to the end. */
const arrivalOf = async (socket: AsyncIterable<Buffer>): Promise<Arrived> => {
  const hash = createHash("sha256");
  let count = 0;
  for await (const part of socket) {
    hash.update(part);
    count += part.length;
  }
  return { count, hash: hash.digest("hex") };
};

const dial = (path: string, first: string): Socket => {
  const socket = connect({ path, allowHalfOpen: true });
  socket.write(`${first}\n`);
  return socket;
};

const give = async (path: string, count: number): Promise<Arrived> => {
  const socket = dial(path, `give ${count}`);
  const arrived = await arrivalOf(socket);
  socket.end();
  return arrived;
};

const take = async (path: string, count: number): Promise<string> => {
  const socket = dial(path, "take");
  makeBytes(count).pipe(socket);
  let answer = "";
  for await (const part of socket) answer += String(part);
  return answer;
};

/** Resolves when a socket is closed, with its error's code, or "end". */
const endOf = async (socket: Socket): Promise<string> => {
  let end = "end";
  socket.on("error", (error: NodeJS.ErrnoException) => (end = error.code ?? "error"));
  socket.resume().once("end", () => socket.end());
  await new Promise((resolve) => socket.once("close", resolve));
  return end;
};

const rate = (count: number, startedMs: number): string =>
  `${((count * 8) / 1e6 / (performance.now() - startedMs)).toFixed(2)} Gbit/s`;

const until = async (condition: () => Promise<boolean> | boolean): Promise<boolean> => {
  for (let tries = 0; tries < 1_500; tries += 1) {
    if (await condition()) return true;
    await after(20);
  }
  return false;
};

const BULK = 50_000_000;

t.setTimeout(120_000);

t.test("a gateway without TUN", { skip }, async (t) => {
  const bulk = await arrivalOf(makeBytes(BULK));

  t.test("runs as nobody, without capabilities and without /dev/net/tun", async (t) => {
    const scene = await Scene.open();
    t.teardown(() => scene.close());
    const { pid = 0 } = scene.pair.gateway.child;
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    t.match(status, /^Uid:\t65534\t65534\t65534\t65534$/mu);
    for (const set of ["Inh", "Prm", "Eff", "Bnd", "Amb"]) {
      t.match(status, new RegExp(`^Cap${set}:\\t0{16}$`, "mu"));
    }
    t.notOk(existsSync(`/proc/${pid}/root/dev/net/tun`));
    t.equal(scene.pair.run("gateway", ["ip", "-br", "link"]).stdout.includes("xylem0"), false);
    t.equal((await scene.pair.gateway.stats()).interface, "");
  });

  for (const offload of [true, false]) {
    for (const target of [V4, V6]) {
      const name = `${target} with offloads ${offload ? "on" : "off"}`;
      t.test(`carries 50 MB unharmed both ways to ${name}`, async (t) => {
        const scene = await Scene.open({ offload });
        t.teardown(() => scene.close());
        const path = await scene.forward(target);
        let started = performance.now();
        t.strictSame(await give(path, BULK), bulk);
        t.comment(`down ${rate(BULK, started)}`);
        started = performance.now();
        t.equal(await take(path, BULK), bulk.hash);
        t.comment(`up ${rate(BULK, started)}`);
        const { counters } = await scene.pair.gateway.stats();
        t.equal(counters["mss_clamped"], 0, "the stack says the right segment size by itself");
      });
    }
  }

  t.test("listens on loopback TCP too", async (t) => {
    const scene = await Scene.open();
    t.teardown(() => scene.close());
    const listen = `127.0.0.1:${TRANSFER_PORT}`;
    const port = await scene.pair.gateway.forward({ listen, target: `10.99.0.2:${TRANSFER_PORT}` });
    t.equal(port, TRANSFER_PORT);
    const arrived = scene.pair.start("agent", [transfer, "receive"]);
    await scene.pair.waitForListener("agent", TRANSFER_PORT);
    const sent = await scene.pair.start("gateway", [transfer, "send", "127.0.0.1", "5000000"]);
    t.match(sent, /^[0-9a-f]{64}$/mu);
    t.equal(await arrived, sent);
    const again = scene.pair.gateway.forward({ listen, target: V4 });
    await t.rejects(again, { code: "port-in-use", message: /127\.0\.0\.1:9000 is in use/u });
    await t.rejects(scene.pair.gateway.forward({ listen: "0.0.0.0:0", target: V4 }), {
      code: "bad-config",
    });
  });

  t.test("carries 200 connections at once, half-closed each way", async (t) => {
    const scene = await Scene.open();
    t.teardown(() => scene.close());
    const path = await scene.forward(V4);
    const want = await arrivalOf(makeBytes(100_000));
    const all = Array.from({ length: 200 }, async () => {
      const socket = dial(path, "echo");
      makeBytes(100_000).pipe(socket);
      return arrivalOf(socket);
    });
    const got = await Promise.all(all);
    t.equal(got.filter((a) => a.hash === want.hash).length, 200);
  });

  t.test("tells the local side at once when nobody listens or nobody is there", async (t) => {
    const scene = await Scene.open();
    t.teardown(() => scene.close());
    for (const target of ["10.99.0.2:1", "[fd99::2]:1", "10.99.0.9:80", "[fd99::9]:80"]) {
      const path = await scene.forward(target);
      const started = performance.now();
      await endOf(connect(path));
      t.ok(performance.now() - started < 8_000, `${target} took no time-out`);
    }
    t.match((await scene.pair.gateway.stats()).counters, {
      stack_dialed: 4,
      stack_refused: 2,
      stack_unreachable: 2,
    });
  });

  t.test("tells the local side of a reset, in the middle of a stream", async (t) => {
    const scene = await Scene.open();
    t.teardown(() => scene.close());
    const port = await scene.pair.gateway.forward({ listen: "127.0.0.1:0", target: V4 });
    const dialTcp = ["bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/${port}; echo reset >&3; cat <&3`];
    const { status, stderr } = scene.pair.run("gateway", ["timeout", "30", ...dialTcp]);
    t.equal(status, 1);
    t.match(stderr, /Connection reset by peer/u);
  });

  t.test("T1 a reader that stands still stops nobody else, and loses nothing", async (t) => {
    const scene = await Scene.open();
    t.teardown(() => scene.close());
    const path = await scene.forward(V4);
    const slow = dial(path, `give ${BULK}`);
    await new Promise((resolve) => slow.once("readable", resolve));
    for (let round = 0; round < 3; round += 1) {
      t.strictSame(await give(path, BULK), bulk);
    }
    t.ok(slow.bytesRead < BULK / 2, "the slow one stood still");
    t.strictSame(await arrivalOf(slow), bulk);
    slow.end();
  });

  t.test("keeps a stream over the agent's death and return", async (t) => {
    const scene = await Scene.open();
    t.teardown(() => scene.close());
    const path = await scene.forward(V4);
    const stream = dial(path, `give ${BULK}`);
    await new Promise((resolve) => stream.once("readable", resolve));
    await scene.pair.restartAgent();
    t.strictSame(await arrivalOf(stream), bulk);
    stream.end();
  });

  t.test("gives a silent far end up after its time, idle or not", async (t) => {
    const scene = await Scene.open();
    t.teardown(() => scene.close());
    const path = await scene.forward(V4, { userTimeoutMs: 1500 });
    const idle = dial(path, "echo");
    idle.write("x");
    await new Promise((resolve) => idle.once("readable", resolve));
    const busy = dial(path, `give ${BULK}`);
    await new Promise((resolve) => busy.once("readable", resolve));
    const ends = Promise.all([endOf(idle), endOf(busy)]);
    await scene.pair.agent.kill();
    const started = performance.now();
    await ends;
    t.ok(performance.now() - started < 60_000, "both ended");
  });

  t.test("ends with the forward, and gives all back with the device", async (t) => {
    const scene = await Scene.open();
    t.teardown(() => scene.close());
    const { gateway } = scene.pair;
    const { pid = 0 } = gateway.child;
    const count = (what: "fd" | "task"): number => readdirSync(`/proc/${pid}/${what}`).length;
    const path = await scene.forward(V4);
    const before = count("fd");
    const sockets = Array.from({ length: 50 }, () => dial(path, "echo\nx"));
    await Promise.all(sockets.map((s) => new Promise((resolve) => s.once("readable", resolve))));
    t.ok(count("fd") >= before + 50);
    const ends = Promise.all(sockets.map((s) => endOf(s)));
    await gateway.unforward(path);
    await ends;
    t.ok(await until(() => count("fd") === before - 1), "the listener and 50 sockets are closed");
    t.notOk(existsSync(path));
    const threads = count("task");
    await gateway.close();
    t.equal(count("task"), threads - 2);
    await t.rejects(gateway.forward({ listen: path, target: V4 }), { code: "closed" });
  });
});
