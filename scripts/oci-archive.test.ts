/** Archives are what the specification says, equal for equal contents, and refuse what they cannot hold. */

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import t from "tap";
import { baseLayer, writeImage } from "./oci-archive.ts";

t.test("an image is an archive whose blobs are named by their own checksums", async (t) => {
  const folder = t.testdir({ program: "#!/bin/sh\necho hello\n" });
  const file = join(folder, "image.tar");
  await writeImage(file, {
    name: "lab.local/test:1",
    entrypoint: ["/bin/program"],
    user: "65532:65532",
    layers: [
      baseLayer,
      {
        files: { "bin/program": join(folder, "program") },
        links: { "bin/other": "program" },
        texts: { "deep/inside/text": "hello" },
      },
    ],
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
  t.equal(config.config.User, "65532:65532");
  const digests = manifest.layers.map(({ digest }: { digest: string }) => digest);
  t.strictSame(config.rootfs.diff_ids, digests);
  let listed = "";
  for (const { digest, size } of manifest.layers) {
    const layer = blob(digest);
    t.equal(layer.length, size);
    await writeFile(join(folder, "layer.tar"), layer);
    listed += execFileSync("tar", ["-tvf", join(folder, "layer.tar")]).toString();
  }
  t.match(listed, /drwxr-xr-x .* deep\/\n.* deep\/inside\/\n-rw-r--r-- .* deep\/inside\/text\n/);
  t.match(listed, /-rwxr-xr-x 0\/0 +\d+ .* bin\/program\n/);
  t.match(listed, /bin\/other -> program\n/);
  t.match(listed, /drwxrwxrwt .* tmp\/\n/);
});

t.test("equal contents give equal digests, and equal layers are equal in all images", async (t) => {
  const file = join(t.testdir({}), "image.tar");
  const spec = { name: "a:1", entrypoint: ["/bin/a"], layers: [baseLayer] };
  const { digest, size } = await writeImage(file, spec);
  t.strictSame(await writeImage(file, spec), { digest, size });
  const other = await writeImage(file, { ...spec, entrypoint: ["/bin/b"] });
  t.not(other.digest, digest);
  t.equal(other.size, size);
});

t.test("a path that ustar can't hold is refused by name", async (t) => {
  const folder = t.testdir({ program: "" });
  const path = `bin/${"x".repeat(100)}`;
  const layers = [{ files: { [path]: join(folder, "program") } }];
  const spec = { name: "a:1", entrypoint: [], layers };
  await t.rejects(writeImage(join(folder, "image.tar"), spec), { message: /xxx is longer/ });
  t.equal(await readFile(join(folder, "image.tar")).catch(() => null), null);
});
