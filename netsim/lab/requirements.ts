/** What a lab needs of the machine that runs it, checked before anything is made. */

import { accessSync, constants } from "node:fs";

/** The programs that a lab runs, and Debian's package of each. */
const programs: Readonly<Record<string, string>> = {
  bash: "bash",
  conntrack: "conntrack",
  ip: "iproute2",
  mount: "mount",
  nft: "nftables",
  nsenter: "util-linux",
  setpriv: "util-linux",
  sysctl: "procps",
  unshare: "util-linux",
};

/** Where programs are looked for when PATH lacks the folders of root. */
const rootFolders = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"];

export interface Surroundings {
  /** As in the environment. */
  readonly path: string;
  /** Null: this system has no user numbers. */
  readonly userId: number | null;
}

/** This process's own surroundings. */
export const surroundingsNow = (): Surroundings => ({
  path: [process.env["PATH"] ?? "", ...rootFolders].join(":"),
  userId: process.getuid?.() ?? null,
});

/** What is missing, one sentence each with what to do; empty when a lab can be opened. */
export const missingForLab = ({ path, userId }: Surroundings): string[] => {
  const missing = Object.entries(programs)
    .filter(([program]) => !path.split(":").some((folder) => isExecutable(`${folder}/${program}`)))
    .map(([program, pack]) => `The program "${program}" is missing: install the package ${pack}.`);
  if (userId !== 0)
    missing.unshift("A lab needs root, for it makes network namespaces: run this as root.");
  return missing;
};

const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};
