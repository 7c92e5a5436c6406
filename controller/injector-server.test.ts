/** The injector with a real API server, the one that XYLEM_TEST_KUBECONFIG names: its admission, its events, its trust. */

import t from "tap";
import { parseRotationSecret, rotationData } from "#src/codec/webhook-certificates-codec.ts";
import { realClock } from "#src/host/clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { kubeconfigFile } from "#src/host/kube/kubeconfig.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import { realRandom } from "#src/host/random.ts";
import { makeGeneration } from "#src/host/webhook/certificate-maker.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { CertificateRotation } from "#src/model/webhook-certificates.ts";
import { ANNOUNCE_MS, VALID_MS } from "#src/plan/injection/certificate-rotation.ts";
import { mutatingWebhookConfiguration } from "#src/plan/injection/webhook-objects.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { KubeObject } from "#src/ports/kube.ts";
import {
  MUTATING_WEBHOOKS,
  NAMESPACES,
  PODS,
  REPORTED_EVENTS,
  SECRETS,
} from "#src/ports/kube-resource.ts";
import { readInjectorOptions } from "./injector-options.ts";
import { type InjectorService, startInjectorService } from "./injector-service.ts";

const file = process.env["XYLEM_TEST_KUBECONFIG"] ?? "";
const options = file === "" ? { skip: "XYLEM_TEST_KUBECONFIG names no API server" } : {};

const OWN = "xylem-injector-test";
const NAMESPACE = "xylem-injected";
const GUARDED = "xylem-guarded";
const CONFIGURATION = { name: "xylem-injector-test" };
const SECRET = { namespace: OWN, name: "xylem-webhook-certificates" };

void t.test("injection on a real API server", options, async (t) => {
  const log = new FakeLog();
  const common = { clock: realClock, random: realRandom, log };
  const credentials = kubeconfigFile(file);
  const kube = connectKube({ ...common, credentials, userAgent: "xylem-test/0" });
  const enforce = { "pod-security.kubernetes.io/enforce": "baseline" };
  for (const [name, labels] of [
    [OWN, {}],
    [NAMESPACE, {}],
    [GUARDED, enforce],
  ] as const) {
    await kube.create(NAMESPACES, { metadata: { name, labels } });
  }
  const settings = valueOf(
    readInjectorOptions(
      {
        gatewayImage: "registry.example/xylem-gateway:0.1.0",
        webhookAddress: "127.0.0.1",
        webhookPort: 0,
        webhookService: "xylem-webhook",
        webhookConfiguration: CONFIGURATION.name,
      },
      { POD_NAMESPACE: OWN },
    ),
  );
  if (settings === null) throw new Error("the injector is off");
  const parts = { ...common, kube, settings, instance: "test", names: ["127.0.0.1"] };
  const service = startInjectorService(parts);
  await until(() => service.port() !== null);
  await install(service);
  t.teardown(async () => {
    await kube.delete(MUTATING_WEBHOOKS, CONFIGURATION);
    await service.stop();
    kube.close();
  });

  const create = (name: string, spec: object = {}, namespace = NAMESPACE): Promise<KubeObject> =>
    kube.create(PODS, {
      metadata: { namespace, name, labels: { "xylem.dev/tunnel": "alpha" } },
      spec: { containers: [{ name: "main", image: "registry.example/main:1" }], ...spec },
    });
  const first = await untilTrusted(() => create("first"));

  await t.test(
    "I48 the pod that the API server stores has the gateway first, with no mount but ours",
    async (t) => {
      const { initContainers, volumes, containers } = Object(first["spec"]);
      t.match(initContainers, [{ name: "xylem-gateway", restartPolicy: "Always" }]);
      t.strictSame(
        initContainers[0].volumeMounts.map((mount: { name: string }) => mount.name),
        ["xylem-tun", "xylem-state", "xylem-shoot", "xylem-seed"],
      );
      t.equal(containers.length, 1);
      t.ok(volumes.some((volume: { name: string }) => volume.name === "xylem-tun"));
      t.match(first.metadata.annotations, { "xylem.dev/injected": /^[0-9a-f]{16}$/ });
    },
  );

  await t.test("a pod that is copied from an injected one has one gateway", async (t) => {
    const { nodeName: _, ...spec } = Object(first["spec"]);
    const { labels, annotations } = first.metadata;
    const copy = await kube.create(PODS, {
      metadata: {
        namespace: NAMESPACE,
        name: "copy",
        ...(labels && { labels }),
        ...(annotations && { annotations }),
      },
      spec,
    });
    const { initContainers, volumes } = Object(copy["spec"]);
    t.equal(initContainers.length, 1);
    t.equal(volumes.length, Object(first["spec"]).volumes.length);
  });

  await t.test("I39 a hostNetwork pod starts without, with annotation and Event", async (t) => {
    const pod = await create("host", { hostNetwork: true });
    t.match(pod.metadata.annotations, { "xylem.dev/injection-skipped": /^host-network: / });
    t.equal(Object(pod["spec"]).initContainers, undefined);
    const events = (): Promise<readonly KubeObject[]> =>
      kube.list(REPORTED_EVENTS, { namespace: NAMESPACE });
    await until(async () => (await events()).length > 0);
    t.match(await events(), [{ reason: "InjectionSkipped", note: /^host-network: / }]);
  });

  await t.test("a namespace that enforces baseline refuses with our sentence", async (t) => {
    await t.rejects(
      create("guarded", {}, GUARDED),
      /pod-security: namespace xylem-guarded enforces/,
    );
  });

  await t.test("I41 pods are admitted all through a rotation", async (t) => {
    const held = async (): Promise<CertificateRotation> =>
      valueOf(parseRotationSecret(await kube.get(SECRETS, SECRET)));
    const before = await held();
    if (before.kind !== "steady") throw new Error(before.kind);
    const nowMs = Date.now();
    const next = makeGeneration({ names: before.current.names, nowMs, validMs: VALID_MS });
    const put = (rotation: CertificateRotation): Promise<unknown> =>
      kube.patch(SECRETS, SECRET, { data: rotationData(rotation) });
    let made = 0;
    const admit = async (isOver: () => Promise<boolean>): Promise<void> => {
      do {
        made += 1;
        await create(`rotation-${made}`);
      } while (!(await isOver()));
    };
    await put({ kind: "announcing", current: before.current, next, announcedMs: null });
    await admit(async () => {
      const now = await held();
      return (
        now.kind === "announcing" &&
        now.announcedMs !== null &&
        Date.now() - now.announcedMs > 2_000
      );
    });
    await put({
      kind: "announcing",
      current: before.current,
      next,
      announcedMs: nowMs - ANNOUNCE_MS,
    });
    await admit(async () => (await held()).kind === "overlapping");
    await put({ kind: "steady", current: next });
    const end = made + 50;
    await admit(async () => made >= end);
    t.ok(made > 50, `${made} pods`);
  });

  await t.test(
    "I30 without the injector labelled pods are refused, and all others are not held up",
    async (t) => {
      await service.stop();
      await t.rejects(create("late"), /inject\.xylem\.dev/);
      await kube.create(PODS, {
        metadata: { namespace: NAMESPACE, name: "unlabelled" },
        spec: { containers: [{ name: "main", image: "registry.example/main:1" }] },
      });
      t.ok(await create("own", {}, OWN), "its own namespace comes up without it");
    },
  );

  /** The webhook is called by its address: this server has no network of Services. */
  async function install(served: InjectorService): Promise<void> {
    const placement = { namespace: OWN, service: "xylem-webhook", port: 443, ...CONFIGURATION };
    const { webhooks, ...configuration } = mutatingWebhookConfiguration(placement);
    const url = `https://127.0.0.1:${served.port()}/inject`;
    await kube.create(MUTATING_WEBHOOKS, {
      ...configuration,
      webhooks: webhooks.map((webhook) => ({ ...webhook, clientConfig: { url } })),
    });
  }
});

// Helpers.

const PATIENCE_MS = 20_000;

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = Date.now() + PATIENCE_MS;
  while (!(await isSo())) {
    if (Date.now() > endMs) throw new Error("it did not come to pass");
    await new Promise((resolve) => void setTimeout(resolve, 50));
  }
}

/** Until the API server has heard of the configuration, the caBundle and the namespace's service account. */
async function untilTrusted(create: () => Promise<KubeObject>): Promise<KubeObject> {
  let pod: KubeObject | null = null;
  await until(async () => {
    try {
      pod = await create();
      return true;
    } catch (error) {
      if (!isHostError(error)) throw error;
      return false;
    }
  });
  if (pod === null) throw new Error("no pod");
  return pod;
}
