/** What a program of this machine needs to run elsewhere: its loader and libraries, as ldd(1) finds them. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

/**
 * Answers the libraries of programs and of what they load later, by path in an image (no leading slash). The loader looks
 * for them where this machine has them, so they keep their places.
 */
export const sharedLibraries = async (
  programs: readonly string[],
): Promise<Readonly<Record<string, string>>> => {
  const lists = await Promise.all(programs.map(librariesOf));
  return Object.fromEntries(
    [...new Set(lists.flat())].toSorted().map((path) => [path.replace(/^\//u, ""), path]),
  );
};

const librariesOf = async (program: string): Promise<readonly string[]> => {
  const { stdout } = await run("ldd", [program], { env: { LC_ALL: "C", PATH: "/usr/bin:/bin" } });
  return stdout.split("\n").flatMap((line) => {
    if (line.includes("not found")) {
      throw new Error(`${program} can't run on this machine: ${line.trim()}`);
    }
    return /(\/\S+) \(0x/u.exec(line)?.[1] ?? [];
  });
};
