/** Finds programs that the machine has already, in exactly the version that the lab would build. */

import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "#netsim/lab/process.ts";

/** One program, and how to learn its version. */
export interface MachineProgram {
  readonly name: string;
  /** As a whole word of what `ask` prints; a leading v and a build suffix (+...) don't count. */
  readonly version: string;
  /** The command that prints the version of the program at a path. Default: `PATH --version`. */
  readonly ask?: (path: string) => readonly [string, ...string[]];
}

/** A program that tells no useful version itself carries that of its Go module. */
export const moduleVersion = (path: string): readonly [string, ...string[]] => [
  "go",
  "version",
  "-m",
  path,
];

const plain = (word: string): string => word.replace(/^v/, "").split("+")[0] ?? "";

async function isRight(program: MachineProgram, path: string): Promise<boolean> {
  const isThere = await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
  if (!isThere) return false;
  const argv = program.ask?.(path) ?? ([path, "--version"] as const);
  const { code, stdout } = await runCommand(argv, { check: false }).catch(() => ({
    code: 1,
    stdout: "",
  }));
  return code === 0 && stdout.split(/\s/).some((word) => plain(word) === plain(program.version));
}

const foldersOf = (searchPath: string): string[] =>
  searchPath.split(":").filter((folder) => folder.startsWith("/"));

/** The first folder of a search path (as in $PATH) that has every one of these programs; null: none has. */
export async function findFolder(
  programs: readonly MachineProgram[],
  searchPath: string,
): Promise<string | null> {
  for (const folder of foldersOf(searchPath)) {
    let has = programs.length > 0;
    for (const program of programs) {
      has &&= await isRight(program, join(folder, program.name));
    }
    if (has) return folder;
  }
  return null;
}

/** Where on a search path each of these programs is, by name; null: one is nowhere. */
export async function findEach(
  programs: readonly MachineProgram[],
  searchPath: string,
): Promise<ReadonlyMap<string, string> | null> {
  const found = new Map<string, string>();
  for (const program of programs) {
    const folder = await findFolder([program], searchPath);
    if (folder === null) return null;
    found.set(program.name, join(folder, program.name));
  }
  return found;
}
