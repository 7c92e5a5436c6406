/** Command line options that the programs share: one spelling, one check, one default each. */

import { type Command, InvalidArgumentError, Option } from "commander";
import type { LogLevel } from "./log.ts";

/** The longest interface name that Linux takes, in bytes (IFNAMSIZ - 1). */
const INTERFACE_NAME_MAX = 15;

/** Makes a parser for a whole number in a closed range. */
export const wholeNumber =
  (range: { readonly from: number; readonly to: number }) =>
  (text: string): number => {
    const value = Number(text);
    if (text.trim() === "" || !Number.isInteger(value) || value < range.from || value > range.to) {
      throw new InvalidArgumentError(`give a whole number from ${range.from} to ${range.to}.`);
    }
    return value;
  };

const interfaceName = (text: string): string => {
  if (!/^[A-Za-z0-9_.-]+$/.test(text) || text.length > INTERFACE_NAME_MAX) {
    throw new InvalidArgumentError(
      `give 1 to ${INTERFACE_NAME_MAX} letters, digits, dots or dashes.`,
    );
  }
  return text;
};

export interface TunnelEndOptions {
  readonly interface: string;
  readonly offload: boolean;
  readonly statusAddress: string;
  readonly statusPort: number;
  readonly logLevel: LogLevel;
}

/** Adds the option that sets how much is logged. */
export const addLogLevel = (command: Command): Command =>
  command.addOption(
    new Option("--log-level <level>", "least level to log")
      .choices(["debug", "info", "warn", "error"])
      .default("info"),
  );

/** Adds where the status server listens; `port` is the default of --status-port. */
export const addStatusOptions = (command: Command, port: number): Command =>
  command
    .option(
      "--status-address <ip>",
      "where /healthz, /readyz, /metrics and /status listen",
      "127.0.0.1",
    )
    .option(
      "--status-port <port>",
      "port of them, 0: any",
      wholeNumber({ from: 0, to: 65_535 }),
      port,
    );

/** Adds what gateway and agent have in common; `statusPort` is the default of --status-port. */
export const addTunnelEndOptions = (command: Command, statusPort: number): Command =>
  addLogLevel(
    addStatusOptions(
      command
        .option("--interface <name>", "name of the TUN interface", interfaceName, "xylem0")
        .option("--no-offload", "do without segmentation offloads, to look for a fault in them"),
      statusPort,
    ),
  );
