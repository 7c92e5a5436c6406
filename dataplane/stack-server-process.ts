/** A TCP server for tests of the stack; a connection's first line says what it does: `echo`, `take`, `give COUNT`, `reset`. */

import { createCipheriv, createHash } from "node:crypto";
import { createServer, type Socket } from "node:net";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";

export const SERVER_PORT = 9100;

/** Bytes that both ends can make by themselves. */
export const makeBytes = (count: number): Readable => {
  const cipher = createCipheriv("aes-128-ctr", Buffer.alloc(16), Buffer.alloc(16));
  const zeros = Buffer.alloc(65_536);
  let left = count;
  return new Readable({
    read() {
      const part = cipher.update(zeros.subarray(0, Math.min(left, zeros.length)));
      left -= part.length;
      this.push(part.length === 0 ? null : part);
    },
  });
};

const obey = (socket: Socket, line: string, rest: Buffer): void => {
  const [what, count = "0"] = line.split(" ");
  if (rest.length > 0) socket.unshift(rest);
  if (what === "echo") socket.pipe(socket);
  if (what === "give") makeBytes(Number(count)).pipe(socket);
  if (what === "reset") socket.resetAndDestroy();
  if (what === "take") {
    const hash = createHash("sha256");
    socket.on("data", (bytes: Buffer) => hash.update(bytes));
    socket.once("end", () => socket.end(hash.digest("hex")));
  }
};

const serve = (): void => {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => socket.destroy());
    let first = Buffer.alloc(0);
    const read = (bytes: Buffer): void => {
      first = Buffer.concat([first, bytes]);
      const at = first.indexOf(10);
      if (at < 0) return;
      socket.off("data", read);
      socket.pause();
      obey(socket, first.toString("latin1", 0, at), first.subarray(at + 1));
      socket.resume();
    };
    socket.on("data", read);
  });
  server.listen(SERVER_PORT, "::");
};

if (process.argv[1] === fileURLToPath(import.meta.url)) serve();
