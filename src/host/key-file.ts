/** A node's private key in a file that never leaves the node: made when missing, readable by its owner only. */

import { randomUUID } from "node:crypto";
import { link, mkdir, open, readFile, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import { type PrivateKey, parsePrivateKey } from "#src/model/key.ts";
import { HostError } from "#src/ports/host-error.ts";
import type { Random } from "#src/ports/random.ts";

const KEY_BYTES = 32;
const OWNER_ONLY = 0o600;

const keyFrom = (bytes: Uint8Array, file: string): PrivateKey => {
  const key = parsePrivateKey(bytes);
  if (key.ok) return key.value;
  throw new HostError(
    "bad-key-file",
    `key file ${file} does not hold a private key (${key.problem}): move it away and restart; the agent then makes a new one`,
  );
};

/** Codes worth their own sentence when the key can't be kept. */
const fileError = (cause: unknown, file: string): HostError => {
  const code = (cause as NodeJS.ErrnoException).code ?? "EIO";
  return new HostError(
    "key-file-unusable",
    `key file ${file} can't be read or written (${code}): mount a writable directory for it or give another with --key-file`,
    { cause },
  );
};

/** Writes beside the file and links it into place, so that two starts at once agree on one key. */
const makeKeyFile = async (file: string, random: Random): Promise<void> => {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomUUID()}.new`;
  const handle = await open(draft, "w", OWNER_ONLY);
  try {
    await handle.writeFile(`${Buffer.from(random.bytes(KEY_BYTES)).toString("base64")}\n`);
    await handle.sync();
    await link(draft, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  } finally {
    await handle.close();
    await unlink(draft);
  }
};

/** Reads the key, making it first when the file is missing. Throws HostError `bad-key-file`, `key-file-unusable`. */
export const loadKeyFile = async (file: string, random: Random): Promise<PrivateKey> => {
  const read = (): Promise<string> => readFile(file, "utf8");
  const text = await read().catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw fileError(error, file);
    await makeKeyFile(file, random).catch((cause: unknown) => {
      throw fileError(cause, file);
    });
    return read();
  });
  return keyFrom(Buffer.from(text.trim(), "base64"), file);
};
