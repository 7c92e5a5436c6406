/** A source for reflector tests: a small world of objects, a log of its changes, and faults on demand. */

import type { KubeErrorCode, KubeObject } from "#src/ports/kube.ts";
import { KubeError } from "./kube-failure.ts";
import type { ReflectorSource, WatchHandlers } from "./reflector.ts";
import type { WatchEvent } from "./watch-stream.ts";

interface OpenWatch {
  readonly handlers: WatchHandlers;
  readonly resolve: () => void;
  readonly reject: (error: KubeError) => void;
  readonly timeoutSeconds: number;
}

interface Change {
  readonly version: number;
  readonly event: WatchEvent;
}

/** `stall`: the call never answers. */
export type Fault = { readonly code: KubeErrorCode; readonly retryAfterMs?: number } | "stall";

export class ScriptedSource implements ReflectorSource {
  readonly lists: string[] = [];
  /** Versions that watches resumed from, in order. */
  readonly watches: { readonly from: string; readonly timeoutSeconds: number }[] = [];
  readonly objects = new Map<string, KubeObject>();
  /** Faults of the next lists and watches, first come first served. */
  readonly listFaults: Fault[] = [];
  readonly watchFaults: Fault[] = [];
  /** Open now; more than one is a bug of the reflector. */
  readonly open = new Set<OpenWatch>();
  openMax = 0;
  pageItems = 500;
  /** True: watches stay open and say nothing, not even their end. */
  isStalled = false;
  #version = 10;
  #changes: Change[] = [];

  put(name: string, fields: object = {}): void {
    const kind = "upsert" as const;
    const metadata = { name, uid: `uid-${name}`, resourceVersion: String(this.#version + 1) };
    const object = { metadata, ...fields };
    this.objects.set(name, object);
    this.#publish({ kind, object });
  }

  drop(name: string): void {
    this.objects.delete(name);
    const metadata = { name, uid: `uid-${name}`, resourceVersion: String(this.#version + 1) };
    this.#publish({ kind: "delete", object: { metadata } });
  }

  /** Tells the watch how far it is without an object. */
  bookmark(): void {
    this.#version += 1;
    this.tell({ kind: "bookmark", resourceVersion: String(this.#version) });
  }

  /** Sends an event on the open watch, whatever the world holds. */
  tell(event: WatchEvent): void {
    if (this.isStalled) return;
    for (const watch of this.open) watch.handlers.onEvent(event);
  }

  /** Forgets all changes: watches from before them are told 410. */
  compact(): void {
    this.#changes = [];
    this.#compacted = this.#version;
  }

  #compacted = 0;

  /** Ends the open watch as a server does at its timeout. */
  end(): void {
    for (const watch of this.open) watch.resolve();
  }

  /** Breaks the open watch. */
  break(code: KubeErrorCode = "unreachable"): void {
    for (const watch of this.open) watch.reject(new KubeError(code, `scripted: ${code}`));
  }

  async page(next: string | null, signal: AbortSignal) {
    this.lists.push(next ?? "first");
    await this.#suffer(this.listFaults.shift(), signal);
    const all = [...this.objects.values()];
    const start = next === null ? 0 : Number(next);
    const items = all.slice(start, start + this.pageItems);
    const isLast = start + this.pageItems >= all.length;
    return {
      items,
      resourceVersion: String(this.#version),
      next: isLast ? null : String(start + this.pageItems),
    };
  }

  async watch(
    want: { readonly resourceVersion: string; readonly timeoutSeconds: number },
    handlers: WatchHandlers,
    signal: AbortSignal,
  ): Promise<void> {
    this.watches.push({ from: want.resourceVersion, timeoutSeconds: want.timeoutSeconds });
    await this.#suffer(this.watchFaults.shift(), signal);
    const since = Number(want.resourceVersion);
    if (since < this.#compacted) throw new KubeError("gone", "scripted: too old resource version");
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const watch = { handlers, resolve, reject, timeoutSeconds: want.timeoutSeconds };
    this.open.add(watch);
    this.openMax = Math.max(this.openMax, this.open.size);
    signal.addEventListener("abort", () => {
      reject(new KubeError("unreachable", "given up"));
    });
    handlers.onOpen();
    if (!this.isStalled) {
      for (const change of this.#changes) {
        if (change.version > since) handlers.onEvent(change.event);
      }
    }
    try {
      await promise;
    } finally {
      this.open.delete(watch);
    }
  }

  #publish(event: WatchEvent): void {
    this.#version += 1;
    this.#changes.push({ version: this.#version, event });
    this.tell(event);
  }

  async #suffer(fault: Fault | undefined, signal: AbortSignal): Promise<void> {
    await Promise.resolve();
    if (fault === undefined) return;
    if (fault === "stall") {
      await new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          reject(new KubeError("unreachable", "given up"));
        });
      });
      return;
    }
    const { code, retryAfterMs = null } = fault;
    throw new KubeError(code, `scripted: ${code}`, { retryAfterMs });
  }
}
