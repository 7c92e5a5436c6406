/** An API server whose calls wait until the scheduler lets them happen, and whose watches lag as the scheduler likes. */

import type { FakeKube } from "#src/host/kube/fake-kube.ts";
import { HostError } from "#src/ports/host-error.ts";
import type {
  Kube,
  KubeErrorCode,
  KubeListOptions,
  KubeName,
  KubeObject,
  KubeResource,
  Reflector,
} from "#src/ports/kube.ts";
import { describeObject, objectKey } from "#src/ports/kube-resource.ts";

/** A call on its way. */
export interface Call {
  readonly label: () => string;
  /** Happens at the server, and its answer arrives. */
  readonly land: () => Promise<void>;
  /** The caller is told that there was no answer; the call itself may still land. */
  readonly lose: () => void;
}

/** All states that a kind was in, the newest last: what a watch can show. */
export interface ShownHistory {
  /** Number of the newest state. */
  readonly newest: number;
  readonly at: (index: number) => ReadonlyMap<string, KubeObject>;
}

/** States that a person goes through, of a kind that allocators never write. */
export class WrittenHistory implements ShownHistory {
  readonly #states: ReadonlyMap<string, KubeObject>[];

  constructor(first: ReadonlyMap<string, KubeObject>) {
    this.#states = [first];
  }

  get newest(): number {
    return this.#states.length - 1;
  }

  at(index: number): ReadonlyMap<string, KubeObject> {
    return this.#states[index] ?? new Map();
  }

  write(state: ReadonlyMap<string, KubeObject>): void {
    this.#states.push(state);
  }
}

/** States of a kind at the server. */
export class History implements ShownHistory {
  readonly resource: KubeResource;
  readonly #server: FakeKube;
  readonly #states: ReadonlyMap<string, KubeObject>[];

  constructor(server: FakeKube, resource: KubeResource) {
    this.#server = server;
    this.resource = resource;
    this.#states = [this.#now()];
  }

  get newest(): number {
    return this.#states.length - 1;
  }

  at(index: number): ReadonlyMap<string, KubeObject> {
    return this.#states[index] ?? new Map();
  }

  /** Takes in what was just written; unchanged objects stay the same ones, as in a reflector. */
  record(): void {
    const before = this.at(this.newest);
    const now = this.#now();
    for (const [name, object] of now) {
      const held = before.get(name);
      if (held?.metadata.resourceVersion === object.metadata.resourceVersion) {
        if (held !== undefined) now.set(name, held);
      }
    }
    this.#states.push(now);
  }

  #now(): Map<string, KubeObject> {
    return new Map(
      this.#server.peekAll(this.resource).map((object) => [objectKey(object.metadata), object]),
    );
  }
}

export interface ScheduledKubeOptions {
  readonly server: FakeKube;
  readonly park: (call: Call) => void;
  /** Hears of each call that happened, whoever waits for it. */
  readonly onLanded: (resource: KubeResource) => void;
}

/** One client's connection. The calls of a client that was killed stay where they are. */
export class ScheduledKube implements Kube {
  readonly #options: ScheduledKubeOptions;

  constructor(options: ScheduledKubeOptions) {
    this.#options = options;
  }

  #parked<T>(
    what: { readonly verb: string; readonly resource: KubeResource; readonly name?: KubeName },
    run: (server: Kube) => Promise<T>,
  ): Promise<T> {
    const { server, park, onLanded } = this.#options;
    const { verb, resource, name } = what;
    const label = () =>
      `${verb} ${name === undefined ? resource.kind : describeObject(resource, name)}`;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    park({
      label,
      land: async () => {
        try {
          const value = await run(server);
          onLanded(resource);
          resolve(value);
        } catch (error) {
          reject(error);
        }
      },
      lose: () => {
        reject(new HostError<KubeErrorCode>("timeout", `world: ${label()}: no answer`));
      },
    });
    return promise;
  }

  get(resource: KubeResource, name: KubeName): Promise<KubeObject> {
    return this.#parked({ verb: "get", resource, name }, (server) => server.get(resource, name));
  }

  list(resource: KubeResource, options?: KubeListOptions): Promise<readonly KubeObject[]> {
    return this.#parked({ verb: "list", resource }, (server) => server.list(resource, options));
  }

  create(resource: KubeResource, object: KubeObject): Promise<KubeObject> {
    return this.#parked({ verb: "create", resource, name: object.metadata }, (server) =>
      server.create(resource, object),
    );
  }

  replace(resource: KubeResource, object: KubeObject): Promise<KubeObject> {
    return this.#parked({ verb: "replace", resource, name: object.metadata }, (server) =>
      server.replace(resource, object),
    );
  }

  replaceStatus(resource: KubeResource, object: KubeObject): Promise<KubeObject> {
    return this.#parked({ verb: "replaceStatus", resource, name: object.metadata }, (server) =>
      server.replaceStatus(resource, object),
    );
  }

  patch(resource: KubeResource, name: KubeName, patch: object): Promise<KubeObject> {
    return this.#parked({ verb: "patch", resource, name }, (server) =>
      server.patch(resource, name, patch),
    );
  }

  patchStatus(resource: KubeResource, name: KubeName, patch: object): Promise<KubeObject> {
    return this.#parked({ verb: "patchStatus", resource, name }, (server) =>
      server.patchStatus(resource, name, patch),
    );
  }

  delete(
    resource: KubeResource,
    name: KubeName,
    options?: { uid?: string; resourceVersion?: string },
  ): Promise<void> {
    return this.#parked({ verb: "delete", resource, name }, (server) =>
      server.delete(resource, name, options),
    );
  }

  /** Watches are the scheduler's: it hands out states of a `History`. */
  reflect(): Reflector {
    throw new Error("this world hands out states itself");
  }

  close(): void {}
}
