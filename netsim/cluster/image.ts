/** Writes a container image as an OCI archive (image-spec 1.1, ustar), so that no registry or engine is needed. */

import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";

export interface ImageSpec {
  /** Made-up reference, e.g. lab.local/pod:1. */
  readonly name: string;
  readonly entrypoint: readonly string[];
  /** Path in the image (no leading slash) to a file of this machine. */
  readonly files: Readonly<Record<string, string>>;
  /** Path in the image to what the symbolic link says. */
  readonly links?: Readonly<Record<string, string>>;
}

interface Blob {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly data: Buffer;
}

const block = 512;
const emptyFolders = ["bin", "etc", "tmp", "proc", "sys", "dev"];
const passwd = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";

/** Writes `spec` to `file`; `ctr images import` takes it. */
export async function writeImage(file: string, spec: ImageSpec): Promise<void> {
  const contents = await Promise.all(
    Object.entries(spec.files).map(async ([path, source]) => regular(path, await readFile(source))),
  );
  const layer = archive([
    ...emptyFolders.map((name) => folder(name, name === "tmp" ? 0o1777 : 0o755)),
    regular("etc/passwd", Buffer.from(passwd), 0o644),
    ...contents,
    ...Object.entries(spec.links ?? {}).map(([path, target]) => symlink(path, target)),
  ]);
  await writeFile(file, layout(spec, layer));
}

function layout(spec: ImageSpec, layer: Buffer): Buffer {
  const oci = "application/vnd.oci.image.";
  const layerBlob = blob(`${oci}layer.v1.tar`, layer);
  const config = jsonBlob(`${oci}config.v1+json`, {
    architecture: process.arch === "arm64" ? "arm64" : "amd64",
    os: "linux",
    config: { Entrypoint: spec.entrypoint, Env: ["PATH=/bin"], WorkingDir: "/" },
    rootfs: { type: "layers", diff_ids: [layerBlob.digest] },
  });
  const manifest = jsonBlob(`${oci}manifest.v1+json`, {
    schemaVersion: 2,
    mediaType: `${oci}manifest.v1+json`,
    config: descriptor(config),
    layers: [descriptor(layerBlob)],
  });
  const annotations = {
    "io.containerd.image.name": spec.name,
    "org.opencontainers.image.ref.name": spec.name.split(":").pop(),
  };
  const index = { schemaVersion: 2, manifests: [{ ...descriptor(manifest), annotations }] };
  return archive([
    regular("oci-layout", Buffer.from('{"imageLayoutVersion":"1.0.0"}'), 0o644),
    regular("index.json", Buffer.from(JSON.stringify(index)), 0o644),
    folder("blobs", 0o755),
    folder("blobs/sha256", 0o755),
    ...[layerBlob, config, manifest].map(({ digest, data }) =>
      regular(`blobs/${digest.replace(":", "/")}`, data, 0o644),
    ),
  ]);
}

function jsonBlob(mediaType: string, value: unknown): Blob {
  return blob(mediaType, Buffer.from(JSON.stringify(value)));
}

function blob(mediaType: string, data: Buffer): Blob {
  const digest = `sha256:${createHash("sha256").update(data).digest("hex")}`;
  return { mediaType, digest, size: data.length, data };
}

function descriptor({ mediaType, digest, size }: Blob): Omit<Blob, "data"> {
  return { mediaType, digest, size };
}

function archive(entries: readonly Buffer[]): Buffer {
  return Buffer.concat([...entries, Buffer.alloc(2 * block)]);
}

function regular(path: string, data: Buffer, mode = 0o755): Buffer {
  const padding = Buffer.alloc((block - (data.length % block)) % block);
  return Buffer.concat([
    header(path, { size: data.length, mode, type: "0", link: "" }),
    data,
    padding,
  ]);
}

function folder(path: string, mode: number): Buffer {
  return header(`${path}/`, { size: 0, mode, type: "5", link: "" });
}

function symlink(path: string, target: string): Buffer {
  return header(path, { size: 0, mode: 0o777, type: "2", link: target });
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
