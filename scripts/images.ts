/**
 * Builds the images of gateway, agent and controller from scratch as OCI archives: Node with its libraries, certificate
 * authorities, nft where it is used, our bundle and the data plane; no shell, no package manager.
 *   node scripts/images.ts [--out DIR] [--prefix REGISTRY/PATH/] [--tag TAG] [--folders] [NAME...]
 * Needs dist/ and dataplane/xylem.node: npm run build:dataplane && npm run build:bundles.
 */

import { existsSync } from "node:fs";
import { cp, mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { nodeFlags } from "#src/host/node-flags.ts";
import { version } from "#src/host/version.ts";
import { baseLayer, type ImageLayer, type ImageSpec, writeImage } from "./oci-archive.ts";
import { sharedLibraries } from "./shared-libraries.ts";

export const imageNames = ["gateway", "agent", "controller"] as const;
export type ImageName = (typeof imageNames)[number];

const root = fileURLToPath(new URL("..", import.meta.url));
const node = join(root, "node_modules/node/bin/node");
const nft = ["/usr/sbin/nft", "/sbin/nft"].find((path) => existsSync(path));
const authorities = "/etc/ssl/certs/ca-certificates.crt";
/** A user of no one else; only the controller can be one, see docs/decisions/injection.md. */
const NOBODYS_USER = "65532:65532";

/** Says what is in an image; reads this machine, writes nothing. */
export const imageSpec = async (
  name: ImageName,
  options: { readonly prefix?: string; readonly tag?: string; readonly bundles?: string } = {},
): Promise<ImageSpec> => {
  const { prefix = "", tag = version, bundles = join(root, "dist") } = options;
  const hasDataPlane = name !== "controller";
  const runtime = { ...baseLayer, files: { "bin/node": node, ...(await runtimeFiles()) } };
  const flags = hasDataPlane ? nodeFlags : [];
  return {
    name: `${prefix}xylem-${name}:${tag}`,
    entrypoint: ["/bin/node", ...flags, `/xylem/${name}.js`],
    layers: [
      runtime,
      ...(hasDataPlane ? [await dataPlaneLayer(bundles)] : []),
      programLayer(name, bundles),
    ],
    ...(hasDataPlane ? {} : { user: NOBODYS_USER }),
    labels: {
      "org.opencontainers.image.title": `xylem-${name}`,
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.licenses": "Apache-2.0",
    },
  };
};

/** The bottom layer, equal in all images: a node keeps it once, and all containers share its memory. */
const runtimeFiles = async (): Promise<Readonly<Record<string, string>>> => ({
  ...(await sharedLibraries([node])),
  ...(existsSync(authorities) ? { "etc/ssl/certs/ca-certificates.crt": authorities } : {}),
});

const dataPlaneLayer = async (bundles: string): Promise<ImageLayer> => {
  if (nft === undefined) throw new Error("nft is missing: install nftables");
  const addon = join(root, "dataplane/xylem.node");
  const below = await sharedLibraries([node]);
  const libraries = Object.entries(await sharedLibraries([nft, addon]));
  return {
    files: {
      "bin/nft": nft,
      ...Object.fromEntries(libraries.filter(([path]) => !Object.hasOwn(below, path))),
      "xylem/netlink.node": join(bundles, "netlink.node"),
      "xylem/dataplane/xylem.node": addon,
      "xylem/dataplane/index.js": join(root, "dataplane/index.js"),
    },
  };
};

const programLayer = (name: ImageName, bundles: string): ImageLayer => ({
  files: { [`xylem/${name}.js`]: join(bundles, `${name}.js`) },
  texts: {
    "xylem/package.json": `${JSON.stringify({
      name: "xylem",
      version,
      type: "module",
      imports: { "#dataplane": "./dataplane/index.js" },
    })}\n`,
  },
});

/** Writes an image's contents as a folder, for `COPY` in a Dockerfile and for looking. */
const writeFolder = async (folder: string, { layers }: ImageSpec): Promise<void> => {
  for (const { files = {}, texts = {}, links = {} } of layers) {
    const place = async (path: string, write: (to: string) => Promise<unknown>) => {
      const to = join(folder, path);
      await mkdir(dirname(to), { recursive: true });
      await write(to);
    };
    for (const [path, from] of Object.entries(files)) {
      await place(path, (to) => cp(from, to, { dereference: true }));
    }
    for (const [path, text] of Object.entries(texts))
      await place(path, (to) => writeFile(to, text));
    for (const [path, target] of Object.entries(links))
      await place(path, (to) => symlink(target, to));
  }
};

const main = async (): Promise<void> => {
  const { values, positionals } = parseArgs({
    options: {
      out: { type: "string", default: join(root, "dist/images") },
      prefix: { type: "string", default: "" },
      tag: { type: "string", default: version },
      folders: { type: "boolean", default: false },
    },
    allowPositionals: true,
  });
  const wanted = imageNames.filter(
    (name) => positionals.length === 0 || positionals.includes(name),
  );
  const unknown = positionals.filter((name) => !imageNames.some((known) => known === name));
  if (unknown.length > 0) {
    throw new Error(`there is no image ${unknown.join(", ")}; there are ${imageNames.join(", ")}`);
  }
  await mkdir(values.out, { recursive: true });
  for (const name of wanted) {
    const spec = await imageSpec(name, values);
    if (values.folders) {
      await writeFolder(join(values.out, name), spec);
      continue;
    }
    const file = join(values.out, `${name}.tar`);
    const { digest, size } = await writeImage(file, spec);
    console.log(`${file}  ${spec.name}  ${digest}  ${(size / 1e6).toFixed(0)} MB`);
  }
};

if (import.meta.main) await main();
