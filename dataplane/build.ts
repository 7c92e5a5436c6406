/** Builds the native data plane, or takes it from the cache when its sources were built before. Needs only Node's own modules. */

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheFolder } from "../scripts/cache-folder.ts";

const room = fileURLToPath(new URL(".", import.meta.url));
const output = join(room, "xylem.node");
const cache = join(cacheFolder(), "dataplane");

/** What the binary is made from: manifest, lock and sources, without tests. */
const sources = (): string[] => {
  const files = readdirSync(join(room, "src"), { recursive: true, encoding: "utf8" });
  const rust = files.filter((name) => name.endsWith(".rs") && !name.endsWith("_test.rs"));
  return [
    "Cargo.toml",
    "Cargo.lock",
    "build.rs",
    ...rust.map((name) => join("src", name)),
  ].toSorted();
};

const fail = (message: string): never => {
  process.stderr.write(`dataplane: ${message}\n`);
  process.exit(1);
};

const compilerVersion = (): string => {
  const { status, stdout } = spawnSync("rustc", ["-vV"], { encoding: "utf8" });
  return status === 0 ? stdout : fail("rustc was not found: install Rust 1.88 or newer.");
};

const hash = createHash("sha256").update(compilerVersion());
for (const name of sources()) hash.update(`\0${name}\0`).update(readFileSync(join(room, name)));
const id = hash.digest("hex").slice(0, 32);
const built = join(cache, id, "xylem.node");

/** Puts the file there in one step, so that a reader never sees half of it. */
const place = (from: string, to: string): void => {
  const partial = `${to}.${process.pid}`;
  copyFileSync(from, partial);
  renameSync(partial, to);
};

const build = (): void => {
  const target = join(cache, "target");
  mkdirSync(join(cache, id), { recursive: true });
  const started = Date.now();
  const args = ["build", "--release", "--locked", "--lib", "--features", "node"];
  const { status } = spawnSync("cargo", args, {
    cwd: room,
    env: { ...process.env, CARGO_TARGET_DIR: target },
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (status !== 0) {
    rmSync(join(cache, id), { recursive: true, force: true });
    fail("cargo build failed; its output is above.");
  }
  place(join(target, "release", "libxylem_dataplane.so"), built);
  const seconds = ((Date.now() - started) / 1000).toFixed(0);
  process.stderr.write(`dataplane: built ${id} in ${seconds} s\n`);
};

if (existsSync(built)) process.stderr.write(`dataplane: ${id} is built already\n`);
else build();
place(built, output);
