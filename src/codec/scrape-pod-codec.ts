/** The parts of a core/v1 `Pod` that Prometheus is told of; the shoot wrote it, so everything is checked and bounded. */

import { parseIp } from "#src/model/ip.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import type { ScrapePod, ScrapePort } from "#src/model/scrape-pod.ts";
import {
  fieldAtIfPresent,
  fieldOf,
  isAbsent,
  itemsOf,
  parseName,
  parseWhole,
  reading,
  take,
  takeOr,
  type Field,
} from "./fields.ts";

const CONTAINERS_MAX = 64;
const PORTS_MAX = 64;
const CONDITIONS_MAX = 64;
const ADDRESSES_MAX = 2;
const TEXTS_MAX = 64;
/** The Kubernetes limit on a label's value; longer annotations are left out. */
const TEXT_CHARS_MAX = 63;
const ANNOTATIONS = "prometheus.io/";

const parsePortNumber = parseWhole({ min: 1, max: 65_535 });

/** Reads a Pod; one without a node or an address yet is good. */
export const parseScrapePod = (object: unknown): Parsed<ScrapePod> =>
  reading({ kind: "Pod", object }, (root) => {
    const metadata = fieldOf(root, "metadata");
    const conditions = itemsOf(fieldAtIfPresent(root, "status", "conditions"), {
      max: CONDITIONS_MAX,
    });
    return {
      namespace: take(fieldOf(metadata, "namespace"), parseName),
      name: take(fieldOf(metadata, "name"), parseName),
      node: takeOr({
        field: fieldAtIfPresent(root, "spec", "nodeName"),
        parse: parseName,
        standard: "",
      }),
      isReady: conditions.some(
        (item) =>
          fieldOf(item, "type").value === "Ready" && fieldOf(item, "status").value === "True",
      ),
      addresses: itemsOf(fieldAtIfPresent(root, "status", "podIPs"), { max: ADDRESSES_MAX }).map(
        (item) => take(fieldOf(item, "ip"), parseIp),
      ),
      ports: itemsOf(fieldAtIfPresent(root, "spec", "containers"), { max: CONTAINERS_MAX }).flatMap(
        takePorts,
      ),
      labels: take(fieldOf(metadata, "labels"), parseTexts),
      annotations: Object.fromEntries(
        Object.entries(take(fieldOf(metadata, "annotations"), parseTexts)).filter(([name]) =>
          name.startsWith(ANNOTATIONS),
        ),
      ),
    };
  });

/** Prometheus speaks TCP. */
const takePorts = (item: Field): readonly ScrapePort[] => {
  const container = take(fieldOf(item, "name"), parseName);
  return itemsOf(fieldOf(item, "ports"), { max: PORTS_MAX })
    .filter((port) => (fieldOf(port, "protocol").value ?? "TCP") === "TCP")
    .map((port) => ({
      container,
      name: takeOr({ field: fieldOf(port, "name"), parse: parseName, standard: "" }),
      number: take(fieldOf(port, "containerPort"), parsePortNumber),
    }));
};

/** Keeps the first short texts: a label more or less is no reason to lose the pod. */
const parseTexts = (value: unknown): Parsed<Readonly<Record<string, string>>> => {
  if (isAbsent({ path: "", value })) return parsed({});
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return problem(`must be an object of texts, found ${quoted(value)}`);
  }
  const texts = Object.entries(value).filter(
    (entry): entry is [string, string] =>
      typeof entry[1] === "string" && entry[1].length <= TEXT_CHARS_MAX,
  );
  return parsed(Object.fromEntries(texts.slice(0, TEXTS_MAX)));
};
