/** Writes a container image as an OCI archive (image-spec 1.1, ustar), so that no registry or engine is needed. */

import { createHash } from "node:crypto";
import { open, readFile } from "node:fs/promises";

export interface ImageSpec {
  /** Made-up reference, e.g. lab.local/pod:1. */
  readonly name: string;
  readonly entrypoint: readonly string[];
  /** From the bottom up. Equal layers of two images have equal digests, and a node keeps them once. */
  readonly layers: readonly ImageLayer[];
  /** `uid:gid`; default: root. */
  readonly user?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

export interface ImageLayer {
  /** Path in the image (no leading slash) to a file of this machine. */
  readonly files?: Readonly<Record<string, string>>;
  /** Path in the image to its text. */
  readonly texts?: Readonly<Record<string, string>>;
  /** Path in the image to what the symbolic link says. */
  readonly links?: Readonly<Record<string, string>>;
}

/** What a registry knows the image by. */
export interface WrittenImage {
  /** Digest of its manifest, `sha256:...`. */
  readonly digest: string;
  /** Of its layers, in bytes. */
  readonly size: number;
}

/** Megabytes that are passed on and never copied together. */
type Chunks = readonly Buffer[];

interface Blob {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly data: Chunks;
}

const block = 512;
const emptyFolders = ["bin", "etc", "tmp", "proc", "sys", "dev"];

/** What every image has at its bottom: folders to mount things on, and names of users. */
export const baseLayer: ImageLayer = {
  texts: {
    "etc/passwd":
      "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534::/:/sbin/nologin\nxylem:x:65532:65532::/:/sbin/nologin\n",
    "etc/group": "root:x:0:\nnobody:x:65534:\nxylem:x:65532:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
  },
};

/** Writes `spec` to `file`, equal specs to equal bytes; `ctr images import` takes it. */
export async function writeImage(file: string, spec: ImageSpec): Promise<WrittenImage> {
  const layers: Blob[] = [];
  for (const [index, layer] of spec.layers.entries()) {
    layers.push(blob(`${oci}layer.v1.tar`, await layerArchive(layer, index === 0)));
  }
  const { digest, chunks } = layout(spec, layers);
  const out = await open(file, "w");
  try {
    await out.writev([...chunks]);
  } finally {
    await out.close();
  }
  return { digest, size: layers.reduce((total, { size }) => total + size, 0) };
}

const oci = "application/vnd.oci.image.";

async function layerArchive(layer: ImageLayer, isFirst: boolean): Promise<Chunks> {
  const { files = {}, texts = {}, links = {} } = layer;
  const contents = await Promise.all(
    Object.entries(files).map(async ([path, source]) => regular(path, await readFile(source))),
  );
  return archive([
    ...(isFirst ? emptyFolders : []).map((name) => folder(name, name === "tmp" ? 0o1777 : 0o755)),
    ...parentsOf([...Object.keys(files), ...Object.keys(texts), ...Object.keys(links)]).map(
      (name) => folder(name, 0o755),
    ),
    ...Object.entries(texts).map(([path, text]) => regular(path, Buffer.from(text), 0o644)),
    ...contents,
    ...Object.entries(links).map(([path, target]) => symlink(path, target)),
  ]);
}

/** All folders that the paths are in, parents first. */
function parentsOf(paths: readonly string[]): readonly string[] {
  const folders = new Set<string>();
  for (const path of paths) {
    const parts = path.split("/").slice(0, -1);
    for (const [index] of parts.entries()) folders.add(parts.slice(0, index + 1).join("/"));
  }
  return [...folders].filter((name) => !emptyFolders.includes(name)).toSorted();
}

function layout(spec: ImageSpec, layers: readonly Blob[]): { digest: string; chunks: Chunks } {
  const config = jsonBlob(`${oci}config.v1+json`, {
    architecture: process.arch === "arm64" ? "arm64" : "amd64",
    os: "linux",
    config: {
      Entrypoint: spec.entrypoint,
      Env: ["PATH=/bin"],
      WorkingDir: "/",
      ...(spec.user === undefined ? {} : { User: spec.user }),
      ...(spec.labels === undefined ? {} : { Labels: spec.labels }),
    },
    rootfs: { type: "layers", diff_ids: layers.map(({ digest }) => digest) },
  });
  const manifest = jsonBlob(`${oci}manifest.v1+json`, {
    schemaVersion: 2,
    mediaType: `${oci}manifest.v1+json`,
    config: descriptor(config),
    layers: layers.map(descriptor),
  });
  const annotations = {
    "io.containerd.image.name": spec.name,
    "org.opencontainers.image.ref.name": spec.name.split(":").pop(),
  };
  const index = { schemaVersion: 2, manifests: [{ ...descriptor(manifest), annotations }] };
  const chunks = archive([
    regular("oci-layout", Buffer.from('{"imageLayoutVersion":"1.0.0"}'), 0o644),
    regular("index.json", Buffer.from(JSON.stringify(index)), 0o644),
    folder("blobs", 0o755),
    folder("blobs/sha256", 0o755),
    ...[...layers, config, manifest].map(({ digest, data }) =>
      regularOf(`blobs/${digest.replace(":", "/")}`, data, 0o644),
    ),
  ]);
  return { digest: manifest.digest, chunks };
}

function jsonBlob(mediaType: string, value: unknown): Blob {
  return blob(mediaType, [Buffer.from(JSON.stringify(value))]);
}

function blob(mediaType: string, data: Chunks): Blob {
  const hash = createHash("sha256");
  for (const chunk of data) hash.update(chunk);
  return { mediaType, digest: `sha256:${hash.digest("hex")}`, size: sizeOf(data), data };
}

function descriptor({ mediaType, digest, size }: Blob): Omit<Blob, "data"> {
  return { mediaType, digest, size };
}

function sizeOf(chunks: Chunks): number {
  return chunks.reduce((total, { length }) => total + length, 0);
}

function archive(entries: readonly Chunks[]): Chunks {
  return [...entries.flat(), Buffer.alloc(2 * block)];
}

function regular(path: string, data: Buffer, mode = 0o755): Chunks {
  return regularOf(path, [data], mode);
}

function regularOf(path: string, data: Chunks, mode: number): Chunks {
  const size = sizeOf(data);
  const padding = Buffer.alloc((block - (size % block)) % block);
  return [header(path, { size, mode, type: "0", link: "" }), ...data, padding];
}

function folder(path: string, mode: number): Chunks {
  return [header(`${path}/`, { size: 0, mode, type: "5", link: "" })];
}

function symlink(path: string, target: string): Chunks {
  return [header(path, { size: 0, mode: 0o777, type: "2", link: target })];
}

interface Entry {
  readonly size: number;
  readonly mode: number;
  readonly type: "0" | "2" | "5";
  readonly link: string;
}

function header(path: string, entry: Entry): Buffer {
  if (path.length > 100 || entry.link.length > 100) {
    throw new Error(`image: the path ${path} is longer than ustar's 100 bytes`);
  }
  const bytes = Buffer.alloc(block);
  const octal = (value: number, at: number, length: number): void => {
    bytes.write(`${value.toString(8).padStart(length - 1, "0")}\0`, at, "latin1");
  };
  bytes.write(path, 0, "latin1");
  octal(entry.mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(entry.size, 124, 12);
  octal(0, 136, 12);
  bytes.write("        ", 148, "latin1");
  bytes.write(entry.type, 156, "latin1");
  bytes.write(entry.link, 157, "latin1");
  bytes.write("ustar\u000000", 257, "latin1");
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  bytes.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return bytes;
}
