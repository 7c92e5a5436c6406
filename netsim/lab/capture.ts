/** Captures the packets of a machine with tcpdump(8), to be kept with the evidence of a failure. */

import { mkdirSync, readFileSync } from "node:fs";
import { setTimeout as after } from "node:timers/promises";

import type { Lab } from "./lab.ts";
import type { Running } from "./process.ts";
import { waitFor } from "./wait.ts";

const stopGraceMs = 2_000;
/** Some filters are tcpdump's own work: then the kernel counts more than is written. */
const takenMsMax = 3_000;

export interface Capture {
  /** The pcap file; complete once `stop` has resolved. */
  readonly file: string;
  stop(): Promise<void>;
}

export interface CaptureOptions {
  /** Default "any". */
  readonly interface?: string;
  /** In tcpdump's words; default: everything. */
  readonly filter?: string;
  /** Bytes kept of each packet; default 256. */
  readonly snapLength?: number;
  /** File name without folder; default: the machine and the interface. */
  readonly name?: string;
}

/** Starts to capture and resolves once tcpdump listens. */
export const startCapture = async (
  lab: Lab,
  machine: string,
  options: CaptureOptions = {},
): Promise<Capture> => {
  const folder = `${lab.dir}/capture`;
  mkdirSync(folder, { recursive: true });
  const on = options.interface ?? "any";
  const name = options.name ?? `${machine}-${on}`;
  const file = `${folder}/${name}.pcap`;
  const filter = options.filter === undefined ? [] : [options.filter];
  const size = `${options.snapLength ?? 256}`;
  // Immediate and packet-buffered: no packet waits in a buffer when it is stopped. Root: it may write into the folder.
  const argv = [
    "tcpdump",
    "-n",
    "-U",
    "--immediate-mode",
    "-Z",
    "root",
    "-s",
    size,
    "-i",
    on,
    "-w",
    file,
    ...filter,
  ];
  const program = lab.namespace(machine).spawn(argv, { log: `${name}-tcpdump.log` });
  await listening(program);
  const stop = async (): Promise<void> => {
    if (program.isRunning()) await taken(program);
    await program.stop(stopGraceMs);
  };
  return { file, stop };
};

/** The counts that tcpdump has printed so far: on SIGUSR1, and at its end. */
const countsSaid = (program: Running): readonly (readonly [captured: string, seen: string])[] =>
  [
    ...readFileSync(program.log, "utf8").matchAll(
      /(\d+) packets? captured, (\d+) packets? received by filter/g,
    ),
  ].map(([, captured = "", seen = ""]) => [captured, seen] as const);

/** Resolves when tcpdump has written what the kernel has counted for it: at its end it drops what still waits. */
const taken = async (program: Running): Promise<void> => {
  const startMs = performance.now();
  while (program.isRunning() && performance.now() - startMs < takenMsMax) {
    const before = countsSaid(program).length;
    program.kill("SIGUSR1");
    await after(20);
    const said = countsSaid(program);
    const [captured, seen] = said.at(-1) ?? [];
    if (said.length > before && captured === seen) return;
  }
};

/** How many packets of a capture match a filter. */
export const countPackets = async (lab: Lab, file: string, filter: string): Promise<number> => {
  const { stdout } = await lab.switch.run(["tcpdump", "-n", "-r", file, filter]);
  return stdout.split("\n").filter((line) => line !== "").length;
};

const listening = async (program: Running): Promise<void> => {
  await waitFor(
    "tcpdump listens",
    () => {
      const said = readFileSync(program.log, "utf8");
      if (said.includes("listening on")) return true;
      throw new Error(said);
    },
    { intervalMs: 20 },
  );
};
