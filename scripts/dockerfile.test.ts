/** The Dockerfile says of entrypoints and users what scripts/images.ts says; it can't be built here, for want of an engine. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { nodeFlags } from "#src/host/node-flags.ts";

const text = readFileSync(join(import.meta.dirname, "../Dockerfile"), "utf8");

for (const name of ["gateway", "agent", "controller"]) {
  void t.test(`the Dockerfile starts the ${name} as its archive does`, async (t) => {
    const [, stage = ""] =
      new RegExp(`FROM scratch AS ${name}\n([\\s\\S]*?)(?:\nFROM|$)`, "u").exec(text) ?? [];
    const [, json = "[]"] = /^ENTRYPOINT (.*)$/mu.exec(stage) ?? [];
    const flags = name === "controller" ? [] : nodeFlags;
    t.strictSame(JSON.parse(json), ["/bin/node", ...flags, `/xylem/${name}.js`]);
    t.equal(/^USER 65532:65532$/mu.test(stage), name === "controller");
    t.match(stage, `COPY --from=build /images/${name}/ /`);
  });
}
