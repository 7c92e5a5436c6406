/** The test's handle of a tunnel end that runs in a namespace of the lab (end-process.ts). */

import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { DeviceEvent, DeviceStats } from "#src/model/device.ts";
import type { EndCall, EndDesiredWire } from "./end-process.ts";
import type { Lab } from "./lab.ts";
import type { Running } from "./process.ts";
import { waitFor } from "./wait.ts";

export interface EndReport {
  readonly writes: number;
  readonly operations: readonly string[];
  readonly errors: readonly { readonly code: string; readonly message: string }[];
}

/** An event with the time at which the test heard it. */
export type HeardEvent = DeviceEvent & { readonly atMs: number };

interface Answer {
  readonly id?: number;
  readonly result?: unknown;
  readonly error?: { readonly message: string; readonly code?: string };
  readonly event?: DeviceEvent;
}

interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

export class End {
  readonly machine: string;
  readonly running: Running;
  readonly events: HeardEvent[] = [];
  readonly #socket: Socket;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;

  constructor(machine: string, running: Running, socket: Socket) {
    this.machine = machine;
    this.running = running;
    this.#socket = socket;
    createInterface({ input: socket }).on("line", (line) => this.#hear(JSON.parse(line) as Answer));
    socket.on("error", () => undefined);
    socket.on("close", () => {
      for (const { reject } of this.#pending.values())
        reject(new Error(`the tunnel end on ${machine} is gone`));
      this.#pending.clear();
    });
  }

  async apply(desired: EndDesiredWire): Promise<EndReport> {
    return (await this.#call({ call: "apply", desired })) as EndReport;
  }

  async stats(): Promise<DeviceStats> {
    const stats = await this.#call({ call: "stats" });
    if (stats === null) throw new Error(`${this.machine} has no device`);
    return stats as DeviceStats;
  }

  /** Removes everything of ours from the namespace, then ends the program. */
  async close(): Promise<void> {
    if (this.running.isRunning()) await this.#call({ call: "close" });
    await this.kill();
  }

  /** Ends the program as a crash does. */
  async kill(): Promise<void> {
    this.running.kill("SIGKILL");
    await this.running.exited;
    this.#socket.destroy();
  }

  #call(call: EndCall): Promise<unknown> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#socket.write(`${JSON.stringify({ id, ...call })}\n`);
    });
  }

  #hear({ id, result, error, event }: Answer): void {
    if (event !== undefined) this.events.push({ ...event, atMs: performance.now() });
    if (id === undefined) return;
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (error === undefined) pending?.resolve(result);
    else pending?.reject(Object.assign(new Error(error.message), { code: error.code }));
  }
}

/** Starts a tunnel end in a machine's network namespace; it holds nothing until `apply`. */
export const startEnd = async (lab: Lab, machine: string): Promise<End> => {
  const path = join(lab.dir, `end-${machine}.sock`);
  const script = join(import.meta.dirname, "end-process.ts");
  const running = lab.namespace(machine).spawn([process.execPath, script, path], {
    log: `end-${machine}.log`,
    cwd: join(import.meta.dirname, "../.."),
  });
  const socket = await waitFor(`the tunnel end on ${machine} listens`, async () => {
    if (!running.isRunning()) throw new Error(`it has ended; see ${running.log}`);
    return dial(path);
  });
  return new End(machine, running, socket);
};

const dial = (path: string): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.once("connect", () => resolve(socket));
    socket.once("error", reject);
  });
