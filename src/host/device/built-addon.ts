/** Tells tests whether the native data plane is there to be tested. */

import { existsSync } from "node:fs";

/** Null: it is built; else why a test of it has to be skipped. */
export function whyNoAddon(): string | null {
  const path =
    process.env["XYLEM_DATAPLANE"] ?? new URL("../../../dataplane/xylem.node", import.meta.url);
  return existsSync(path) ? null : "the data plane is not built: npm run build:dataplane";
}
