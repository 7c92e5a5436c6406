/** One open TCP connection across the tunnel whose server speaks only when told, for streams that fall silent. */

import { readFileSync } from "node:fs";
import type { Lab } from "./lab.ts";
import type { Namespace } from "./namespace.ts";
import type { Running } from "./process.ts";
import { waitFor } from "./wait.ts";

const PORT = 7300;

const readLog = ({ log }: Running): string => readFileSync(log, "utf8");

/** Says what it is told on its FIFO to the one client it has; half a kilobyte of source, run by Node. */
const serverSource = `
const { createServer } = require("node:net");
const { createReadStream } = require("node:fs");
const [address, port, fifo] = process.argv.slice(1);
createServer((socket) => {
  socket.on("error", (e) => console.log("server error " + e.code));
  console.log("client " + socket.remoteAddress + ":" + socket.remotePort);
  const listen = () => createReadStream(fifo).on("data", (d) => socket.write(d)).on("close", listen);
  listen();
}).listen(Number(port), address, () => console.log("listening"));
`;

const clientSource = `
const { connect } = require("node:net");
const [address, port] = process.argv.slice(1);
const socket = connect(Number(port), address, () => { console.log("connected"); socket.write("hello\\n"); });
socket.on("data", (d) => process.stdout.write("heard " + d));
socket.on("error", (e) => console.log("client error " + e.code));
socket.on("close", () => console.log("closed"));
`;

export interface Stream {
  /** Makes the server write one line. */
  readonly say: (line: string) => Promise<void>;
  /** Resolves when the client has heard the line. */
  readonly heard: (line: string, timeoutMs: number) => Promise<void>;
  /** What the client has printed: connects, errors, closes. */
  readonly clientLog: () => string;
  readonly stop: () => Promise<void>;
}

/** Connects from one machine to another's address and leaves the connection open and silent. */
export const openStream = async (
  lab: Lab,
  ends: { readonly from: Namespace; readonly to: Namespace; readonly address: string },
): Promise<Stream> => {
  const { from, to, address } = ends;
  const fifo = `${lab.dir}/talker-${to.machine}.fifo`;
  await to.run(["mkfifo", fifo]);
  const start = (where: Namespace, source: string, args: readonly string[], log: string): Running =>
    where.spawn([process.execPath, "-e", source, ...args], { log });
  const server = start(
    to,
    serverSource,
    [address, `${PORT}`, fifo],
    `stream-server-${to.machine}.log`,
  );
  const prints = (program: Running, text: string, timeoutMs: number): Promise<boolean> =>
    waitFor(`${program.log} says "${text}"`, () => readLog(program).includes(text), { timeoutMs });
  await prints(server, "listening", 30_000);
  const client = start(from, clientSource, [address, `${PORT}`], `stream-client-${to.machine}.log`);
  await prints(client, "connected", 30_000);
  return {
    say: async (line) => {
      await to.run(["bash", "-c", `echo "$0" > "$1"`, line, fifo]);
    },
    heard: async (line, timeoutMs) => {
      await prints(client, `heard ${line}`, timeoutMs);
    },
    clientLog: () => readLog(client),
    stop: async () => {
      await Promise.all([client.stop(1_000), server.stop(1_000)]);
    },
  };
};
