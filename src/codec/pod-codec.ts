/** Reads the parts of a Pod (v1) that injection looks at; everything else is the API server's affair. */

import type { AuditedPod, InjectablePod, PodContainer, PodOwner } from "#src/model/injection.ts";
import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import { parseTimestamp } from "#src/model/timestamp.ts";
import {
  type Field,
  fieldAtIfPresent,
  fieldOf,
  isAbsent,
  itemsOf,
  parseName,
  parseUid,
  parseWhole,
  reading,
  take,
  takeOr,
} from "./fields.ts";

/** Far above what fits into a pod's 1.5 MiB in etcd. */
const ITEMS_MAX = 4096;

/** Reads a Pod as an admission request or a list has it. */
export const parseInjectablePod = (object: unknown): Parsed<InjectablePod> =>
  reading({ kind: "Pod", object }, (root) => {
    const metadata = fieldOf(root, "metadata");
    const spec = fieldOf(root, "spec");
    const annotations = fieldOf(metadata, "annotations");
    const initContainers = fieldOf(spec, "initContainers");
    const volumes = fieldOf(spec, "volumes");
    return {
      name: podName(metadata),
      labels: take(fieldOf(metadata, "labels"), parseTexts),
      annotations: take(annotations, parseTexts),
      hasAnnotations: !isAbsent(annotations),
      isHostNetwork: fieldOf(spec, "hostNetwork").value === true,
      isWindows: fieldAtIfPresent(spec, "os", "name").value === "windows",
      initContainers: itemsOf(initContainers, { max: ITEMS_MAX }).map(container),
      hasInitContainers: !isAbsent(initContainers),
      containers: itemsOf(fieldOf(spec, "containers"), { max: ITEMS_MAX }).map(container),
      volumes: itemsOf(volumes, { max: ITEMS_MAX }).map((item) =>
        take(fieldOf(item, "name"), parseName),
      ),
      hasVolumes: !isAbsent(volumes),
    };
  });

/** Reads a Pod that exists, with what the audit asks of it besides. */
export const parseAuditedPod = (object: unknown): Parsed<AuditedPod> => {
  const pod = parseInjectablePod(object);
  if (!pod.ok) return pod;
  return reading({ kind: "Pod", object }, (root) => {
    const metadata = fieldOf(root, "metadata");
    const phase = fieldAtIfPresent(root, "status", "phase").value;
    return {
      pod: pod.value,
      namespace: take(fieldOf(metadata, "namespace"), parseName),
      uid: take(fieldOf(metadata, "uid"), parseUid),
      createdMs: take(fieldOf(metadata, "creationTimestamp"), parseTimestamp),
      owner: ownerOf(metadata),
      isReady: itemsOf(fieldAtIfPresent(root, "status", "conditions"), { max: ITEMS_MAX }).some(
        (condition) =>
          fieldOf(condition, "type").value === "Ready" &&
          fieldOf(condition, "status").value === "True",
      ),
      isEnding:
        !isAbsent(fieldOf(metadata, "deletionTimestamp")) ||
        phase === "Succeeded" ||
        phase === "Failed",
    };
  });
};

/** The controller of an object, by its owner references; null: none, or none that can be read. */
export const parsePodOwner = (object: unknown): PodOwner | null => {
  const read = reading({ kind: "Pod", object }, (root) => ownerOf(fieldOf(root, "metadata")));
  return read.ok ? read.value : null;
};

const ownerOf = (metadata: Field): PodOwner | null => {
  const references = itemsOf(fieldOf(metadata, "ownerReferences"), { max: ITEMS_MAX });
  const controller = references.find((item) => fieldOf(item, "controller").value === true);
  if (controller === undefined) return null;
  return {
    apiVersion: take(fieldOf(controller, "apiVersion"), parseWord),
    kind: take(fieldOf(controller, "kind"), parseWord),
    name: take(fieldOf(controller, "name"), parseName),
    uid: take(fieldOf(controller, "uid"), parseUid),
  };
};

const parseWord = (value: unknown): Parsed<string> =>
  typeof value === "string" && /^[A-Za-z0-9./-]{1,253}$/.test(value)
    ? parsed(value)
    : problem(`must be a word, found ${quoted(value)}`);

/** Pods of a ReplicaSet have no name yet when a webhook sees them. */
const podName = (metadata: Field): string => {
  const name = fieldOf(metadata, "name");
  const made = fieldOf(metadata, "generateName");
  const found = isAbsent(name) || name.value === "" ? made.value : name.value;
  return typeof found === "string" ? found.slice(0, 253) : "";
};

const container = (item: Field): PodContainer => ({
  name: take(fieldOf(item, "name"), parseName),
  ports: itemsOf(fieldOf(item, "ports"), { max: ITEMS_MAX }).map((port) =>
    takeOr({
      field: fieldOf(port, "containerPort"),
      parse: parseWhole({ min: 0, max: 65_535 }),
      standard: 0,
    }),
  ),
});

const parseTexts = (value: unknown): Parsed<Readonly<Record<string, string>>> => {
  if (value === undefined || value === null) return parsed({});
  if (typeof value !== "object" || Array.isArray(value)) {
    return problem(`must be an object of texts, found ${quoted(value)}`);
  }
  const entries = Object.entries(value);
  const texts = entries.filter((entry): entry is [string, string] => typeof entry[1] === "string");
  const wrong = entries.find(([, text]) => typeof text !== "string");
  return wrong === undefined
    ? parsed(Object.fromEntries(texts))
    : problem(`${quoted(wrong[0])} must be a text, found ${quoted(wrong[1])}`);
};
