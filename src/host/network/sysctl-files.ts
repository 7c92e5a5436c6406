/** Reads and writes sysctls through /proc/sys, as sysctl(8) does. */

import { readFile, writeFile } from "node:fs/promises";
import { HostError } from "#src/ports/host-error.ts";

const SYSCTL_NAME = /^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_.@:-]*$/;

/** The value as one line, or null where this kernel (or a missing interface) has no such sysctl. */
export async function readSysctl(name: string): Promise<string | null> {
  try {
    return (await readFile(sysctlPath(name), "utf8")).trim();
  } catch (cause) {
    if (errorCode(cause) === "ENOENT") return null;
    throw sysctlError({ name, verb: "read", cause });
  }
}

/** Writes one sysctl. Codes: `no-such-interface`, `no-permission`, `io`. */
export async function writeSysctl(name: string, value: string): Promise<void> {
  try {
    await writeFile(sysctlPath(name), value, { flag: "r+" });
  } catch (cause) {
    throw sysctlError({ name, verb: `set to ${value}`, cause });
  }
}

function sysctlPath(name: string): string {
  if (!SYSCTL_NAME.test(name))
    throw new HostError("io", `Sysctl name ${JSON.stringify(name)} is not usable.`);
  return `/proc/sys/${name.replaceAll(".", "/")}`;
}

function sysctlError(options: { name: string; verb: string; cause: unknown }): HostError {
  const { name, verb, cause } = options;
  const code = errorCode(cause) ?? "unknown error";
  const what = `Sysctl ${name} can't be ${verb} (${code})`;
  switch (code) {
    case "ENOENT":
      return new HostError(
        "no-such-interface",
        `${what}: its interface is gone or this kernel lacks it.`,
        { cause },
      );
    case "EROFS":
    case "EACCES":
    case "EPERM":
      return new HostError(
        "no-permission",
        `${what}: /proc/sys is read-only here; run the container privileged or set it on the host.`,
        { cause },
      );
    default:
      return new HostError("io", `${what}.`, { cause });
  }
}

const errorCode = (e: unknown): string | undefined =>
  e instanceof Error && "code" in e && typeof e.code === "string" ? e.code : undefined;
