/** What every Kube must do; run against the fake and, where one is given, a real API server. */

import type { Test } from "tap";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject } from "#src/ports/kube.ts";
import { CONFIG_MAPS, LEASES, SERVICES } from "#src/ports/kube-resource.ts";

export interface KubeSubject {
  readonly kube: Kube;
  /** An existing namespace that nobody else uses. */
  readonly namespace: string;
  /** Lets waiting work of the subject run; the condition is looked at again after each call. */
  readonly settle: () => Promise<void>;
}

type Opened = (t: Test) => Promise<KubeSubject>;

/** Adds the suite to `t`; every client that `open` makes is closed after its test. */
export const kubeCompliance = (t: Test, open: () => Promise<KubeSubject>): void => {
  const opened: Opened = async (t) => {
    const subject = await open();
    t.teardown(() => {
      subject.kube.close();
    });
    return subject;
  };
  testVerbs(t, opened);
  testWrites(t, opened);
  testFinalizers(t, opened);
  testStatus(t, opened);
  testReflector(t, opened);
};

const configMap = (namespace: string, name: string, data: object): KubeObject => ({
  metadata: { namespace, name },
  data,
});

const labelled = (namespace: string, name: string, data: object): KubeObject => ({
  metadata: { namespace, name, labels: { suite: "reflector" } },
  data,
});

/** Runs a call that must fail and answers its code. */
const codeOfFailure = async (call: Promise<unknown>): Promise<string> => {
  try {
    await call;
    return "none";
  } catch (error) {
    return isHostError(error) ? error.code : "no HostError";
  }
};

const testVerbs = (t: Test, opened: Opened): void => {
  void t.test("an object can be created, read, listed and deleted", async (t) => {
    const { kube, namespace } = await opened(t);
    const name = { namespace, name: "verbs" };
    const made = await kube.create(CONFIG_MAPS, configMap(namespace, "verbs", { a: "1" }));
    t.match(made.metadata, { name: "verbs", namespace, uid: String, resourceVersion: String });
    t.match(await kube.get(CONFIG_MAPS, name), { data: { a: "1" } });
    const fieldSelector = "metadata.name=verbs";
    t.equal((await kube.list(CONFIG_MAPS, { namespace, fieldSelector })).length, 1);
    await kube.delete(CONFIG_MAPS, name);
    t.equal(await codeOfFailure(kube.get(CONFIG_MAPS, name)), "not-found");
    t.equal((await kube.list(CONFIG_MAPS, { namespace, fieldSelector })).length, 0);
  });

  void t.test("deleting an absent object is success", async (t) => {
    const { kube, namespace } = await opened(t);
    await kube.delete(CONFIG_MAPS, { namespace, name: "never-there" });
    t.pass("no error");
  });

  void t.test(
    "a second create of one name fails with already-exists and names the object",
    async (t) => {
      const { kube, namespace } = await opened(t);
      await kube.create(CONFIG_MAPS, configMap(namespace, "twice", {}));
      const again = kube.create(CONFIG_MAPS, configMap(namespace, "twice", {}));
      await t.rejects(again, { code: "already-exists", message: /create ConfigMap .*\/twice/u });
      await kube.delete(CONFIG_MAPS, { namespace, name: "twice" });
    },
  );

  void t.test("a name that no server takes fails with invalid", async (t) => {
    const { kube, namespace } = await opened(t);
    const made = kube.create(CONFIG_MAPS, configMap(namespace, "Not A Name", {}));
    t.equal(await codeOfFailure(made), "invalid");
  });
};

const testWrites = (t: Test, opened: Opened): void => {
  void t.test("replacing with an old resourceVersion fails with conflict", async (t) => {
    const { kube, namespace } = await opened(t);
    const first = await kube.create(CONFIG_MAPS, configMap(namespace, "race", { a: "1" }));
    await kube.replace(CONFIG_MAPS, { ...first, data: { a: "2" } });
    const late = kube.replace(CONFIG_MAPS, { ...first, data: { a: "3" } });
    t.equal(await codeOfFailure(late), "conflict");
    await kube.delete(CONFIG_MAPS, { namespace, name: "race" });
  });

  void t.test("a write that changes nothing leaves the resourceVersion", async (t) => {
    const { kube, namespace } = await opened(t);
    const first = await kube.create(CONFIG_MAPS, configMap(namespace, "same", { a: "1" }));
    const patched = await kube.patch(
      CONFIG_MAPS,
      { namespace, name: "same" },
      { data: { a: "1" } },
    );
    t.equal(patched.metadata.resourceVersion, first.metadata.resourceVersion);
    await kube.delete(CONFIG_MAPS, { namespace, name: "same" });
  });

  void t.test("a merge patch sets, removes and keeps fields", async (t) => {
    const { kube, namespace } = await opened(t);
    await kube.create(CONFIG_MAPS, configMap(namespace, "merge", { a: "1", b: "2" }));
    const name = { namespace, name: "merge" };
    const patched = await kube.patch(CONFIG_MAPS, name, { data: { a: null, c: "3" } });
    t.strictSame(patched["data"], { b: "2", c: "3" });
    await kube.delete(CONFIG_MAPS, name);
  });

  void t.test("a patch with an old resourceVersion fails with conflict", async (t) => {
    const { kube, namespace } = await opened(t);
    const lease = { metadata: { namespace, name: "lease" }, spec: { holderIdentity: "a" } };
    const made = await kube.create(LEASES, lease);
    const name = { namespace, name: "lease" };
    await kube.patch(LEASES, name, { spec: { holderIdentity: "b" } });
    const { resourceVersion } = made.metadata;
    const late = kube.patch(LEASES, name, {
      metadata: { resourceVersion },
      spec: { holderIdentity: "c" },
    });
    t.equal(await codeOfFailure(late), "conflict");
    await kube.delete(LEASES, name);
  });

  void t.test("deleting with another uid fails with conflict and deletes nothing", async (t) => {
    const { kube, namespace } = await opened(t);
    const name = { namespace, name: "precondition" };
    await kube.create(CONFIG_MAPS, configMap(namespace, "precondition", {}));
    const uid = "11111111-1111-4111-8111-111111111111";
    t.equal(await codeOfFailure(kube.delete(CONFIG_MAPS, name, { uid })), "conflict");
    t.match(await kube.get(CONFIG_MAPS, name), { metadata: { name: "precondition" } });
    await kube.delete(CONFIG_MAPS, name);
  });
};

const testFinalizers = (t: Test, opened: Opened): void => {
  void t.test("an object with a finalizer stays, marked, until the last one is gone", async (t) => {
    const { kube, namespace } = await opened(t);
    const name = { namespace, name: "finalized" };
    const { metadata, ...rest } = configMap(namespace, "finalized", {});
    const finalizers = ["xylem.dev/test"];
    await kube.create(CONFIG_MAPS, { ...rest, metadata: { ...metadata, finalizers } });
    await kube.delete(CONFIG_MAPS, name);
    await kube.delete(CONFIG_MAPS, name);
    const held = await kube.get(CONFIG_MAPS, name);
    t.match(held.metadata, { deletionTimestamp: String, finalizers });
    const { resourceVersion } = held.metadata;
    await kube.patch(CONFIG_MAPS, name, { metadata: { resourceVersion, finalizers: [] } });
    t.equal(await codeOfFailure(kube.get(CONFIG_MAPS, name)), "not-found");
  });
};

const testStatus = (t: Test, opened: Opened): void => {
  void t.test("status is written by its own verbs only, and spec by the others only", async (t) => {
    const { kube, namespace } = await opened(t);
    const name = { namespace, name: "apart" };
    const port = { name: "x", port: 51820, protocol: "UDP" };
    const made = await kube.create(SERVICES, {
      metadata: name,
      spec: { type: "LoadBalancer", ports: [port] },
    });
    const ingress = [{ ip: "192.0.2.10" }];
    const status = { loadBalancer: { ingress } };
    const replaced = await kube.replace(SERVICES, { ...made, status });
    t.notMatch(replaced["status"], { loadBalancer: { ingress } }, "replace leaves status");
    const patched = await kube.patchStatus(SERVICES, name, { status });
    t.match(patched["status"], { loadBalancer: { ingress } });
    t.match(patched["spec"], { ports: [{ port: 51820 }] });
    await kube.delete(SERVICES, name);
  });
};

const testReflector = (t: Test, opened: Opened): void => {
  void t.test("a reflector holds the list, then every change, and stops", async (t) => {
    const { kube, namespace, settle } = await opened(t);
    await kube.create(CONFIG_MAPS, labelled(namespace, "before", { a: "1" }));
    let notices = 0;
    const onChange = (): void => {
      notices += 1;
    };
    const labelSelector = "suite=reflector";
    const removed: KubeObject[] = [];
    const onRemove = (object: KubeObject): void => void removed.push(object);
    const reflector = kube.reflect(CONFIG_MAPS, { namespace, onChange, onRemove, labelSelector });
    await reflector.synced();
    t.strictSame([...(reflector.items?.keys() ?? [])], [`${namespace}/before`]);
    await kube.create(CONFIG_MAPS, labelled(namespace, "after", {}));
    await kube.create(CONFIG_MAPS, configMap(namespace, "unlabelled", {}));
    await kube.patch(CONFIG_MAPS, { namespace, name: "before" }, { data: { a: "2" } });
    const until = async (done: () => boolean): Promise<void> => {
      for (let round = 0; round < 200 && !done(); round += 1) await settle();
      t.ok(done(), "the reflector catches up");
    };
    const before = `${namespace}/before`;
    const valueOf = (): unknown => Object(reflector.items?.get(before)?.["data"]).a;
    await until(() => reflector.items?.size === 2 && valueOf() === "2" && notices > 0);
    await kube.delete(CONFIG_MAPS, { namespace, name: "before" });
    await until(() => reflector.items?.has(before) === false);
    t.match(
      removed,
      [{ metadata: { name: "before" }, data: { a: "2" } }],
      "as its last version was",
    );
    t.equal(removed.length, 1);
    t.equal(reflector.state.kind, "live");
    reflector.stop();
    reflector.stop();
    t.equal(reflector.state.kind, "stopped");
    await kube.delete(CONFIG_MAPS, { namespace, name: "after" });
    await kube.delete(CONFIG_MAPS, { namespace, name: "unlabelled" });
  });
};
