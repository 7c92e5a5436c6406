/** Options that the programs share: what is taken, what is refused, and how. */

import { Command } from "commander";
import t from "tap";
import { addLogLevel, addTunnelEndOptions, wholeNumber } from "./options.ts";

/** Parses and answers the options, or what commander would print. */
const parse = (...argv: readonly string[]): object => {
  let said = "";
  const command = addTunnelEndOptions(new Command("test"), 9446)
    .exitOverride()
    .configureOutput({ writeErr: (text) => (said += text) });
  try {
    return command.parse([...argv], { from: "user" }).opts();
  } catch {
    return { said };
  }
};

void t.test("defaults are as documented", async (t) => {
  t.strictSame(parse(), {
    interface: "xylem0",
    offload: true,
    statusAddress: "127.0.0.1",
    statusPort: 9446,
    logLevel: "info",
  });
});

void t.test("every option can be given", async (t) => {
  const argv = ["--interface", "wg-a.1", "--no-offload", "--status-address", "::1"];
  t.strictSame(parse(...argv, "--status-port", "0", "--log-level", "debug"), {
    interface: "wg-a.1",
    offload: false,
    statusAddress: "::1",
    statusPort: 0,
    logLevel: "debug",
  });
});

const REFUSED: readonly { name: string; argv: readonly string[]; want: RegExp }[] = [
  { name: "a name of 16", argv: ["--interface", "x".repeat(16)], want: /1 to 15 letters/u },
  { name: "a name with a slash", argv: ["--interface", "a/b"], want: /1 to 15 letters/u },
  { name: "an empty name", argv: ["--interface", ""], want: /1 to 15 letters/u },
  { name: "port 65536", argv: ["--status-port", "65536"], want: /from 0 to 65535/u },
  { name: "a port with a fraction", argv: ["--status-port", "1.5"], want: /whole number/u },
  { name: "an empty port", argv: ["--status-port", ""], want: /whole number/u },
  { name: "a blank port", argv: ["--status-port", " "], want: /whole number/u },
  { name: "an unknown level", argv: ["--log-level", "loud"], want: /debug, info, warn, error/u },
  { name: "an unknown option", argv: ["--fast"], want: /unknown option '--fast'/u },
];

for (const { name, argv, want } of REFUSED) {
  void t.test(`${name} is refused with what is allowed`, async (t) => {
    t.match(parse(...argv), { said: want });
  });
}

void t.test("a whole number is read in its range, ends included", async (t) => {
  const read = wholeNumber({ from: 1, to: 8 });
  t.strictSame([read("1"), read("8")], [1, 8]);
  for (const text of ["0", "9", "-1", "x", "NaN", "1e9"]) t.throws(() => read(text), /1 to 8/u);
});

void t.test("the log level alone can be added to a command", async (t) => {
  t.strictSame(addLogLevel(new Command()).parse([], { from: "user" }).opts(), { logLevel: "info" });
});
