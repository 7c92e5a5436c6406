/** Runs a test file a second time inside a network namespace of its own, so that real ports touch nothing else. */

import { spawnSync } from "node:child_process";

/** Tells the second run that it is inside. */
const MARK = "XYLEM_TEST_NETNS";

export type Namespace =
  /** This process is alone in a fresh network namespace: run the tests. */
  | { readonly kind: "inside" }
  /** Run this command as a subtest; it is the same file, inside. */
  | {
      readonly kind: "outside";
      readonly command: string;
      readonly args: readonly string[];
      readonly env: NodeJS.ProcessEnv;
    }
  /** The machine can't; the sentence says why and what to do. */
  | { readonly kind: "impossible"; readonly reason: string };

/** Finds out where `testFile` runs; pass `import.meta.filename`. The namespace ends with its last process. */
export function freshNamespace(testFile: string): Namespace {
  if (process.env[MARK] === "1") return { kind: "inside" };
  if (process.env["XYLEM_UNPRIVILEGED"] !== undefined) {
    return { kind: "impossible", reason: "npm run check uses no privileges; npm test runs it" };
  }
  if (process.getuid?.() !== 0) {
    return {
      kind: "impossible",
      reason: "needs root for a network namespace of its own; run it with sudo",
    };
  }
  const probe = spawnSync("unshare", ["--net", "true"]);
  if (probe.status !== 0) {
    return {
      kind: "impossible",
      reason: "unshare --net is refused here; give the container SYS_ADMIN",
    };
  }
  return {
    kind: "outside",
    command: "unshare",
    args: ["--net", process.execPath, ...process.execArgv, testFile],
    env: { ...process.env, [MARK]: "1" },
  };
}
