/** Reads the injector's options at start: a bad one is refused before the first pod needs it. */

import type { InjectionConfig, PodSecurityLevel } from "./injection.ts";
import { type Parsed, parsed, problem } from "./parsed.ts";
import { quoted } from "./quoted.ts";

/** Options as a person gives them; what is left out has a default. */
export interface InjectionOptions {
  readonly image?: string | undefined;
  readonly imagePullPolicy?: string | undefined;
  readonly ownNamespace?: string | undefined;
  readonly cpuRequest?: string | undefined;
  readonly memoryRequest?: string | undefined;
  readonly cpuLimit?: string | undefined;
  readonly memoryLimit?: string | undefined;
  readonly statusPort?: number | undefined;
  readonly logLevel?: string | undefined;
  readonly paths?: number | undefined;
  readonly podSecurityDefault?: string | undefined;
}

/** Ten gateways of a seed share their program's pages; one alone stays below this. */
const MEMORY_REQUEST = "64Mi";
/** A leak ends one gateway before it hurts its node. */
const MEMORY_LIMIT = "256Mi";
/** At rest a gateway needs a fifth of this; a request is also what an autoscaler divides by. */
const CPU_REQUEST = "10m";
const STATUS_PORT = 9446;
const PATHS = 4;

/** `[registry[:port]/]repository[:tag][@digest]` of the OCI distribution spec, in lower case as registries want it. */
const IMAGE =
  /^(?:[a-zA-Z0-9.-]+(?::\d{1,5})?\/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[\w][\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?$/;
const IMAGE_CHARS_MAX = 512;
const NAMESPACE = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const PULL_POLICIES = ["Always", "IfNotPresent", "Never"] as const;
const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
const LEVELS = ["privileged", "baseline", "restricted"] as const;

/** Kubernetes quantities as people write them for resources: `10m`, `1.5`, `64Mi`, `1G`. */
const QUANTITY = /^(\d{1,12})(?:\.(\d{1,9}))?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$/;
const UNITS: Readonly<Record<string, number>> = {
  m: 0.001,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};

/** Checks all options; the first bad one ends it with a sentence that names it and says what would do. */
export const parseInjectionOptions = (options: InjectionOptions): Parsed<InjectionConfig> => {
  const cpu = resource("cpu", {
    request: options.cpuRequest ?? CPU_REQUEST,
    limit: options.cpuLimit,
  });
  if (!cpu.ok) return cpu;
  const memory = resource("memory", {
    request: options.memoryRequest ?? MEMORY_REQUEST,
    limit: options.memoryLimit ?? MEMORY_LIMIT,
  });
  if (!memory.ok) return memory;
  const image = imageOf(options.image);
  if (!image.ok) return image;
  const namespace = options.ownNamespace;
  if (namespace === undefined || !NAMESPACE.test(namespace)) {
    return problem(`own namespace: must be the controller's namespace, found ${quoted(namespace)}`);
  }
  const statusPort = whole("status port", options.statusPort ?? STATUS_PORT, 65_535);
  if (!statusPort.ok) return statusPort;
  const paths = whole("paths", options.paths ?? PATHS, 8);
  if (!paths.ok) return paths;
  const imagePullPolicy = oneOf(
    "image pull policy",
    options.imagePullPolicy ?? "IfNotPresent",
    PULL_POLICIES,
  );
  if (!imagePullPolicy.ok) return imagePullPolicy;
  const logLevel = oneOf("log level", options.logLevel ?? "info", LOG_LEVELS);
  if (!logLevel.ok) return logLevel;
  const level = oneOf("pod security default", options.podSecurityDefault ?? "privileged", LEVELS);
  if (!level.ok) return level;
  return parsed({
    image: image.value,
    imagePullPolicy: imagePullPolicy.value,
    ownNamespace: namespace,
    requests: { cpu: cpu.value.request, memory: memory.value.request },
    limits: {
      ...(cpu.value.limit === undefined ? {} : { cpu: cpu.value.limit }),
      ...(memory.value.limit === undefined ? {} : { memory: memory.value.limit }),
    },
    statusPort: statusPort.value,
    logLevel: logLevel.value,
    paths: paths.value,
    podSecurityDefault: level.value,
  });
};

/** Reads a Pod Security level; null: not one. */
export const podSecurityLevel = (text: string): PodSecurityLevel | null =>
  LEVELS.find((level) => level === text) ?? null;

const imageOf = (image: string | undefined): Parsed<string> => {
  if (image === undefined || image.length > IMAGE_CHARS_MAX || !IMAGE.test(image)) {
    return problem(
      `image: must be the gateway's image such as registry.example/xylem-gateway:0.1.0, found ${quoted(image)}`,
    );
  }
  const hasVersion = image.includes("@") || /:[^/:]+$/.test(image);
  return hasVersion
    ? parsed(image)
    : problem(
        `image: ${quoted(image)} has no tag and no digest: it would change under running pods`,
        `${image}:0.1.0`,
      );
};

const resource = (
  name: string,
  wanted: { readonly request: string; readonly limit: string | undefined },
): Parsed<{ readonly request: string; readonly limit: string | undefined }> => {
  const request = quantity(`${name} request`, wanted.request);
  if (!request.ok) return request;
  if (wanted.limit === undefined) return parsed(wanted);
  const limit = quantity(`${name} limit`, wanted.limit);
  if (!limit.ok) return limit;
  return limit.value >= request.value
    ? parsed(wanted)
    : problem(
        `${name} limit: ${wanted.limit} is less than the request of ${wanted.request}: no pod could start`,
      );
};

const quantity = (what: string, text: string): Parsed<number> => {
  const match = QUANTITY.exec(text);
  const value =
    match === null ? 0 : Number(`${match[1]}.${match[2] ?? "0"}`) * (UNITS[match[3] ?? ""] ?? 1);
  return value > 0
    ? parsed(value)
    : problem(`${what}: must be a quantity above zero such as 10m or 64Mi, found ${quoted(text)}`);
};

const whole = (what: string, value: number, max: number): Parsed<number> =>
  Number.isSafeInteger(value) && value >= 1 && value <= max
    ? parsed(value)
    : problem(`${what}: must be a whole number from 1 to ${max}, found ${quoted(value)}`);

const oneOf = <const T extends string>(
  what: string,
  text: string,
  choices: readonly T[],
): Parsed<T> => {
  const found = choices.find((choice) => choice === text);
  return found === undefined
    ? problem(`${what}: must be one of ${choices.join(", ")}, found ${quoted(text)}`)
    : parsed(found);
};
