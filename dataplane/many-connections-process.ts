/**
 * Holds many TCP connections at the same time, for tests: `serve PORT` answers each byte with itself, `dial ADDRESS PORT
 * COUNT FOLDER PROGRAMS` opens all, says one byte on each when so many programs with that folder have opened theirs, and
 * prints how many were answered.
 */

import { readdirSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";

/** Connections that are being made at the same time. */
const PARALLEL = 100;

const serve = (port: number): void => {
  createServer((socket) => {
    socket.on("error", () => undefined).pipe(socket);
  }).listen({ port, host: "::", backlog: 1_024 });
};

const open = (address: string, port: number): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect(port, address, () => resolve(socket));
    socket.once("error", reject);
  });

interface Others {
  readonly folder: string;
  readonly programs: number;
}

/** Resolves when every program has come so far. */
const together = async (step: string, { folder, programs }: Others): Promise<void> => {
  writeFileSync(join(folder, `${step}-${process.pid}`), "");
  const come = (): number => readdirSync(folder).filter((name) => name.startsWith(step)).length;
  while (come() < programs) await after(20);
};

interface Target {
  readonly address: string;
  readonly port: number;
  readonly count: number;
}

const dial = async ({ address, port, count }: Target, others: Others): Promise<void> => {
  const sockets: Socket[] = [];
  let begun = 0;
  const worker = async (): Promise<void> => {
    while (begun < count) {
      begun += 1;
      sockets.push(await open(address, port));
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
  await together("opened", others);
  const answered = sockets.map(
    (socket) =>
      new Promise<void>((resolve) => {
        socket.once("data", () => resolve());
        socket.write("x");
      }),
  );
  await Promise.all(answered);
  await together("answered", others);
  process.stdout.write(`${answered.length}\n`);
  process.exit(0);
};

const [what, first = "", second = "", third = "0", folder = "", programs = "1"] =
  process.argv.slice(2);
if (what === "serve") serve(Number(first));
if (what === "dial") {
  const target = { address: first, port: Number(second), count: Number(third) };
  await dial(target, { folder, programs: Number(programs) });
}
