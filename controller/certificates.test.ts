/** Certificates of the webhook: replicas agree, configurations follow, and no admission fails over a rotation. */

import { Agent, request as httpsRequest } from "node:https";
import t from "tap";
import { parseRotationSecret, rotationData } from "#src/codec/webhook-certificates-codec.ts";
import { realClock } from "#src/host/clock.ts";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { seededRandom } from "#src/host/random.ts";
import { makeGeneration } from "#src/host/webhook/certificate-maker.ts";
import { startWebhookServer, type WebhookServer } from "#src/host/webhook/webhook-server.ts";
import type {
  CertificateGeneration,
  CertificateRotation,
} from "#src/model/webhook-certificates.ts";
import { valueOf } from "#src/model/parsed.ts";
import { VALID_MS } from "#src/plan/injection/certificate-rotation.ts";
import { mutatingWebhookConfiguration } from "#src/plan/injection/webhook-objects.ts";
import { MUTATING_WEBHOOKS, SECRETS } from "#src/ports/kube-resource.ts";
import { CertificateKeeper } from "./certificates.ts";

const SECRET = { namespace: "xylem", name: "xylem-webhook-certificates" };
const NAMES = ["xylem-webhook.xylem.svc"];
const CONFIGURATION = { name: "xylem-injector" };
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

interface Replica {
  readonly keeper: CertificateKeeper;
  readonly served: CertificateGeneration[];
  onServe: (serving: CertificateGeneration) => void;
}

class World {
  readonly clock = new FakeClock({ startWallMs: Math.floor(Date.now() / 1000) * 1000 });
  readonly log = new FakeLog();
  readonly kube = new FakeKube({ clock: this.clock, log: this.log });
  readonly #keepers: CertificateKeeper[] = [];

  install(): void {
    const placement = { namespace: "xylem", service: "xylem-webhook", port: 443, ...CONFIGURATION };
    this.kube.seed(MUTATING_WEBHOOKS, mutatingWebhookConfiguration(placement));
  }

  replica(): Replica {
    const served: CertificateGeneration[] = [];
    const keeper = new CertificateKeeper({
      kube: this.kube,
      clock: this.clock,
      random: seededRandom(this.#keepers.length),
      log: this.log,
      secret: SECRET,
      names: NAMES,
      targets: [{ resource: MUTATING_WEBHOOKS, ...CONFIGURATION }],
      onServe: (serving) => {
        served.push(serving);
        replica.onServe(serving);
      },
    });
    const replica: Replica = { keeper, served, onServe: () => undefined };
    this.#keepers.push(keeper);
    return replica;
  }

  async serve(replica: Replica): Promise<WebhookServer> {
    const { serving } = replica.keeper;
    if (serving === null) throw new Error(replica.keeper.problem() ?? "");
    const server = await startWebhookServer({
      routes: { "/inject": () => ({ kind: "allow", patch: [], warnings: [] }) },
      serving,
      address: "127.0.0.1",
      port: 0,
      clock: realClock,
      log: this.log,
      drainMs: 0,
    });
    replica.onServe = (next) => server.setCertificate(next);
    return server;
  }

  /** The caBundle of the configuration; null: there is none. */
  bundle(): string | null {
    const { webhooks } = Object(this.kube.peek(MUTATING_WEBHOOKS, CONFIGURATION));
    const text: unknown = webhooks?.[0]?.clientConfig?.caBundle;
    return typeof text === "string" ? Buffer.from(text, "base64").toString() : null;
  }

  rotation(): CertificateRotation {
    return valueOf(parseRotationSecret(this.kube.peek(SECRETS, SECRET)));
  }

  async stop(): Promise<void> {
    await Promise.all(this.#keepers.map((keeper) => keeper.stop()));
    this.kube.close();
  }
}

/** Calls as an API server does: trusts the caBundle as it was a while ago, a new one means new connections. */
class ApiServer {
  readonly #world: World;
  readonly #lagMs: number;
  readonly #seen: { readonly atMs: number; readonly bundle: string | null }[] = [];
  #agent: { readonly bundle: string; readonly agent: Agent } | null = null;
  #calls = 0;

  constructor(world: World, lagMs: number) {
    this.#world = world;
    this.#lagMs = lagMs;
  }

  async review(port: number): Promise<void> {
    const nowMs = this.#world.clock.nowMs();
    this.#seen.push({ atMs: nowMs, bundle: this.#world.bundle() });
    const known = this.#seen.findLast(({ atMs }) => atMs <= nowMs - this.#lagMs) ?? this.#seen[0];
    const ca = known?.bundle ?? "";
    this.#calls += 1;
    // Every fifth call opens a new connection: load balancers and idle timeouts do that too.
    if (this.#agent?.bundle !== ca || this.#calls % 5 === 0) {
      this.#agent?.agent.destroy();
      const agent = new Agent({ ca, servername: NAMES[0], keepAlive: true });
      this.#agent = { bundle: ca, agent };
    }
    await send(this.#agent.agent, port, String(this.#calls));
  }

  close(): void {
    this.#agent?.agent.destroy();
  }
}

void t.test(
  "two replicas that start together agree on one certificate, and the configuration trusts it",
  async (t) => {
    const world = newWorld();
    const replicas = [world.replica(), world.replica()];
    await world.clock.advance(5_000);
    const [first, second] = replicas.map(({ served }) => served);
    t.equal(first?.length, 1);
    t.strictSame(first, second);
    t.equal(world.bundle(), first?.[0]?.authority);
    t.strictSame(
      replicas.map(({ keeper }) => keeper.problem()),
      [null, null],
    );
    t.equal(world.kube.writes.filter(({ object }) => object.startsWith("Secret")).length, 1);
    await world.stop();
  },
);

void t.test(
  "the chart's empty Secret is filled without a word, and stays the chart's",
  async (t) => {
    const world = newWorld();
    const labels = { "app.kubernetes.io/managed-by": "Helm" };
    world.kube.seed(SECRETS, {
      metadata: { ...SECRET, labels },
      type: "xylem.dev/webhook-certificates",
    });
    const { served } = world.replica();
    await world.clock.advance(5_000);
    t.equal(served.length, 1);
    const secret = world.kube.peek(SECRETS, SECRET);
    t.ok(parseRotationSecret(secret).ok);
    t.match(secret?.metadata, { labels });
    t.strictSame(
      world.log.lines.filter(({ level }) => level === "warn"),
      [],
    );
    await world.stop();
  },
);

void t.test("what is as it should be is not written again", async (t) => {
  const world = newWorld();
  world.replica();
  world.replica();
  await world.clock.advance(5_000);
  const writes = world.kube.writes.length;
  await world.clock.advance(10 * MINUTE_MS);
  t.equal(world.kube.writes.length, writes);
  await world.stop();
});

void t.test(
  "a configuration that is installed later, or loses its caBundle, gets it",
  async (t) => {
    const world = newWorld({ isInstalled: false });
    const { served } = world.replica();
    await world.clock.advance(5_000);
    t.equal(
      world.bundle(),
      null,
      "the controller makes no configuration: its chart does, and takes it away",
    );
    world.install();
    await world.clock.advance(5_000);
    t.equal(world.bundle(), served[0]?.authority);
    world.install();
    await world.clock.advance(5_000);
    t.equal(world.bundle(), served[0]?.authority);
    await world.stop();
  },
);

void t.test("a Secret that is deleted or spoilt is written anew with what is served", async (t) => {
  const world = newWorld();
  const { served } = world.replica();
  await world.clock.advance(5_000);
  await world.kube.delete(SECRETS, SECRET);
  await world.clock.advance(5_000);
  t.match(world.rotation(), { kind: "steady", current: { authority: served[0]?.authority } });
  await world.kube.patch(SECRETS, SECRET, { data: { rotation: "bm8=" } });
  await world.clock.advance(5_000);
  t.match(world.rotation(), { kind: "steady", current: { authority: served[0]?.authority } });
  const other = makeGeneration({ names: NAMES, nowMs: world.clock.wallMs(), validMs: VALID_MS });
  const [first] = served;
  if (first === undefined) throw new Error("nothing is served");
  const mixed = { kind: "steady", current: { ...first, key: other.key } } as const;
  await world.kube.patch(SECRETS, SECRET, { data: rotationData(mixed) });
  await world.clock.advance(5_000);
  t.strictSame(world.rotation(), { kind: "steady", current: first });
  t.equal(served.length, 1);
  await world.stop();
});

void t.test(
  "a failing API server changes nothing that is served; a replica that is blind for long says so",
  async (t) => {
    const world = newWorld();
    const { keeper, served } = world.replica();
    await world.clock.advance(5_000);
    world.kube.breakDown();
    await world.clock.advance(10 * MINUTE_MS);
    t.equal(keeper.problem(), null);
    await world.clock.advance(6 * MINUTE_MS);
    t.match(keeper.problem(), /could not be read for 1[56] minutes/);
    t.equal(served.length, 1);
    world.kube.recover();
    await world.clock.advance(2 * MINUTE_MS);
    t.equal(keeper.problem(), null);
    await world.stop();
  },
);

void t.test("before the first certificate a replica says what it waits for", async (t) => {
  const world = newWorld();
  world.kube.breakDown("forbidden");
  const { keeper } = world.replica();
  await world.clock.advance(1_000);
  t.match(keeper.problem(), /forbidden|outage/);
  await world.stop();
});

void t.test("no key is ever logged or shown", async (t) => {
  const world = newWorld();
  const { keeper } = world.replica();
  await world.clock.advance(5_000);
  t.notMatch(JSON.stringify([world.log.lines, keeper.status()]), "PRIVATE KEY");
  await world.stop();
});

void t.test(
  "I41 no admission of 1,000 fails while certificate and authority are renewed, with two replicas and two API servers that lag",
  { timeout: 120_000 },
  async (t) => {
    const world = newWorld();
    // Some minutes before its renewal is due; real TLS looks at the real clock.
    const wallMs = world.clock.wallMs();
    const nowMs = wallMs - 60 * DAY_MS + 25 * MINUTE_MS;
    const old = makeGeneration({ names: NAMES, nowMs, validMs: VALID_MS });
    world.kube.seed(SECRETS, {
      metadata: SECRET,
      data: rotationData({ kind: "steady", current: old }),
    });
    const replicas = [world.replica(), world.replica()];
    await world.clock.advance(1_000);
    const servers = await Promise.all(replicas.map((replica) => world.serve(replica)));
    const apiServers = [new ApiServer(world, 0), new ApiServer(world, 4 * MINUTE_MS)];
    const phases = new Set<string>();
    const failures: string[] = [];
    await world.clock.advance(renewalOf(old) - wallMs - MINUTE_MS);
    for (let call = 0; call < 1_000; call += 1) {
      await world.clock.advance(3_000);
      phases.add(world.rotation().kind);
      const server = servers[call % 2];
      const apiServer = apiServers[(call >> 1) % 2];
      if (server === undefined || apiServer === undefined) throw new Error("no server");
      await apiServer.review(server.port).catch((error: unknown) => failures.push(String(error)));
    }
    t.strictSame(failures, []);
    t.strictSame([...phases].toSorted(), ["announcing", "overlapping", "steady"]);
    const rotation = world.rotation();
    t.equal(rotation.kind, "steady");
    t.equal(world.bundle(), rotation.kind === "steady" ? rotation.current.authority : "");
    t.not(world.bundle(), old.authority, "the old authority is not trusted any more");
    for (const { served } of replicas) t.equal(served.length, 2);
    for (const apiServer of apiServers) apiServer.close();
    await Promise.all(servers.map((server) => server.close()));
    await world.stop();
  },
);

// Helpers.

const renewalOf = ({ notBeforeMs, notAfterMs }: CertificateGeneration): number =>
  notBeforeMs + ((notAfterMs - notBeforeMs) * 2) / 3;

function newWorld({ isInstalled = true } = {}): World {
  const world = new World();
  if (isInstalled) world.install();
  return world;
}

function send(agent: Agent, port: number, uid: string): Promise<void> {
  const kind = { group: "", version: "v1", kind: "Pod" };
  const request = { uid, kind, namespace: "a", operation: "CREATE", object: {} };
  const body = JSON.stringify({
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request,
  });
  const headers = { "content-type": "application/json" };
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const options = { agent, host: "127.0.0.1", port, path: "/inject", method: "POST", headers };
  const call = httpsRequest(options, (response) => {
    let text = "";
    response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
    response.on("error", reject).on("end", () => {
      if (text.includes(`"uid":"${uid}","allowed":true`)) resolve();
      else reject(new Error(`answer ${response.statusCode}: ${text}`));
    });
  });
  call.on("error", reject).end(body);
  return promise;
}
