/** The images that every node of the lab has: the sandbox's, and the one of the pods. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Lab } from "#netsim/lab/lab.ts";
import { baseLayer, writeImage } from "../../scripts/oci-archive.ts";
import type { Programs } from "./programs.ts";
import { pauseImage, podImage } from "./workloads.ts";

export interface BaseImagesSpec {
  readonly lab: Lab;
  readonly programs: Programs;
  readonly folder: string;
}

/** Writes both as OCI archives and returns their paths. */
export async function writeBaseImages(spec: BaseImagesSpec): Promise<readonly string[]> {
  const { lab, programs, folder } = spec;
  await mkdir(folder, { recursive: true });
  const pause = join(folder, "pause.tar");
  const pod = join(folder, "pod.tar");
  const labpod = { "bin/labpod": programs.labpod };
  const listed = await lab.switch.run(["/bin/busybox", "--list"]);
  const applets = listed.stdout.split("\n").filter((name) => name !== "" && name !== "busybox");
  const links = Object.fromEntries(applets.map((name) => [`bin/${name}`, "busybox"]));
  await Promise.all([
    writeImage(pause, {
      name: pauseImage,
      entrypoint: ["/bin/labpod", "pause"],
      layers: [baseLayer, { files: labpod }],
    }),
    writeImage(pod, {
      name: podImage,
      entrypoint: ["/bin/labpod"],
      layers: [baseLayer, { files: { ...labpod, "bin/busybox": "/bin/busybox" }, links }],
    }),
  ]);
  return [pause, pod];
}
