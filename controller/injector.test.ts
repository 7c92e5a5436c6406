/** The injector with an API server in memory: verdicts, Events, metrics, options, the audit, and all of it over TLS. */

import { Agent, request as httpsRequest } from "node:https";
import { Command } from "commander";
import { Registry } from "prom-client";
import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { seededRandom } from "#src/host/random.ts";
import type { AdmissionRequest } from "#src/model/admission.ts";
import { parseInjectionOptions } from "#src/model/injection-config.ts";
import { valueOf } from "#src/model/parsed.ts";
import { applyJsonPatch } from "#src/plan/injection/json-patch-applier.ts";
import { mutatingWebhookConfiguration } from "#src/plan/injection/webhook-objects.ts";
import type { KubeObject } from "#src/ports/kube.ts";
import { MUTATING_WEBHOOKS, NAMESPACES, PODS, REPORTED_EVENTS } from "#src/ports/kube-resource.ts";
import { InjectionAudit } from "./injection-audit.ts";
import { InjectionEvents } from "./injection-events.ts";
import { Injector } from "./injector.ts";
import { createInjectorMetrics } from "./injector-metrics.ts";
import { addInjectorOptions, type InjectorFlags, readInjectorOptions } from "./injector-options.ts";
import { startInjectorService } from "./injector-service.ts";

const NAMESPACE = "shoot--lab--alpha";
const IMAGE = "registry.example/xylem-gateway:0.1.0";
const CONFIG = valueOf(parseInjectionOptions({ image: IMAGE, ownNamespace: "xylem" }));
const OWNER = {
  apiVersion: "apps/v1",
  kind: "ReplicaSet",
  name: "kube-apiserver-5d9f",
  uid: "rs-1",
};

const REPLICA_SETS = {
  group: "apps",
  version: "v1",
  plural: "replicasets",
  kind: "ReplicaSet",
  isNamespaced: true,
};

class World {
  readonly clock = new FakeClock();
  readonly log = new FakeLog();
  readonly kube = new FakeKube({ clock: this.clock, log: this.log });
  readonly metrics = createInjectorMetrics({ audit: () => null, certificateEndsMs: () => null });
  readonly events = new InjectionEvents({
    kube: this.kube,
    clock: this.clock,
    log: this.log,
    instance: "xylem-controller-0",
    onEvent: this.metrics.onEvent,
  });
  readonly injector: Injector;

  constructor(labels: Record<string, string> = {}) {
    this.kube.seed(NAMESPACES, { metadata: { name: NAMESPACE, labels } });
    this.injector = new Injector({
      kube: this.kube,
      config: CONFIG,
      onDecision: this.metrics.onDecision,
      onNews: (news) => void this.events.tell(news),
    });
  }

  notes(): readonly unknown[] {
    return this.kube.peekAll(REPORTED_EVENTS).map((event) => event["note"]);
  }

  async metric(line: string): Promise<boolean> {
    return (await this.metrics.registry.metrics()).includes(line);
  }
}

void t.test(
  "a labelled pod gets the gateway, in a dry run the same, and no Event is written",
  async (t) => {
    const { injector, kube, clock } = new World();
    const verdict = await injector.review(asked({}));
    t.equal(verdict.kind, "allow");
    t.strictSame(verdict, await injector.review(asked({}, { isDryRun: true })));
    const pod = applyJsonPatch(podOf({}), verdict.kind === "allow" ? verdict.patch : []);
    t.match(pod, { spec: { initContainers: [{ name: "xylem-gateway", image: IMAGE }] } });
    await clock.advance(1_000);
    t.strictSame(kube.peekAll(REPORTED_EVENTS), []);
  },
);

void t.test(
  "I39 a hostNetwork pod starts without, and says so: warning, annotation, Event and metric",
  async (t) => {
    const world = new World();
    const verdict = await world.injector.review(asked({ hostNetwork: true }));
    t.match(verdict, {
      kind: "allow",
      warnings: [/no gateway: host-network: /],
      patch: [{ path: "/metadata/annotations", value: { "xylem.dev/injection-skipped": String } }],
    });
    await world.clock.advance(1_000);
    t.match(world.kube.peekAll(REPORTED_EVENTS), [
      {
        metadata: { namespace: NAMESPACE },
        type: "Warning",
        reason: "InjectionSkipped",
        action: "Inject",
        reportingController: "xylem.dev/injector",
        reportingInstance: "xylem-controller-0",
        regarding: { kind: "ReplicaSet", name: OWNER.name, uid: OWNER.uid, namespace: NAMESPACE },
        note: /^host-network: /,
      },
    ]);
    t.ok(await world.metric('xylem_injections_total{result="skip",reason="host-network"} 1'));
    t.ok(await world.metric('xylem_injector_events_total{outcome="written"} 1'));
  },
);

void t.test("a dry run changes nothing anywhere: no Event of a skip or a refusal", async (t) => {
  const world = new World({ "pod-security.kubernetes.io/enforce": "baseline" });
  await world.injector.review(asked({ hostNetwork: true }, { isDryRun: true }));
  t.match(await world.injector.review(asked({}, { isDryRun: true })), { kind: "deny" });
  await world.clock.advance(1_000);
  t.strictSame(world.kube.writes, []);
});

void t.test(
  "a pod in a namespace that forbids the mode is refused with the fix, and the Event repeats only after a while",
  async (t) => {
    const world = new World({ "pod-security.kubernetes.io/enforce": "restricted" });
    for (let time = 0; time < 5; time += 1) {
      t.match(await world.injector.review(asked({})), {
        kind: "deny",
        code: 403,
        message: /^xylem: pod-security: namespace shoot--lab--alpha enforces .*restricted/,
      });
      await world.clock.advance(60_000);
    }
    t.equal(world.notes().length, 1);
    await world.clock.advance(600_000);
    await world.injector.review(asked({}));
    await world.clock.advance(1_000);
    t.equal(world.notes().length, 2);
  },
);

void t.test("a label that changes counts at once", async (t) => {
  const world = new World();
  await world.clock.advance(1_000);
  t.match(await world.injector.review(asked({})), { kind: "allow" });
  const labels = { "pod-security.kubernetes.io/enforce": "baseline" };
  await world.kube.patch(NAMESPACES, { name: NAMESPACE }, { metadata: { labels } });
  await world.clock.advance(1_000);
  t.match(await world.injector.review(asked({})), { kind: "deny" });
});

void t.test("S2 a flood of reviews makes few Events, and the rest is counted", async (t) => {
  const world = new World();
  for (let at = 0; at < 500; at += 1) {
    await world.injector.review(asked({ hostNetwork: true }, {}, { ...OWNER, uid: `rs-${at}` }));
  }
  await world.clock.advance(100);
  t.equal(world.notes().length, 25);
  t.ok(await world.metric('xylem_injector_events_total{outcome="dropped"} 475'));
});

void t.test("an Event that can't be written holds up nothing and is tried again", async (t) => {
  const world = new World();
  world.kube.failNext("create", "forbidden");
  t.match(await world.injector.review(asked({ hostNetwork: true })), { kind: "allow" });
  await world.clock.advance(1_000);
  t.equal(world.notes().length, 0);
  await world.injector.review(asked({ hostNetwork: true }));
  await world.clock.advance(1_000);
  t.equal(world.notes().length, 1);
});

void t.test(
  "a namespace that the watch has not brought yet is asked for; one that can't be asked for fails the call",
  async (t) => {
    const { injector, kube } = new World();
    kube.seed(NAMESPACES, { metadata: { name: "new" } });
    t.match(await injector.review(asked({}, { namespace: "new" })), { kind: "allow" });
    kube.breakDown();
    await t.rejects(injector.review(asked({}, { namespace: "newer" })), { code: "unreachable" });
  },
);

void t.test(
  "what is no new pod passes, what is no readable pod is refused with its field",
  async (t) => {
    const { injector } = new World();
    const nothing = { kind: "allow", patch: [], warnings: [] } as const;
    t.strictSame(await injector.review(asked({}, { operation: "UPDATE" })), nothing);
    t.strictSame(await injector.review(asked({}, { kind: "apps/v1/Deployment" })), nothing);
    t.match(await injector.review(asked({ containers: [{}] })), {
      kind: "deny",
      code: 422,
      message: /spec\.containers\[0\]\.name/,
    });
  },
);

void t.test(
  "I38 options are refused at start, and without an image nothing is injected",
  async (t) => {
    const read = (...argv: string[]) => {
      const command = addInjectorOptions(new Command()).parse(argv, { from: "user" });
      return readInjectorOptions(command.opts<InjectorFlags>(), { POD_NAMESPACE: "xylem" });
    };
    t.strictSame(read(), { ok: true, value: null });
    t.match(read("--gateway-image", IMAGE), {
      ok: true,
      value: { port: 9449, service: "xylem-webhook", mayRecreate: false, config: { image: IMAGE } },
    });
    t.match(read("--gateway-image", "x y"), { ok: false, problem: /^image: / });
    t.match(read("--gateway-image", IMAGE, "--gateway-memory-limit", "1Mi"), {
      ok: false,
      problem: /memory limit/,
    });
    t.match(read("--gateway-image", IMAGE, "--webhook-service", "A"), {
      ok: false,
      problem: /webhook service/,
    });
    t.match(readInjectorOptions({ ...flags(), gatewayImage: IMAGE }, {}), {
      ok: false,
      problem: /own namespace/,
    });
  },
);

void t.test(
  "I31 pods that were made while the injector was down are found, and made anew only when told to",
  async (t) => {
    for (const mayRecreate of [false, true]) {
      const { clock, log, kube, injector } = new World();
      const running = { phase: "Running", conditions: [{ type: "Ready", status: "True" }] };
      for (const name of ["a", "b"]) {
        const made = podOf({}, { ...OWNER });
        const metadata = {
          ...made.metadata,
          name,
          namespace: NAMESPACE,
          creationTimestamp: `2026-01-01T00:00:0${name === "a" ? 1 : 2}Z`,
        };
        kube.seed(PODS, { ...made, metadata, status: running });
      }
      kube.seed(PODS, {
        metadata: { name: "other", namespace: NAMESPACE },
        spec: { containers: [] },
      });
      kube.seed(REPLICA_SETS, {
        metadata: { name: OWNER.name, namespace: NAMESPACE, uid: OWNER.uid },
        spec: { replicas: 2 },
        status: { readyReplicas: 2 },
      });
      let changes = 0;
      let recreated = 0;
      const audit = new InjectionAudit({
        kube,
        clock,
        random: seededRandom(1),
        log,
        config: CONFIG,
        namespaces: () => injector.namespaces(),
        mayRecreate,
        onChange: () => (changes += 1),
        onRecreated: () => (recreated += 1),
      });
      await clock.advance(30_000);
      t.equal(changes > 0, true);
      const names = kube.peekAll(PODS).map(({ metadata }) => metadata.name);
      if (mayRecreate) {
        t.ok(recreated >= 1);
        t.notOk(names.includes("a"), "the oldest goes first");
      } else {
        t.strictSame(names, ["a", "b", "other"]);
        t.match(audit.plan?.counts, { missing: 2 });
        t.match(audit.summary({ namespace: NAMESPACE, name: "alpha" }), {
          status: "False",
          message: /a \(missing\), b \(missing\)/,
        });
      }
      await audit.stop();
      injector.stop();
    }
  },
);

void t.test(
  "the whole service answers an API server that trusts its caBundle, and ends without a trace of itself",
  async (t) => {
    const clock = new FakeClock({ startWallMs: Date.now() });
    const log = new FakeLog();
    const kube = new FakeKube({ clock, log });
    kube.seed(NAMESPACES, { metadata: { name: NAMESPACE } });
    const placement = {
      namespace: "xylem",
      service: "xylem-webhook",
      port: 443,
      name: "xylem-injector",
    };
    kube.seed(MUTATING_WEBHOOKS, mutatingWebhookConfiguration(placement));
    const settings = valueOf(
      readInjectorOptions(
        { ...flags(), gatewayImage: IMAGE, webhookAddress: "127.0.0.1", webhookPort: 0 },
        { POD_NAMESPACE: "xylem" },
      ),
    );
    if (settings === null) throw new Error("the injector is off");
    const service = startInjectorService({
      kube,
      clock,
      random: seededRandom(1),
      log,
      settings,
      instance: "c-0",
    });
    t.type(service.problem(), "string");
    while (service.problem() !== null) await clock.advance(200);
    const { webhooks } = Object(kube.peek(MUTATING_WEBHOOKS, { name: "xylem-injector" }));
    const ca = Buffer.from(webhooks[0].clientConfig.caBundle, "base64").toString();
    const agent = new Agent({ ca, servername: "xylem-webhook.xylem.svc" });
    const answer = await post(agent, service.port() ?? 0, reviewOf(podOf({})));
    t.match(answer, { response: { uid: "u1", allowed: true, patchType: "JSONPatch" } });
    const text = await Registry.merge([service.registry]).metrics();
    t.match(text, /xylem_webhook_review_seconds_count\{path="\/inject",outcome="patched"\} 1/);
    t.match(text, /xylem_injections_total\{result="inject",reason=""\} 1/);
    t.match(text, /xylem_webhook_certificate_end_seconds \d+/);
    agent.destroy();
    const stopped = service.stop();
    t.match(service.problem(), /stopping/);
    await clock.advance(10_000);
    await stopped;
    kube.close();
    t.equal(clock.pending, 0);
  },
);

// Helpers.

function flags(): InjectorFlags {
  return {
    webhookAddress: "::",
    webhookPort: 9449,
    webhookService: "xylem-webhook",
    webhookConfiguration: "xylem-injector",
  };
}

function podOf(spec: object, owner = OWNER): KubeObject & Record<string, unknown> {
  return {
    metadata: {
      name: "",
      generateName: "kube-apiserver-5d9f-",
      labels: { "xylem.dev/tunnel": "alpha" },
      ownerReferences: [{ ...owner, controller: true }],
    },
    spec: { containers: [{ name: "kube-apiserver" }], ...spec },
  };
}

function asked(
  spec: object,
  more: Partial<AdmissionRequest> = {},
  owner = OWNER,
): AdmissionRequest {
  return {
    uid: "u1",
    kind: "v1/Pod",
    operation: "CREATE",
    namespace: NAMESPACE,
    name: null,
    isDryRun: false,
    object: podOf(spec, owner),
    oldObject: null,
    ...more,
  };
}

function reviewOf(object: unknown): string {
  const kind = { group: "", version: "v1", kind: "Pod" };
  const request = { uid: "u1", kind, namespace: NAMESPACE, operation: "CREATE", object };
  return JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request });
}

function post(agent: Agent, port: number, body: string): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const headers = { "content-type": "application/json" };
  const options = { agent, host: "127.0.0.1", port, path: "/inject", method: "POST", headers };
  const call = httpsRequest(options, (response) => {
    let text = "";
    response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
    response.on("error", reject).on("end", () => resolve(JSON.parse(text)));
  });
  call.on("error", reject).end(body);
  return promise;
}
