/** Keeps a gateway's slot in a file of a folder that outlives the container (an emptyDir). */

import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { HostError } from "#src/ports/host-error.ts";
import type { SlotMemory } from "#src/ports/slot-memory.ts";

/** Remembers in `path`; missing folders are made. */
export const slotMemoryFile = (path: string): SlotMemory => ({
  read: () => readFile(path, "utf8").catch(() => null),
  write: async (text) => {
    try {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(`${path}.new`, text, { mode: 0o600 });
      await rename(`${path}.new`, path);
    } catch (cause) {
      throw new HostError("io", `${path} can't be written: mount a writable folder there.`, {
        cause,
      });
    }
  },
  forget: () => rm(path, { force: true }).catch(() => undefined),
});

/** Remembers nothing over a restart of the process. */
export const slotMemoryNone = (): SlotMemory => {
  let held: string | null = null;
  return {
    read: () => Promise.resolve(held),
    write: (text) => {
      held = text;
      return Promise.resolve();
    },
    forget: () => {
      held = null;
      return Promise.resolve();
    },
  };
};
