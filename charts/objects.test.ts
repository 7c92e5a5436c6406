/** The schemas, the admission policy and the roles do what they promise, on the API server that XYLEM_TEST_KUBECONFIG names. */

import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import t from "tap";
import { parseAllDocuments } from "yaml";
import { realClock } from "#src/host/clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { Hidden, fixedCredentials } from "#src/host/kube/credentials.ts";
import { kubeconfigFile } from "#src/host/kube/kubeconfig.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import { KubeTransport } from "#src/host/kube/transport.ts";
import { isKubeObject } from "#src/host/kube/watch-stream.ts";
import { realRandom } from "#src/host/random.ts";
import { slotMemoryNone } from "#src/host/slot-memory-file.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject, KubeResource } from "#src/ports/kube.ts";
import {
  EVENTS,
  LEASES,
  NODES,
  SECRETS,
  SERVICES,
  TUNNELS,
  TUNNEL_AGENTS,
  TUNNEL_GATEWAYS,
} from "#src/ports/kube-resource.ts";
import { SlotClaim } from "#src/reconcile/slot-claim.ts";

const file = process.env["XYLEM_TEST_KUBECONFIG"] ?? "";
const options = file === "" ? { skip: "XYLEM_TEST_KUBECONFIG names no API server" } : {};
const here = import.meta.dirname;
const NAMESPACE = "xylem-objects";
const KEY = "SjmWOSPIsL/Of6C8hBUZxen3UK7fTAXJjvney34oElE=";

const common = {
  clock: realClock,
  log: new FakeLog(),
  random: realRandom,
  userAgent: "xylem-test/0",
};

const RBAC = { group: "rbac.authorization.k8s.io", version: "v1" };
const ADMISSION = { group: "admissionregistration.k8s.io", version: "v1" };
const CLUSTER = { isNamespaced: false };
const CORE = { group: "", version: "v1" };

const KINDS: readonly KubeResource[] = [
  { ...CORE, ...CLUSTER, plural: "namespaces", kind: "Namespace" },
  { ...CORE, isNamespaced: true, plural: "serviceaccounts", kind: "ServiceAccount" },
  SERVICES,
  { ...RBAC, ...CLUSTER, plural: "clusterroles", kind: "ClusterRole" },
  { ...RBAC, ...CLUSTER, plural: "clusterrolebindings", kind: "ClusterRoleBinding" },
  { ...RBAC, isNamespaced: true, plural: "roles", kind: "Role" },
  { ...RBAC, isNamespaced: true, plural: "rolebindings", kind: "RoleBinding" },
  {
    ...ADMISSION,
    ...CLUSTER,
    plural: "validatingadmissionpolicies",
    kind: "ValidatingAdmissionPolicy",
  },
  {
    ...ADMISSION,
    ...CLUSTER,
    plural: "validatingadmissionpolicybindings",
    kind: "ValidatingAdmissionPolicyBinding",
  },
  {
    group: "apiextensions.k8s.io",
    version: "v1",
    ...CLUSTER,
    plural: "customresourcedefinitions",
    kind: "CustomResourceDefinition",
  },
];

const open = () => connectKube({ ...common, credentials: kubeconfigFile(file) });

/** Runs a call and answers `ok` or `code: message`. */
const outcome = async (call: Promise<unknown>): Promise<string> => {
  try {
    await call;
    return "ok";
  } catch (error) {
    return isHostError(error) ? `${error.code}: ${error.message}` : String(error);
  }
};

/** Waits for what an API server does a moment later, like serving a new kind. */
const eventually = async (call: () => Promise<unknown>): Promise<void> => {
  for (let round = 0; round < 100; round += 1) {
    if ((await outcome(call())) === "ok") return;
    await new Promise((resolve) => {
      setTimeout(resolve, 100);
    });
  }
  throw new Error(await outcome(call()));
};

const apply = async (kube: Kube, folder: string, namespace?: string): Promise<void> => {
  const files = (await readdir(join(here, folder))).filter((name) => name.endsWith(".yaml"));
  for (const name of files) {
    const text = await readFile(join(here, folder, name), "utf8");
    for (const document of parseAllDocuments(text)) {
      const object: unknown = document.toJS();
      if (!isKubeObject(object)) throw new Error(`${folder}/${name} holds no object`);
      const resource = KINDS.find(({ kind }) => kind === object.kind);
      if (resource === undefined) throw new Error(`${folder}/${name}: unknown ${object.kind}`);
      const scope = resource.isNamespaced && namespace !== undefined ? { namespace } : {};
      const metadata = { ...scope, ...object.metadata };
      try {
        await kube.create(resource, { ...object, metadata });
      } catch (error) {
        if (!isHostError(error) || error.code !== "already-exists") throw error;
        const { resourceVersion } = (await kube.get(resource, metadata)).metadata;
        await kube.replace(resource, {
          ...object,
          metadata: { ...metadata, ...(resourceVersion === undefined ? {} : { resourceVersion }) },
        });
      }
    }
  }
};

/** A client with the token of a service account, perhaps bound to a node as a pod's token is. */
const actAs = async (account: { namespace: string; name: string; node?: string }) => {
  const credentials = await kubeconfigFile(file).read({ fresh: false });
  const admin = new KubeTransport({ ...common, credentials: fixedCredentials(credentials) });
  const kube = open();
  const node = account.node === undefined ? null : await kube.get(NODES, { name: account.node });
  kube.close();
  const answer = await admin.call({
    method: "POST",
    path: `/api/v1/namespaces/${account.namespace}/serviceaccounts/${account.name}/token`,
    what: "request a token",
    body: {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: {
        audiences: null,
        expirationSeconds: 600,
        ...(node === null
          ? {}
          : {
              boundObjectRef: {
                apiVersion: "v1",
                kind: "Node",
                name: node.metadata.name,
                uid: node.metadata.uid,
              },
            }),
      },
    },
  });
  admin.close();
  const token = new Hidden(String(Object(Object(answer).status).token));
  return connectKube({
    ...common,
    credentials: fixedCredentials({ ...credentials, auth: { kind: "token", token } }),
  });
};

const agentOf = (node: string, more: object = {}): KubeObject => ({
  metadata: { namespace: "kube-system", name: node, ...more },
  spec: { publicKey: KEY, agentId: 7, port: 51820, version: "0.1.0" },
});

const install = async (kube: Kube): Promise<void> => {
  await apply(kube, "seed/schemas");
  await apply(kube, "shoot/schemas");
  await eventually(() => kube.list(TUNNELS));
  await eventually(() => kube.list(TUNNEL_AGENTS));
  await eventually(() => kube.list(TUNNEL_GATEWAYS));
  const [namespaces] = KINDS;
  if (namespaces === undefined) return;
  await kube.create(namespaces, { metadata: { name: NAMESPACE } }).catch(() => undefined);
  await apply(kube, "seed/manifests");
  await apply(kube, "seed/tunnel-manifests", NAMESPACE);
  await apply(kube, "shoot/manifests");
  for (const name of ["node-a", "node-b"]) {
    await kube.create(NODES, { metadata: { name } }).catch(() => undefined);
    await kube.delete(TUNNEL_AGENTS, { namespace: "kube-system", name });
  }
};

const RANGES = { nodes: ["10.250.0.0/20"], pods: ["10.222.0.0/17"], services: ["10.97.0.0/22"] };
const HOST_BITS = /must be a canonical CIDR without host bits/u;

const TUNNEL_CASES: readonly { name: string; spec: object; want: RegExp }[] = [
  { name: "only ranges", spec: { ranges: RANGES }, want: /^ok$/u },
  {
    name: "both families",
    spec: {
      ranges: {
        nodes: ["10.0.0.0/20", "fd00:1::/64"],
        pods: ["fd00:2::/48"],
        services: ["fd00:3::/112"],
      },
      transit: ["198.18.0.0/23", "fd00:f::/64"],
      endpoint: { host: "2001:db8::1", port: 1 },
      slots: 256,
      mtu: 9000,
    },
    want: /^ok$/u,
  },
  { name: "no spec.ranges", spec: {}, want: /spec\.ranges/u },
  { name: "empty pods", spec: { ranges: { ...RANGES, pods: [] } }, want: /spec\.ranges\.pods/u },
  { name: "host bits", spec: { ranges: { ...RANGES, nodes: ["10.250.0.1/20"] } }, want: HOST_BITS },
  { name: "no prefix", spec: { ranges: { ...RANGES, nodes: ["10.250.0.0"] } }, want: HOST_BITS },
  { name: "capitals", spec: { ranges: { ...RANGES, nodes: ["FD00::/64"] } }, want: HOST_BITS },
  {
    name: "a mapped block",
    spec: { ranges: { ...RANGES, pods: ["::ffff:10.0.0.0/104"] } },
    want: HOST_BITS,
  },
  {
    name: "one block twice",
    spec: { ranges: { ...RANGES, pods: ["10.0.0.0/8", "10.0.0.0/8"] } },
    want: /Duplicate value/u,
  },
  {
    name: "33 blocks",
    spec: { ranges: { ...RANGES, pods: Array.from({ length: 33 }, (_, i) => `10.${i}.0.0/16`) } },
    want: /Too many/u,
  },
  {
    name: "two transit ranges of one family",
    spec: { ranges: RANGES, transit: ["198.18.0.0/23", "198.19.0.0/23"] },
    want: /at most one range per family/u,
  },
  {
    name: "addresses of the seed, and maps for all",
    spec: {
      ranges: RANGES,
      mapped: "all",
      seedAddresses: [
        { name: "etcd", address: "10.97.0.7" },
        { name: "dns", address: "fd00::a" },
      ],
    },
    want: /^ok$/u,
  },
  {
    name: "an address of the seed that is a name",
    spec: { ranges: RANGES, seedAddresses: [{ name: "etcd", address: "etcd.example" }] },
    want: /must be a canonical IP address/u,
  },
  {
    name: "one name for two addresses of the seed",
    spec: {
      ranges: RANGES,
      seedAddresses: ["10.0.0.1", "10.0.0.2"].map((address) => ({ name: "dns", address })),
    },
    want: /Duplicate value/u,
  },
  { name: "another mapping", spec: { ranges: RANGES, mapped: "none" }, want: /spec\.mapped/u },
  { name: "no slot", spec: { ranges: RANGES, slots: 0 }, want: /spec\.slots/u },
  { name: "257 slots", spec: { ranges: RANGES, slots: 257 }, want: /spec\.slots/u },
  { name: "a small mtu", spec: { ranges: RANGES, mtu: 1279 }, want: /spec\.mtu/u },
  { name: "another mode", spec: { ranges: RANGES, mode: "tap" }, want: /spec\.mode/u },
  {
    name: "a host that is a name",
    spec: { ranges: RANGES, endpoint: { host: "lb.example" } },
    want: /must be a canonical IP address/u,
  },
  {
    name: "port 65536",
    spec: { ranges: RANGES, endpoint: { host: "192.0.2.1", port: 65_536 } },
    want: /spec\.endpoint\.port/u,
  },
];

const slot = (n: number, more: object = {}) => ({
  slot: n,
  publicKey: KEY,
  addresses: [`198.18.0.${n + 1}`],
  ...more,
});

const GATEWAYS_CASES: readonly { name: string; object?: string; slots: object[]; want: RegExp }[] =
  [
    { name: "two slots", slots: [slot(0), slot(1)], want: /^ok$/u },
    { name: "one slot twice", slots: [slot(0), slot(0)], want: /Duplicate value/u },
    {
      name: "one address twice",
      slots: [slot(0), slot(1, { addresses: ["198.18.0.1"] })],
      want: /two slots have the same transit address/u,
    },
    { name: "a short key", slots: [slot(0, { publicKey: "AAAA" })], want: /publicKey/u },
    {
      name: "a key that is not canonical",
      slots: [slot(0, { publicKey: `${"A".repeat(42)}B=` })],
      want: /publicKey/u,
    },
    { name: "no slot", slots: [], want: /spec\.slots/u },
    { name: "another name", object: "other", slots: [slot(0)], want: /its name is xylem/u },
  ];

void t.test("objects on a real API server", options, async (t) => {
  const admin = open();
  t.teardown(() => {
    admin.close();
  });
  await install(admin);

  for (const { name, spec, want } of TUNNEL_CASES) {
    await t.test(`a Tunnel with ${name}: ${want.source}`, async (t) => {
      const object = { metadata: { namespace: NAMESPACE, name: "case" }, spec };
      t.match(await outcome(admin.create(TUNNELS, object)), want);
      await admin.delete(TUNNELS, object.metadata);
    });
  }

  await t.test("a Tunnel's defaults are filled in, and its status is written apart", async (t) => {
    const name = { namespace: NAMESPACE, name: "defaults" };
    const made = await admin.create(TUNNELS, { metadata: name, spec: { ranges: RANGES } });
    t.match(made["spec"], { mode: "tun", transit: ["198.18.0.0/23"], slots: 32, mtu: 1380 });
    const status = { agents: { ready: 1, total: 2 }, observedGeneration: 1 };
    t.match(await admin.patchStatus(TUNNELS, name, { status }), {
      status,
      metadata: { generation: 1 },
    });
    await admin.delete(TUNNELS, name);
  });

  for (const { name, slots, want, object = "xylem" } of GATEWAYS_CASES) {
    await t.test(`TunnelGateways with ${name}: ${want.source}`, async (t) => {
      const metadata = { namespace: "kube-system", name: object };
      await admin.delete(TUNNEL_GATEWAYS, metadata);
      const spec = { slots, transit: ["198.18.0.0/23"], ranges: RANGES, mtu: 1380 };
      t.match(await outcome(admin.create(TUNNEL_GATEWAYS, { metadata, spec })), want);
      await admin.delete(TUNNEL_GATEWAYS, metadata);
    });
  }

  await t.test(
    "256 slots with two addresses each are within the cost that is allowed",
    async (t) => {
      const slots = Array.from({ length: 256 }, (_, n) =>
        slot(n, {
          addresses: [`198.18.${n >> 7}.${(n % 128) + 1}`, `fd00:f::${(n + 1).toString(16)}`],
        }),
      );
      const metadata = { namespace: "kube-system", name: "xylem" };
      const transit = ["198.18.0.0/23", "fd00:f::/64"];
      const spec = { slots, transit, ranges: RANGES, mtu: 1380 };
      t.equal(await outcome(admin.create(TUNNEL_GATEWAYS, { metadata, spec })), "ok");
      await admin.delete(TUNNEL_GATEWAYS, metadata);
    },
  );

  await t.test("an agent writes the TunnelAgent of its own node and no other", async (t) => {
    const account = { namespace: "kube-system", name: "xylem-agent" };
    const agent = await actAs({ ...account, node: "node-a" });
    const unbound = await actAs(account);
    t.teardown(() => {
      agent.close();
      unbound.close();
    });
    // The policy is compiled a moment after it was made.
    await eventually(async () => {
      const said = await outcome(agent.create(TUNNEL_AGENTS, agentOf("node-b")));
      await admin.delete(TUNNEL_AGENTS, { namespace: "kube-system", name: "node-b" });
      if (!said.includes("may not write")) throw new Error(said);
    });
    const foreign = await outcome(agent.create(TUNNEL_AGENTS, agentOf("node-b")));
    t.match(foreign, /^forbidden: .*agent of node node-a may not write TunnelAgent node-b/u);
    const stray = { apiVersion: "v1", kind: "Node", name: "node-b", uid: "u" };
    const owned = agentOf("node-a", { ownerReferences: [stray] });
    t.match(await outcome(agent.create(TUNNEL_AGENTS, owned)), /owned by its own Node/u);
    t.equal(await outcome(agent.create(TUNNEL_AGENTS, agentOf("node-a"))), "ok");
    const own = { namespace: "kube-system", name: "node-a" };
    t.equal(await outcome(agent.patch(TUNNEL_AGENTS, own, { spec: { port: 51821 } })), "ok");
    t.equal(
      await outcome(agent.patchStatus(TUNNEL_AGENTS, own, { status: { conditions: [] } })),
      "ok",
    );
    await admin.create(TUNNEL_AGENTS, agentOf("node-b"));
    const other = { namespace: "kube-system", name: "node-b" };
    const patch = { spec: { port: 1 } };
    t.match(await outcome(agent.patch(TUNNEL_AGENTS, other, patch)), /may not write/u);
    const status = { status: { conditions: [] } };
    t.match(await outcome(agent.patchStatus(TUNNEL_AGENTS, other, status)), /may not write/u);
    t.match(await outcome(unbound.patch(TUNNEL_AGENTS, own, patch)), /names no node/u);
    t.match(await outcome(agent.delete(TUNNEL_AGENTS, own)), /^forbidden/u);
    t.match(await outcome(agent.list(SECRETS, { namespace: "kube-system" })), /^forbidden/u);
    t.match(
      await outcome(
        agent.patch(TUNNEL_GATEWAYS, { namespace: "kube-system", name: "xylem" }, patch),
      ),
      /^forbidden/u,
    );
  });

  await t.test("a gateway reads the shoot and writes nothing there", async (t) => {
    const gateway = await actAs({ namespace: "kube-system", name: "xylem-gateway" });
    t.teardown(() => {
      gateway.close();
    });
    const service = { namespace: "kube-system", fieldSelector: "metadata.name=xylem-agent" };
    t.equal(await outcome(gateway.list(NODES)), "ok");
    t.equal(await outcome(gateway.list(TUNNEL_AGENTS, { namespace: "kube-system" })), "ok");
    t.equal(await outcome(gateway.list(SERVICES, service)), "ok");
    t.match(await outcome(gateway.list(SERVICES, { namespace: "kube-system" })), /^forbidden/u);
    t.match(await outcome(gateway.create(TUNNEL_AGENTS, agentOf("node-a"))), /^forbidden/u);
    t.match(await outcome(gateway.list(SECRETS, { namespace: "kube-system" })), /^forbidden/u);
  });

  await t.test("the controller marks a Tunnel, and takes back what it made for it", async (t) => {
    const seed = await actAs({ namespace: "kube-system", name: "xylem-seed-controller" });
    const shoot = await actAs({ namespace: "kube-system", name: "xylem-controller" });
    t.teardown(() => {
      seed.close();
      shoot.close();
    });
    const name = { namespace: NAMESPACE, name: "marked" };
    await admin.create(TUNNELS, { metadata: name, spec: { ranges: RANGES } });
    const mark = { metadata: { finalizers: ["xylem.dev/tunnel"] } };
    t.equal(await outcome(seed.patch(TUNNELS, name, mark)), "ok");
    await admin.delete(TUNNELS, name);
    t.match((await admin.get(TUNNELS, name)).metadata.deletionTimestamp, String);
    const lease = { namespace: NAMESPACE, name: "marked-xylem-slot-0" };
    await admin.create(LEASES, { metadata: lease, spec: {} });
    t.equal(await outcome(seed.delete(LEASES, lease)), "ok");
    const event = {
      metadata: { namespace: NAMESPACE, name: "marked.given-up" },
      involvedObject: { kind: "Tunnel", namespace: NAMESPACE, name: "marked" },
      reason: "ShootNotTold",
      type: "Warning",
    };
    t.equal(await outcome(seed.create(EVENTS, event)), "ok");
    t.equal(await outcome(seed.patch(TUNNELS, name, { metadata: { finalizers: [] } })), "ok");
    t.match(await outcome(admin.get(TUNNELS, name)), /^not-found/u);
    t.match(await outcome(seed.delete(TUNNELS, name)), /^forbidden/u);
    t.match(await outcome(seed.delete(SECRETS, { ...name, name: "other" })), /^forbidden/u);
    const gateways = { namespace: "kube-system", name: "xylem" };
    const spec = { slots: [slot(0)], transit: ["198.18.0.0/23"], ranges: RANGES, mtu: 1380 };
    t.equal(await outcome(shoot.create(TUNNEL_GATEWAYS, { metadata: gateways, spec })), "ok");
    t.equal(await outcome(shoot.delete(TUNNEL_GATEWAYS, gateways)), "ok");
    t.match(await outcome(shoot.delete(TUNNEL_AGENTS, gateways)), /^forbidden/u);
  });

  await t.test("a gateway in the seed reads its one Secret and holds Leases", async (t) => {
    const gateway = await actAs({ namespace: NAMESPACE, name: "xylem-gateway" });
    t.teardown(() => {
      gateway.close();
    });
    const secret = { namespace: NAMESPACE, name: "alpha-xylem" };
    t.match(await outcome(gateway.get(SECRETS, secret)), /^not-found|^ok/u);
    const byName = { namespace: NAMESPACE, fieldSelector: "metadata.name=alpha-xylem" };
    t.equal(await outcome(gateway.list(SECRETS, byName)), "ok");
    t.match(await outcome(gateway.get(SECRETS, { ...secret, name: "other" })), /^forbidden/u);
    t.match(await outcome(gateway.list(SECRETS, { namespace: NAMESPACE })), /^forbidden/u);
    const lease = { metadata: { namespace: NAMESPACE, name: "alpha-xylem-slot-0" }, spec: {} };
    t.equal(await outcome(gateway.create(LEASES, lease)), "ok");
    t.equal(await outcome(gateway.delete(LEASES, lease.metadata)), "ok");
    t.match(await outcome(gateway.list(LEASES, { namespace: "kube-system" })), /^forbidden/u);
  });

  await t.test("a gateway claims, resumes and releases a slot with its own role", async (t) => {
    const gateway = await actAs({ namespace: NAMESPACE, name: "xylem-gateway" });
    t.teardown(() => {
      gateway.close();
    });
    const claim = (identity: string): SlotClaim =>
      new SlotClaim({
        ...common,
        kube: gateway,
        memory: slotMemoryNone(),
        namespace: NAMESPACE,
        tunnel: "alpha",
        slots: 2,
        identity,
        gatewayName: `pod-${identity}`,
        onLost: (problem) => {
          t.fail(problem);
        },
      }).start();
    const [first, second] = [claim("a"), claim("b")];
    const slots = [await first.held(), await second.held()];
    t.strictSame(new Set(slots), new Set([0, 1]));
    const again = claim("a");
    t.equal(await again.held(), slots[0]);
    await Promise.all([again.release(), second.release()]);
    t.strictSame(await gateway.list(LEASES, { namespace: NAMESPACE }), []);
    await first.release();
  });
});
