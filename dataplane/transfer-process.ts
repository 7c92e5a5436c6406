/** Sends or receives bytes over TCP and prints their hash, for tests: `receive`, or `send ADDRESS COUNT`. */

import { createHash, randomBytes } from "node:crypto";
import { connect, createServer } from "node:net";

export const TRANSFER_PORT = 9000;

const print = (digest: string): void => {
  process.stdout.write(`${digest}\n`);
};

const receive = (): void => {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const hash = createHash("sha256");
    socket.on("data", (bytes: Buffer) => hash.update(bytes));
    socket.once("end", () => {
      print(hash.digest("hex"));
      socket.end();
      server.close();
    });
  });
  server.listen(TRANSFER_PORT, "::");
};

const send = (address: string, count: number): void => {
  const bytes = randomBytes(count);
  const socket = connect(TRANSFER_PORT, address, () => socket.end(bytes));
  socket.resume().once("end", () => print(createHash("sha256").update(bytes).digest("hex")));
};

const [what, address = "", count = "0"] = process.argv.slice(2);
if (what === "receive") receive();
if (what === "send") send(address, Number(count));
