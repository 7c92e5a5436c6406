/** Writes down what every machine of a lab looked like when a test failed. */

import { writeFileSync } from "node:fs";

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

/** Writes one text a machine into the folder; a view that fails says so in its place. */
export const writeEvidence = async (
  dir: string,
  namespaces: readonly Namespace[],
): Promise<void> => {
  for (const namespace of namespaces) {
    const parts: string[] = [];
    for (const argv of views) {
      const { stdout, stderr } = await namespace.run(argv, { check: false });
      parts.push(`# ${argv.join(" ")}\n${stdout}${stderr}`);
    }
    writeFileSync(`${dir}/${namespace.machine}.txt`, parts.join("\n"));
  }
};
