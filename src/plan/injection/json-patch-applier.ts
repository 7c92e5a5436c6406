/** Applies a JSON patch (RFC 6902) strictly, as an API server does: for tests and for showing what a pod would become. */

import type { JsonPatchOperation } from "#src/model/admission.ts";

type Json = Record<string, unknown>;

const object = (value: unknown): Json => {
  if (typeof value !== "object" || value === null) throw new Error("not an object");
  return Object(value);
};

/** Returns a changed copy; throws for a path that is not there. */
export function applyJsonPatch(pod: Json, patch: readonly JsonPatchOperation[]): Json {
  const root: Json = structuredClone(pod);
  for (const operation of patch) {
    switch (operation.op) {
      case "add":
      case "replace":
        put(root, operation.path, structuredClone(operation.value), operation.op);
        break;
      case "remove":
        take(root, operation.path);
        break;
      case "move":
        put(root, operation.path, take(root, operation.from), "add");
        break;
    }
  }
  return root;
}

function parentOf(root: Json, path: string): { parent: unknown; key: string } {
  const parts = path
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  const key = parts.pop();
  if (key === undefined) throw new Error("the whole document is not a target here");
  const parent = parts.reduce<unknown>((value, part) => {
    if (!Object.hasOwn(object(value), part)) throw new Error(`${path}: no ${part}`);
    return object(value)[part];
  }, root);
  return { parent, key };
}

function put(root: Json, path: string, value: unknown, op: "add" | "replace"): void {
  const { parent, key } = parentOf(root, path);
  if (!Array.isArray(parent)) {
    if (op === "replace" && !Object.hasOwn(object(parent), key)) throw new Error(`${path}: absent`);
    object(parent)[key] = value;
    return;
  }
  const at = key === "-" ? parent.length : Number(key);
  if (at > parent.length || (op === "replace" && at >= parent.length))
    throw new Error(`${path}: absent`);
  parent.splice(at, op === "add" ? 0 : 1, value);
}

function take(root: Json, path: string): unknown {
  const { parent, key } = parentOf(root, path);
  if (!Array.isArray(parent) || Number(key) >= parent.length) throw new Error(`${path}: absent`);
  const [value]: unknown[] = parent.splice(Number(key), 1);
  return value;
}
