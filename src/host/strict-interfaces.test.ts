/** Which interfaces are strict about sources, read from a folder like the kernel's. */

import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { strictInterfaces } from "./strict-interfaces.ts";

const ROWS: readonly { name: string; filters: Record<string, string>; want: readonly string[] }[] =
  [
    { name: "an interface's own", filters: { all: "0", eth0: "1", eth1: "0" }, want: ["eth0"] },
    { name: "that of all", filters: { all: "1", eth0: "0", eth1: "2" }, want: ["eth0"] },
    { name: "loose everywhere", filters: { all: "2", eth0: "1" }, want: [] },
    {
      name: "ours and loopback",
      filters: { all: "1", lo: "0", xylem0: "1", default: "1" },
      want: [],
    },
  ];

for (const { name, filters, want } of ROWS) {
  void t.test(`strict: ${name}`, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "xylem-strict-"));
    t.teardown(() => rm(folder, { recursive: true }));
    for (const [link, filter] of Object.entries(filters)) {
      await mkdir(join(folder, link));
      await writeFile(join(folder, link, "rp_filter"), `${filter}\n`);
    }
    t.same(await strictInterfaces("xylem0", folder), want);
  });
}

void t.test("where the kernel shows nothing, nothing is strict", async (t) => {
  t.same(await strictInterfaces("xylem0", "/nonexistent"), []);
});
