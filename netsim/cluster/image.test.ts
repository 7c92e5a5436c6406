import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import t from "tap";
import { writeImage } from "./image.ts";

t.test("an image is an archive whose blobs are named by their own checksums", async (t) => {
  const folder = t.testdir({ program: "#!/bin/sh\necho hello\n" });
  const file = join(folder, "image.tar");
  await writeImage(file, {
    name: "lab.local/test:1",
    entrypoint: ["/bin/program"],
    files: { "bin/program": join(folder, "program") },
    links: { "bin/other": "program" },
  });
  const read = (path: string): Buffer => execFileSync("tar", ["-xOf", file, path]);
  const index = JSON.parse(read("index.json").toString());
  const [manifestDescriptor] = index.manifests;
  t.equal(manifestDescriptor.annotations["io.containerd.image.name"], "lab.local/test:1");
  const blob = (digest: string): Buffer => {
    const data = read(`blobs/${digest.replace(":", "/")}`);
    t.equal(`sha256:${createHash("sha256").update(data).digest("hex")}`, digest);
    return data;
  };
  const manifest = JSON.parse(blob(manifestDescriptor.digest).toString());
  const config = JSON.parse(blob(manifest.config.digest).toString());
  t.strictSame(config.config.Entrypoint, ["/bin/program"]);
  const layer = blob(manifest.layers[0].digest);
  t.equal(layer.length, manifest.layers[0].size);
  await writeFile(join(folder, "layer.tar"), layer);
  const listed = execFileSync("tar", ["-tvf", join(folder, "layer.tar")]).toString();
  t.match(listed, /-rwxr-xr-x 0\/0 +\d+ .* bin\/program\n/);
  t.match(listed, /bin\/other -> program\n/);
  t.match(listed, /drwxrwxrwt .* tmp\/\n/);
});

t.test("a path that ustar can't hold is refused by name", async (t) => {
  const folder = t.testdir({ program: "" });
  const path = `bin/${"x".repeat(100)}`;
  const spec = { name: "a:1", entrypoint: [], files: { [path]: join(folder, "program") } };
  await t.rejects(writeImage(join(folder, "image.tar"), spec), { message: /xxx is longer/ });
  t.equal(await readFile(join(folder, "image.tar")).catch(() => null), null);
});
