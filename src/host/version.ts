/** The version that programs print, register and log; bundling replaces nothing: package.json is the one place. */

import manifest from "../../package.json" with { type: "json" };

export const version: string = manifest.version;
