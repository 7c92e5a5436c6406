/** Writes down what every machine of a lab looked like when a test failed. */

import { cpSync, existsSync, lstatSync, writeFileSync } from "node:fs";

import type { Namespace } from "./namespace.ts";

const views: readonly (readonly string[])[] = [
  ["ip", "-s", "addr"],
  ["ip", "-4", "route", "show", "table", "all"],
  ["ip", "-6", "route", "show", "table", "all"],
  ["ip", "rule"],
  ["nft", "list", "ruleset"],
  ["conntrack", "-L"],
  ["ss", "-anp"],
];

/** Bytes of a log file beyond which it is left out: a runaway log explains nothing and fills the disk. */
const logBytesMax = 4 * 1024 * 1024;

export interface EvidencePlace {
  readonly dir: string;
  /** The folder that goes with the lab; machines keep their /var/log there. */
  readonly ram: string;
}

/** Writes one text a machine into the folder, with a copy of its /var/log; a view that fails says so in its place. */
export const writeEvidence = async (
  { dir, ram }: EvidencePlace,
  namespaces: readonly Namespace[],
): Promise<void> => {
  for (const namespace of namespaces) {
    const parts: string[] = [];
    for (const argv of views) {
      const { stdout, stderr } = await namespace.run(argv, { check: false });
      parts.push(`# ${argv.join(" ")}\n${stdout}${stderr}`);
    }
    writeFileSync(`${dir}/${namespace.machine}.txt`, parts.join("\n"));
    const logs = `${ram}/${namespace.machine}/var-log`;
    if (existsSync(logs))
      cpSync(logs, `${dir}/${namespace.machine}-var-log`, { recursive: true, filter: isWorthIt });
  }
};

const isWorthIt = (path: string): boolean => {
  const state = lstatSync(path);
  return state.isDirectory() || (state.isFile() && state.size <= logBytesMax);
};
