/** Splits a watch's byte stream into lines and lines into events (Kubernetes API concepts, "watches"). */

import type { KubeErrorCode, KubeObject } from "#src/ports/kube.ts";
import { HostError } from "#src/ports/host-error.ts";

/** An object is at most 1.5 MiB in etcd and somewhat longer as JSON; a longer line is no event. */
export const WATCH_LINE_BYTES_MAX = 8 << 20;

export type WatchEvent =
  | { readonly kind: "upsert"; readonly object: KubeObject }
  | { readonly kind: "delete"; readonly object: KubeObject }
  | { readonly kind: "bookmark"; readonly resourceVersion: string }
  /** A Status object inside the stream; `code` is an HTTP status. */
  | { readonly kind: "error"; readonly code: number; readonly message: string };

const NEWLINE = 0x0a;

/** Collects chunks into lines; holds at most one line of `bytesMax`. */
export class LineFramer {
  readonly #bytesMax: number;
  #parts: Uint8Array[] = [];
  #bytes = 0;

  constructor(bytesMax = WATCH_LINE_BYTES_MAX) {
    this.#bytesMax = bytesMax;
  }

  /** The lines that `chunk` completes, without their ends and without empty ones. Throws HostError `bad-response`. */
  push(chunk: Uint8Array): readonly string[] {
    const lines: string[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      this.#keep(chunk.subarray(start, end));
      const line = Buffer.concat(this.#parts).toString("utf8").trim();
      this.#parts = [];
      this.#bytes = 0;
      if (line !== "") lines.push(line);
      start = end + 1;
    }
    this.#keep(Uint8Array.from(chunk.subarray(start)));
    return lines;
  }

  #keep(part: Uint8Array): void {
    this.#bytes += part.length;
    if (this.#bytes > this.#bytesMax) {
      throw new HostError<KubeErrorCode>(
        "bad-response",
        `a line of the watch is longer than ${this.#bytesMax} bytes`,
      );
    }
    if (part.length > 0) this.#parts.push(part);
  }
}

const isFields = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const badEvent = (what: string): HostError<KubeErrorCode> =>
  new HostError("bad-response", `the watch sent ${what}`);

/** Checks that a value has what every object has: metadata with a name. */
export const isKubeObject = (value: unknown): value is KubeObject =>
  isFields(value) &&
  isFields(value["metadata"]) &&
  typeof value["metadata"]["name"] === "string" &&
  value["metadata"]["name"] !== "" &&
  ["namespace", "uid", "resourceVersion", "creationTimestamp"].every((name) => {
    const field = isFields(value["metadata"]) ? value["metadata"][name] : undefined;
    return field === undefined || typeof field === "string";
  });

/** Reads one line of a watch. Throws HostError `bad-response` whose message never quotes the object. */
export const parseWatchLine = (line: string): WatchEvent => {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw badEvent("a line that is not JSON");
  }
  if (!isFields(value) || !isFields(value["object"])) throw badEvent("a line that is no event");
  const object = value["object"];
  switch (value["type"]) {
    case "ADDED":
    case "MODIFIED":
      if (!isKubeObject(object)) throw badEvent("an object without metadata.name");
      return { kind: "upsert", object };
    case "DELETED":
      if (!isKubeObject(object)) throw badEvent("an object without metadata.name");
      return { kind: "delete", object };
    case "BOOKMARK": {
      const metadata = isFields(object["metadata"]) ? object["metadata"] : {};
      const resourceVersion = metadata["resourceVersion"];
      if (typeof resourceVersion !== "string") throw badEvent("a bookmark without resourceVersion");
      return { kind: "bookmark", resourceVersion };
    }
    case "ERROR":
      return {
        kind: "error",
        code: typeof object["code"] === "number" ? object["code"] : 0,
        message: typeof object["message"] === "string" ? object["message"].slice(0, 300) : "",
      };
    default:
      throw badEvent("an event of an unknown type");
  }
};
