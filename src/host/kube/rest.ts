/** The real Kube port: typed verbs and reflectors over one API server's REST interface. */

import type { Clock } from "#src/ports/clock.ts";
import type {
  Kube,
  KubeListOptions,
  KubeName,
  KubeObject,
  KubeResource,
  ReflectOptions,
  Reflector,
} from "#src/ports/kube.ts";
import { describeObject } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import type { CredentialsSource } from "./credentials.ts";
import { KubeError } from "./kube-failure.ts";
import { collectionPath, listQuery, objectPath } from "./resource-path.ts";
import { SourceReflector } from "./reflector.ts";
import type { ListPage, ReflectorSource } from "./reflector.ts";
import { ITEMS_MAX } from "./reflector-machine.ts";
import { KubeTransport } from "./transport.ts";
import { LineFramer, isKubeObject, parseWatchLine } from "./watch-stream.ts";

/** Objects a page: what client-go's pager asks for. */
const PAGE_ITEMS = 500;

export interface ConnectOptions {
  readonly credentials: CredentialsSource;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: Random;
  /** E.g. `xylem-agent/0.1.0`. */
  readonly userAgent: string;
  /** First lists of reflectors spread over this time; 0 (default): at once. */
  readonly startJitterMs?: number;
  /** Longest wait of a reflector after a failure, in milliseconds; default 30 s. */
  readonly backoffMsMax?: number;
  /** Longest time for one call, in milliseconds; default 10 s. */
  readonly callMsMax?: number;
}

/** Opens a client; no byte is sent before the first call. */
export const connectKube = (options: ConnectOptions): Kube => {
  const transport = new KubeTransport(options);
  const reflectors = new Set<SourceReflector>();
  const reflect = (resource: KubeResource, want: ReflectOptions): Reflector => {
    const reflector: SourceReflector = new SourceReflector({
      source: restSource(transport, resource, want),
      clock: options.clock,
      random: options.random,
      log: options.log,
      subject: `${resource.plural}${want.namespace === undefined ? "" : ` in ${want.namespace}`}`,
      onChange: want.onChange,
      onStop: () => {
        reflectors.delete(reflector);
      },
      ...(want.prune === undefined ? {} : { prune: want.prune }),
      ...(want.onRemove === undefined ? {} : { onRemove: want.onRemove }),
      ...(options.startJitterMs === undefined ? {} : { startJitterMs: options.startJitterMs }),
      ...(options.backoffMsMax === undefined ? {} : { backoffMsMax: options.backoffMsMax }),
    });
    reflectors.add(reflector);
    return reflector.start();
  };
  return {
    ...objectVerbs(transport),
    reflect,
    close: () => {
      for (const reflector of reflectors) reflector.stop();
      transport.close();
    },
  };
};

const asObject = (transport: KubeTransport, what: string, value: unknown): KubeObject => {
  if (isKubeObject(value)) return value;
  throw new KubeError("bad-response", `${transport.server}: ${what}: the answer is no object`);
};

const MERGE_PATCH = "application/merge-patch+json";

const objectVerbs = (transport: KubeTransport): Omit<Kube, "reflect" | "close"> => {
  const put = async (
    resource: KubeResource,
    object: KubeObject,
    subresource?: "status",
  ): Promise<KubeObject> => {
    const what = `replace ${describeObject(resource, object.metadata)}${subresource === undefined ? "" : " status"}`;
    const path = objectPath(resource, object.metadata, subresource);
    const body = withKind(resource, object);
    return asObject(transport, what, await transport.call({ method: "PUT", path, what, body }));
  };
  const merge = async (
    resource: KubeResource,
    name: KubeName,
    body: object,
    subresource?: "status",
  ): Promise<KubeObject> => {
    const what = `patch ${describeObject(resource, name)}${subresource === undefined ? "" : " status"}`;
    const path = objectPath(resource, name, subresource);
    const request = { method: "PATCH", path, what, body, contentType: MERGE_PATCH } as const;
    return asObject(transport, what, await transport.call(request));
  };
  return {
    get: async (resource, name) => {
      const what = `get ${describeObject(resource, name)}`;
      const path = objectPath(resource, name);
      return asObject(transport, what, await transport.call({ method: "GET", path, what }));
    },
    list: (resource, want = {}) => listAll(transport, resource, want),
    create: async (resource, object) => {
      const what = `create ${describeObject(resource, object.metadata)}`;
      const path = collectionPath(resource, object.metadata.namespace);
      const whole = withKind(resource, object);
      const isQuestion = resource.isQuestion === true;
      const body = isQuestion ? { ...whole, metadata: {} } : whole;
      const answer = await transport.call({ method: "POST", path, what, body });
      const { metadata } = object;
      return asObject(transport, what, isQuestion ? { ...Object(answer), metadata } : answer);
    },
    replace: (resource, object) => put(resource, object),
    replaceStatus: (resource, object) => put(resource, object, "status"),
    patch: (resource, name, patch) => merge(resource, name, patch),
    patchStatus: (resource, name, patch) => merge(resource, name, patch, "status"),
    delete: async (resource, name, preconditions = {}) => {
      const what = `delete ${describeObject(resource, name)}`;
      const body = { kind: "DeleteOptions", apiVersion: "v1", preconditions };
      try {
        await transport.call({ method: "DELETE", path: objectPath(resource, name), what, body });
      } catch (error) {
        if (!(error instanceof KubeError) || error.code !== "not-found") throw error;
      }
    },
  };
};

/** Items of lists and many objects in code have no kind of their own; bodies need it. */
const withKind = (resource: KubeResource, object: KubeObject): KubeObject => ({
  ...object,
  apiVersion: resource.group === "" ? resource.version : `${resource.group}/${resource.version}`,
  kind: resource.kind,
});

const listPage = async (
  transport: KubeTransport,
  resource: KubeResource,
  want: KubeListOptions,
  call: { readonly next: string | null; readonly signal?: AbortSignal },
): Promise<ListPage> => {
  const what = `list ${resource.plural}${want.namespace === undefined ? "" : ` in ${want.namespace}`}`;
  const query = listQuery(want, { limit: String(PAGE_ITEMS), continue: call.next ?? undefined });
  const value = await transport.call({
    method: "GET",
    path: collectionPath(resource, want.namespace) + query,
    what,
    ...(call.signal === undefined ? {} : { signal: call.signal }),
  });
  const fail = (text: string): KubeError =>
    new KubeError("bad-response", `${transport.server}: ${what}: ${text}`);
  if (typeof value !== "object" || value === null || !("metadata" in value)) {
    throw fail("the answer is no list");
  }
  const metadata = value.metadata;
  const items: unknown = "items" in value ? (value.items ?? []) : null;
  if (typeof metadata !== "object" || metadata === null || !Array.isArray(items)) {
    throw fail("the answer is no list");
  }
  const broken = items.findIndex((item: unknown) => !isKubeObject(item));
  if (broken >= 0) throw fail(`item ${broken} has no metadata.name`);
  const version = "resourceVersion" in metadata ? metadata.resourceVersion : undefined;
  if (typeof version !== "string" || version === "") throw fail("the list has no resourceVersion");
  const next = "continue" in metadata ? metadata.continue : undefined;
  return {
    items: items.filter(isKubeObject),
    resourceVersion: version,
    next: typeof next === "string" && next !== "" ? next : null,
  };
};

const listAll = async (
  transport: KubeTransport,
  resource: KubeResource,
  want: KubeListOptions,
): Promise<readonly KubeObject[]> => {
  const items: KubeObject[] = [];
  let next: string | null = null;
  do {
    const page: ListPage = await listPage(transport, resource, want, { next });
    items.push(...page.items);
    next = page.next;
    if (items.length > ITEMS_MAX || (next !== null && page.items.length === 0)) {
      const text = `the server lists more than ${ITEMS_MAX} objects or pages without end`;
      throw new KubeError("bad-response", `${transport.server}: list ${resource.plural}: ${text}`);
    }
  } while (next !== null);
  return items;
};

const restSource = (
  transport: KubeTransport,
  resource: KubeResource,
  want: KubeListOptions,
): ReflectorSource => ({
  page: (next, signal) => listPage(transport, resource, want, { next, signal }),
  watch: async (from, handlers, signal) => {
    const framer = new LineFramer();
    const query = listQuery(want, {
      watch: "true",
      allowWatchBookmarks: "true",
      resourceVersion: from.resourceVersion,
      timeoutSeconds: String(from.timeoutSeconds),
    });
    const path = collectionPath(resource, want.namespace) + query;
    const what = `watch ${resource.plural}${want.namespace === undefined ? "" : ` in ${want.namespace}`}`;
    await transport.stream(
      { method: "GET", path, what, signal },
      {
        onOpen: handlers.onOpen,
        onChunk: (chunk) => {
          for (const line of framer.push(chunk)) handlers.onEvent(parseWatchLine(line));
        },
      },
    );
  },
});
