/** Each image's program runs with nothing but what is in its archive: in a root of its own, with no shell and no network. */

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import { version } from "#src/host/version.ts";
import { type ImageName, imageNames, imageSpec } from "../../scripts/images.ts";
import { writeImage } from "../../scripts/oci-archive.ts";

const root = join(import.meta.dirname, "../..");
const isBuilt = existsSync(join(root, "dataplane/xylem.node"));
const skip =
  process.getuid?.() !== 0
    ? "needs root: a program is run in a root folder of its own"
    : isBuilt
      ? false
      : "the data plane is not built: npm run build:dataplane";

const folder = mkdtempSync(join(tmpdir(), "xylem-images-"));
const bundles = join(folder, "bundles");

t.teardown(() => rmSync(folder, { recursive: true, force: true }));
if (skip === false) {
  execFileSync(process.execPath, ["scripts/bundle.ts", bundles], { cwd: root, stdio: "pipe" });
}

interface Unpacked {
  readonly tree: string;
  readonly entrypoint: readonly string[];
  readonly user: string | undefined;
  readonly layers: readonly string[];
}

/** Writes the archive and unpacks it by nothing but what the archive says. */
const unpack = async (t: Test, name: ImageName): Promise<Unpacked> => {
  const file = join(folder, `${name}.tar`);
  await writeImage(file, await imageSpec(name, { prefix: "registry.example/", bundles }));
  const archive = join(folder, `${name}-archive`);
  const tree = join(folder, `${name}-tree`);
  for (const path of [archive, tree]) mkdirSync(path, { recursive: true });
  execFileSync("tar", ["-xf", file, "-C", archive]);
  rmSync(file);
  const read = (path: string): unknown => JSON.parse(readFileSync(join(archive, path), "utf8"));
  const blob = (digest: string): string => join("blobs", digest.replace(":", "/"));
  const [entry] = Object(read("index.json")).manifests;
  t.equal(
    entry.annotations["io.containerd.image.name"],
    `registry.example/xylem-${name}:${version}`,
  );
  const manifest = Object(read(blob(entry.digest)));
  const { config } = Object(read(blob(manifest.config.digest)));
  const layers: string[] = manifest.layers.map(({ digest }: { digest: string }) => digest);
  for (const digest of layers) {
    execFileSync("tar", ["-xf", join(archive, blob(digest)), "-C", tree]);
  }
  rmSync(archive, { recursive: true });
  return { tree, entrypoint: config.Entrypoint, user: config.User, layers };
};

/** Runs a program with the folder as its root, without network, as the image's user. */
const inside = ({ tree, user }: Unpacked, argv: readonly string[]) => {
  const flags = user === undefined ? [] : [`--userspec=${user}`];
  return spawnSync("unshare", ["--net", "--", "chroot", ...flags, tree, ...argv], {
    encoding: "utf8",
    env: { PATH: "/bin:/usr/bin:/usr/sbin:/sbin" },
  });
};

const bottoms = new Set<string>();

for (const name of imageNames) {
  void t.test(`${name} runs from its image alone`, { skip }, async (t) => {
    const image = await unpack(t, name);
    bottoms.add(image.layers[0] ?? "");
    const told = inside(image, [...image.entrypoint, "--version"]);
    t.equal(told.stdout.trim(), version, told.stderr);
    for (const shell of ["bin/sh", "bin/bash", "bin/busybox"]) {
      t.notOk(existsSync(join(image.tree, shell)), `there is no ${shell}`);
    }
    if (name === "controller") {
      t.equal(image.user, "65532:65532");
      t.notOk(existsSync(join(image.tree, "bin/nft")));
      return rmSync(image.tree, { recursive: true });
    }
    t.equal(image.user, undefined, "NET_ADMIN of another user would end at exec");
    const load =
      "for (const file of ['netlink.node', 'dataplane/xylem.node']) console.log(Object.keys(require('/xylem/' + file)).length > 0)";
    const loaded = inside(image, ["/bin/node", "-e", load]);
    t.equal(loaded.stdout, "true\ntrue\n", loaded.stderr);
    // A new network namespace has no table; the answer shows that nft and its libraries work.
    const listed = inside(image, ["/bin/nft", "--json", "list", "ruleset"]);
    t.match(listed.stdout, /"metainfo"/u, listed.stderr);
    rmSync(image.tree, { recursive: true });
  });
}

void t.test("Node and its libraries are one layer of all images", { skip }, async (t) => {
  t.equal(bottoms.size, 1);
});
