/** The program behind datagrams.ts, run inside a namespace: `echo PORT NAME`, or `send OPTIONS`. */

import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { setTimeout as after } from "node:timers/promises";

import type { Answer, SendOptions } from "./datagrams.ts";

interface Question {
  readonly socket: number;
  readonly sequence: number;
}

const echo = (port: number, machine: string): void => {
  const socket = createSocket("udp6"); // both families: IPv4 comes as ::ffff:a.b.c.d
  socket.on("message", (message, client) => {
    const question: Question = JSON.parse(message.toString());
    const answer = {
      ...question,
      machine,
      seenAddress: plainAddress(client.address),
      seenPort: client.port,
    };
    socket.send(JSON.stringify(answer), client.port, client.address);
  });
  socket.on("listening", () => process.stdout.write("listening\n"));
  socket.bind(port);
};

const send = async (options: SendOptions): Promise<void> => {
  const answers: Answer[] = [];
  const sockets = await Promise.all(
    Array.from({ length: options.sockets ?? 1 }, (_, index) => openSocket(options, index, answers)),
  );
  for (let sequence = 0; sequence < options.count; sequence += 1) {
    for (const [index, socket] of sockets.entries()) {
      const question: Question = { socket: index, sequence };
      socket.send(JSON.stringify(question), options.port, options.address);
    }
    await after(options.intervalMs ?? 10);
  }
  await answeredOrSilent(answers, options);
  for (const socket of sockets) socket.close();
  process.stdout.write(JSON.stringify(answers));
};

/** Resolves when all answers are here, or none came for a while. */
const answeredOrSilent = async (
  answers: readonly Answer[],
  { count, sockets = 1, waitMs = 1_500 }: SendOptions,
): Promise<void> => {
  let seen = answers.length;
  let sinceMs = performance.now();
  while (answers.length < count * sockets && performance.now() - sinceMs < waitMs) {
    await after(10);
    if (answers.length > seen) [seen, sinceMs] = [answers.length, performance.now()];
  }
};

const openSocket = async (
  options: SendOptions,
  index: number,
  answers: Answer[],
): Promise<Socket> => {
  const port = options.sourcePort === undefined ? 0 : options.sourcePort + index;
  const socket = createSocket(options.address.includes(":") ? "udp6" : "udp4");
  socket.on("message", (message, from) => {
    const said: Omit<Answer, "fromAddress" | "fromPort"> = JSON.parse(message.toString());
    answers.push({ ...said, fromAddress: from.address, fromPort: from.port });
  });
  // ICMP "unreachable" comes as an error on the next send; whoever counts answers sees the loss.
  socket.on("error", () => {});
  socket.bind(port);
  await once(socket, "listening");
  return socket;
};

function plainAddress(address: string): string {
  return address.replace(/^::ffff:/, "");
}

const [verb, first = "", second = ""] = process.argv.slice(2);
if (verb === "echo") echo(Number(first), second);
else if (verb === "send") {
  const options: SendOptions = JSON.parse(first);
  await send(options);
} else process.exitCode = 2;
