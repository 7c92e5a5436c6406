/** Interfaces of this network namespace on which a packet's source must lead back to it (rp_filter 1, RFC 3704). */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

const STRICT = 1;
/** Not interfaces, or one that no stranger's packet comes from. */
const OTHERS = ["all", "default", "lo"];

/** `own`: our interface, which is somebody else's affair. The kernel takes the larger of an interface's value and `all`. */
export const strictInterfaces = async (
  own: string,
  folder = "/proc/sys/net/ipv4/conf",
): Promise<readonly string[]> => {
  const names = await readdir(folder).catch(() => []);
  const all = await readFilter(folder, "all");
  const found = await Promise.all(
    names
      // Sysctl names can not say a dot in an interface's name.
      .filter((name) => name !== own && !OTHERS.includes(name) && !name.includes("."))
      .map(async (name) => ({ name, filter: await readFilter(folder, name) })),
  );
  return found
    .filter(({ filter }) => Math.max(filter, all) === STRICT)
    .map(({ name }) => name)
    .toSorted();
};

/** An interface that goes while it is looked at filters nothing. */
const readFilter = async (folder: string, name: string): Promise<number> => {
  const text = await readFile(join(folder, name, "rp_filter"), "utf8").catch(() => "0");
  return Number(text.trim());
};
