/**
 * Address ranges through every entry (CLI, REST, webhook, schema) of a real API server, the one that XYLEM_TEST_KUBECONFIG
 * names: the same sentences, real calls of the webhook, real tokens, hostile sizes, seeds that change meanwhile.
 * A program of allocator.test.ts, which gives it a server of its own.
 */

import t, { type Test } from "tap";
import { parseCidr } from "#src/model/cidr.ts";
import {
  NAMESPACES,
  NETWORK_BLOCKS,
  NETWORK_CLAIMS,
  SEED_NETWORKS,
  VALIDATING_WEBHOOKS,
} from "#src/ports/kube-resource.ts";
import type { Kube } from "#src/ports/kube.ts";
import {
  BAD_SPELLINGS,
  claimSample,
  poolSample,
  seedSample,
} from "#src/reconcile/allocation-samples.ts";
import { runCidr } from "../../cli/cidr-samples.ts";
import {
  type AllocatorService,
  startAllocatorService,
} from "../../controller/allocator-service.ts";
import { refuseHostileSizes } from "./cidr-hostile.ts";
import { raceWithSeed } from "./cidr-race.ts";
import {
  applySchemas,
  chartConfiguration,
  CLUSTER_ROLE_BINDINGS,
  CLUSTER_ROLES,
  common,
  create,
  type Entries,
  eventually,
  kubeconfig,
  openKube,
  refusalOf,
  restCaller,
  ROLE_BINDINGS,
  ROLES,
  SERVICE_ACCOUNTS,
  spelled,
  tokenOf,
} from "./cidr-server.ts";

const OWN = "xylem-allocator-test";
const GRANTED = "shoot--granted";
const FOREIGN = "shoot--foreign";
const WEBHOOK = "allocation.xylem.dev";

/** Further mistakes that a schema must name as the parser does. */
const MORE_SPELLINGS: readonly string[] = [
  ...["", "/8", "1.2.3.4", "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/8/9", "10.0.0.0/8 ", "10.0.0.0/00"],
  ...["10..0.0/8", "10.0.0/24", "10.1/16", "10.0.0.0.0/8", "1000.0.0.0/8", "300.400.1.1/8"],
  ...["10.00.0.0/8", "10.0.0.256/32", "10.0.0.0/33333", "\t10.0.0.0/8", 'a"b/8', "a\\b/8"],
  ...["::/", "::/129", "::/00", "::1/64", "1:2/64", "12345::/64", "g::/64", ":1::/64", "1:::2/64"],
  ...["1:/64", "1:2:3:4:5:6:7:8:9/64", "1::2:3:4:5:6:7:8/64", "1::2:3:4:5:6:7:8:9/64"],
  ...[
    "::1.2.3/96",
    "::1.2.3.400/96",
    "::1.2.3.04/96",
    "::1.2.3.4.5/96",
    "1:2:3:4:5:6:7:8.8.9.1/128",
  ],
  ...["1:2:3:4:5:6:7.8.9.1/128", "2001:0db8::/32", "0:0:0:0:0:0:0:0/0", "[fe80::]/10"],
  ...["::FFFF:10.0.0.5/120", "::ffff:10.0.0.0/95", "fe80::1%eth0/64"],
];

const options = kubeconfig === "" ? { skip: "XYLEM_TEST_KUBECONFIG names no API server" } : {};

void t.test("address ranges on a real API server", { ...options, timeout: 300_000 }, async (t) => {
  const kube = openKube();
  await applySchemas(kube, { isLax: true });
  for (const name of [OWN, GRANTED, FOREIGN, "shoot--bad", "shoot--old", "shoot--race"]) {
    await kube.create(NAMESPACES, { metadata: { name } });
  }
  await create(kube, poolSample("p", ["10.0.0.0/12"]));
  await create(kube, seedSample("eu-1"));
  const service = startService(kube);
  t.teardown(async () => {
    await service.stop();
    kube.close();
  });
  const restPort = await eventually(async () => present(service.apiPort(), "the REST API"));
  const webhookPort = await eventually(async () => present(service.webhookPort(), "the webhook"));
  await t.test("claims and edits of their seed at the same time", (t) => raceWithSeed(t, kube));

  // Made before anything looked at it.
  await create(kube, spelled("10.0.0.5/24", "shoot--old"));
  await kube.create(VALIDATING_WEBHOOKS, await chartConfiguration(webhookPort));
  await eventually(async () => present(await refusalBy(kube, "webhook"), "the webhook's refusal"));
  const entries = { kube, restPort, call: restCaller(restPort, await giveRights(kube)) };

  const byWebhook = new Map<string, string>();
  for (const { text } of BAD_SPELLINGS) {
    byWebhook.set(text, await refusalOf(kube.create(NETWORK_CLAIMS, spelled(text).object)));
  }
  await applySchemas(kube, { isLax: false });
  await eventually(async () => present(await refusalBy(kube, "schema"), "the schema's refusal"));

  for (const row of BAD_SPELLINGS) {
    await t.test(
      `A27 ${JSON.stringify(row.text)} gets the same sentence from CLI, REST, webhook and schema`,
      (t) => sayTheSame(t, entries, { ...row, byWebhook: byWebhook.get(row.text) ?? "" }),
    );
  }
  await t.test("A27 schemas say of other mistakes what the parser says", (t) =>
    sayBySchema(t, kube),
  );
  await t.test("an object that is wrong already can be changed elsewhere", (t) =>
    changeElsewhere(t, kube),
  );
  await t.test("REST asks the API server who calls and what they may do", (t) =>
    callWithToken(t, entries),
  );
  await t.test(
    "a colliding claim is refused at admission, naming both parties, the range and what would fit",
    (t) => collide(t, entries),
  );
  await t.test("hostile sizes get a bounded, fast refusal from every entry", (t) =>
    refuseHostileSizes(t, entries),
  );
});

// Tests.

const sayTheSame = async (
  t: Test,
  { kube, call }: Entries,
  row: { readonly text: string; readonly write?: string; readonly byWebhook: string },
): Promise<void> => {
  const { text, byWebhook } = row;
  const sentence = sentenceOf(text);
  if (row.write !== undefined) t.match(sentence, `; write "${row.write}"`);
  const said = await runCidr(["check", text]);
  t.equal(said.code, 1);
  t.equal(said.out.split("\n")[0], sentence, "CLI");
  t.match(
    await call("POST", "check", { cidrs: [text] }),
    { status: 200, body: { results: [{ ok: false, problem: sentence }] } },
    "REST",
  );
  const spec = spelled(text).object["spec"];
  const claim = await call("POST", "claims", { namespace: GRANTED, name: "bad", spec });
  t.equal(claim.status, 422);
  const problem = String(Object(claim.body).problem);
  t.ok(problem.endsWith(`spec.nodes.ipv4.cidr: ${sentence}`), `REST: ${problem}`);
  t.ok(byWebhook.includes(WEBHOOK) && byWebhook.includes(sentence), `webhook: ${byWebhook}`);
  const bySchema = await refusalOf(kube.create(NETWORK_CLAIMS, spelled(text).object));
  t.ok(!bySchema.includes(WEBHOOK) && bySchema.includes(sentence), `schema: ${bySchema}`);
};

const sayBySchema = async (t: Test, kube: Kube): Promise<void> => {
  for (const text of MORE_SPELLINGS) {
    const said = await refusalOf(kube.create(NETWORK_CLAIMS, spelled(text).object));
    t.ok(said.includes(sentenceOf(text)), said);
  }
  for (const { object, resource } of [
    seedSample("bad", { pods: ["10.0.0.5/24"] }),
    seedSample("bad", { reserved: ["10.0.0.5/24"] }),
    poolSample("bad", ["10.0.0.5/24"]),
  ]) {
    t.match(await refusalOf(kube.create(resource, object)), sentenceOf("10.0.0.5/24"));
  }
  const loopback = await refusalOf(create(kube, spelled("127.1.0.0/16")));
  t.match(
    loopback,
    "127.1.0.0/16 overlaps 127.0.0.0/8, which is reserved (loopback): choose another range",
  );
};

const changeElsewhere = async (t: Test, kube: Kube): Promise<void> => {
  const edit = (patch: object) =>
    kube.patch(NETWORK_CLAIMS, { namespace: "shoot--old", name: "net" }, patch);
  const seeds = ["eu-1", "eu-2"];
  t.match(await edit({ metadata: { labels: { seen: "yes" } } }), { kind: "NetworkClaim" });
  t.match(await edit({ spec: { seeds } }), { spec: { seeds } });
  const worse = await refusalOf(edit({ spec: { nodes: { ipv4: { cidr: "10.0.0.7/24" } } } }));
  t.match(worse, sentenceOf("10.0.0.7/24"));
  const better = await edit({
    spec: { seeds: ["eu-1"], nodes: { ipv4: { cidr: "10.99.0.0/24" } } },
  });
  t.match(better, { spec: { nodes: { ipv4: { cidr: "10.99.0.0/24" } } } });
};

const callWithToken = async (t: Test, { call, restPort }: Entries): Promise<void> => {
  const stranger = restCaller(restPort, "not-a-token");
  t.match(await stranger("POST", "check", { cidrs: ["::/0"] }), { status: 401 });
  const spec = claimSample("x", { nodes: 24, pods: "10.200.0.0/16" }).object["spec"];
  const foreign = await call("POST", "claims", { namespace: FOREIGN, name: "net", spec });
  t.match(foreign, { status: 403, body: { problem: /networkclaims/u } });
  const wanted = { namespace: GRANTED, name: "net", spec };
  t.equal((await call("POST", "claims", wanted)).status, 201);
  t.equal((await call("POST", "claims", wanted)).status, 200, "the same again is no error");
  const has = await eventually(async () => {
    const { body } = await call("GET", `claims/${GRANTED}/net`);
    const { nodes } = Object(Object(body).status);
    return present(Array.isArray(nodes) && nodes.length === 1 ? body : null, "its status");
  });
  t.match(has, { status: { pods: ["10.200.0.0/16"], conditions: [{ status: "True" }] } });
};

const collide = async (t: Test, { kube, call }: Entries): Promise<void> => {
  const colliding = claimSample("bad", { nodes: "10.200.3.0/24" });
  await eventually(async () => {
    const asked = { namespace: GRANTED, name: "other", spec: colliding.object["spec"] };
    const { verdict } = Object((await call("POST", "plan", asked)).body);
    return present(verdict === "refused" ? verdict : null, "the block, at the allocator,");
  });
  const refusal = await refusalOf(create(kube, colliding));
  t.match(
    refusal,
    "nodes 10.200.3.0/24 of NetworkClaim shoot--bad/net lies inside pods 10.200.0.0/16 of NetworkClaim shoot--granted/net; clusters of one VPC (vpc-a) must be apart: choose another range, e.g. 10.0.",
  );
  t.match(refusal, /the first free \/24/u);
  const body = { namespace: GRANTED, name: "other", spec: colliding.object["spec"] };
  t.match(await call("POST", "claims", body), {
    status: 409,
    body: { problem: /lies inside pods 10\.200\.0\.0\/16 of NetworkClaim shoot--granted\/net/u },
  });
  t.match(
    await refusalOf(create(kube, claimSample("bad", { nodes: "10.241.1.0/24" }))),
    "nodes 10.241.1.0/24 of NetworkClaim shoot--bad/net lies inside pods 10.241.0.0/17 of SeedNetwork eu-1",
  );
  const seedEdit = { spec: { reserved: ["10.200.9.0/24"] } };
  t.match(
    await refusalOf(kube.patch(SEED_NETWORKS, { name: "eu-1" }, seedEdit)),
    /10\.200\.9\.0\/24 of SeedNetwork eu-1 lies inside pods 10\.200\.0\.0\/16 of NetworkClaim/u,
  );
  const freeing = kube.delete(NETWORK_BLOCKS, { name: "10.200.0.0-16.vpc-a" });
  t.match(await refusalOf(freeing), "delete the claim, and it is freed by itself");
  t.equal((await call("DELETE", `claims/${GRANTED}/net`)).status, 204);
  t.match(await eventually(() => create(kube, colliding)), { kind: "NetworkClaim" });
};

// Helpers.

const startService = (kube: Kube): AllocatorService =>
  startAllocatorService({
    ...common,
    kube,
    names: ["127.0.0.1"],
    settings: {
      api: { address: "127.0.0.1", port: 0, tls: null },
      configuration: "xylem-allocator",
      webhook: { ownNamespace: OWN, address: "127.0.0.1", port: 0, service: "xylem-webhook" },
    },
    version: "0",
  });

const present = <T>(value: T | null, what: string): T => {
  if (value === null) throw new Error(`${what} is not there yet`);
  return value;
};

/** What a bad claim is refused with, if it is by this one; it is not made. */
const refusalBy = async (kube: Kube, who: "webhook" | "schema"): Promise<string | null> => {
  const said = await refusalOf(create(kube, spelled("10.0.0.5/24")));
  const isMade = said === "it was taken";
  if (isMade) await kube.delete(NETWORK_CLAIMS, { namespace: "shoot--bad", name: "net" });
  return !isMade && said.includes(WEBHOOK) === (who === "webhook") ? said : null;
};

/** What every entry must say. */
const sentenceOf = (text: string): string => {
  const read = parseCidr(text);
  if (read.ok) throw new Error(`${text} is canonical`);
  const fix = read.suggestion === undefined ? "" : `; write "${read.suggestion}"`;
  return `${read.problem}${fix}`;
};

/** Makes a service account that may make claims in one namespace; answers its token. */
const giveRights = async (kube: Kube): Promise<string> => {
  const account = { namespace: GRANTED, name: "provisioner" };
  await kube.create(SERVICE_ACCOUNTS, { metadata: account });
  const subjects = [{ kind: "ServiceAccount", ...account }];
  const rule = { apiGroups: ["xylem.dev"], resources: ["networkclaims"] };
  await kube.create(ROLES, {
    metadata: account,
    rules: [{ ...rule, verbs: ["create", "get", "delete"] }],
  });
  const apiGroup = "rbac.authorization.k8s.io";
  await kube.create(ROLE_BINDINGS, {
    metadata: account,
    roleRef: { apiGroup, kind: "Role", name: account.name },
    subjects,
  });
  // What `plan` asks for.
  const reader = { name: "provisioner-reads-blocks" };
  await kube.create(CLUSTER_ROLES, {
    metadata: reader,
    rules: [{ apiGroups: ["xylem.dev"], resources: ["networkblocks"], verbs: ["list"] }],
  });
  await kube.create(CLUSTER_ROLE_BINDINGS, {
    metadata: reader,
    roleRef: { apiGroup, kind: "ClusterRole", name: reader.name },
    subjects,
  });
  return await eventually(() => tokenOf(account));
};
