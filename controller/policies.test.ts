/** The controller keeps a tunnel's NetworkPolicies: made, put back, kept while the shoot is silent, taken away; never others'. */

import t from "tap";
import { parseCidr } from "#src/model/cidr.ts";
import { valueOf } from "#src/model/parsed.ts";
import {
  ENDPOINT_SLICES,
  NETWORK_POLICIES,
  SEED_NETWORKS,
  SERVICES,
  TUNNELS,
} from "#src/ports/kube-resource.ts";
import { NAME, tunnel, world } from "./controller-world.ts";
import { type PolicyFlags, type PolicySettings, readPolicyOptions } from "./policy-options.ts";

const settings: PolicySettings = {
  seedNetwork: "eu-1",
  controllerNamespace: "xylem-system",
  apiServerClients: [valueOf(parseCidr("0.0.0.0/0"))],
  roles: { "api-server": { pods: { app: "kube-apiserver" } }, scraper: null },
  ports: { "api-server": 6443 },
};
const ENDPOINT_POLICY = "xylem.gateway-to-endpoint.egress.alpha";
const CLIENTS_POLICY = "xylem.clients-to-api-server.ingress.alpha";
const NAMES = [
  "xylem.api-server-to-etcd.egress.alpha",
  "xylem.api-server-to-etcd.ingress.alpha",
  CLIENTS_POLICY,
  "xylem.controller-to-api-server.ingress.alpha",
  "xylem.gateway-to-dns.egress.alpha",
  ENDPOINT_POLICY,
  "xylem.gateway-to-seed-api.egress.alpha",
  "xylem.probes-to-gateway.ingress.alpha",
  "xylem.prometheus-to-api-server.egress.alpha",
  "xylem.prometheus-to-api-server.ingress.alpha",
];

const ON = { networkPolicies: true, seedNetwork: "eu-1" };

const inTunnel = (name: string) => ({ namespace: NAME.namespace, name });

/** A policy of no tunnel that looks like ours, and one that does not. */
const OTHERS = [
  {
    metadata: {
      ...inTunnel("somebody-elses"),
      labels: { "app.kubernetes.io/managed-by": "xylem" },
    },
    spec: { podSelector: {} },
  },
  {
    metadata: {
      ...inTunnel("without-label"),
      annotations: { "xylem.dev/policies-of": "alpha" },
    },
    spec: { podSelector: {} },
  },
];

const agentService = (ip: string) => ({
  metadata: { namespace: "kube-system", name: "xylem-agent" },
  spec: { ports: [{ port: 51_820, protocol: "UDP" }] },
  status: { loadBalancer: { ingress: [{ ip }] } },
});

/** The controller's world in a seed that says what it is. */
const policyWorld = () => {
  const whole = world();
  const { seed } = whole;
  seed.seed(SEED_NETWORKS, {
    metadata: { name: "eu-1" },
    spec: { nodes: ["192.0.2.0/28"], pods: ["10.64.0.0/12"], services: ["10.96.0.0/16"] },
  });
  const api = { namespace: "default", name: "kubernetes" };
  seed.seed(SERVICES, {
    metadata: api,
    spec: { clusterIPs: ["10.96.0.1"], ports: [{ port: 443, protocol: "TCP" }] },
  });
  seed.seed(ENDPOINT_SLICES, {
    metadata: { ...api, labels: { "kubernetes.io/service-name": "kubernetes" } },
    addressType: "IPv4",
    endpoints: [{ addresses: ["192.0.2.2"] }],
    ports: [{ port: 6_443, protocol: "TCP" }],
  });
  return {
    ...whole,
    names: async () =>
      (await seed.list(NETWORK_POLICIES)).map(({ metadata }) => metadata.name).toSorted(),
    policy: (name: string) => seed.peek(NETWORK_POLICIES, inTunnel(name)),
  };
};

void t.test("N50 a Tunnel gets a policy for each declared flow and direction", async (t) => {
  const { clock, seed, shoot, names, policy, start, condition } = policyWorld();
  seed.seed(TUNNELS, tunnel());
  shoot.seed(SERVICES, agentService("198.51.100.4"));
  const controller = start({ policies: settings });
  await clock.advance(2_000);
  t.strictSame(await names(), NAMES);
  t.match(policy(ENDPOINT_POLICY), {
    metadata: { ownerReferences: [{ kind: "Tunnel", name: "alpha" }] },
    spec: {
      podSelector: { matchLabels: { "xylem.dev/tunnel": "alpha" } },
      egress: [
        {
          to: [{ ipBlock: { cidr: "198.51.100.4/32" } }],
          ports: [{ protocol: "UDP", port: 51_820 }],
        },
      ],
    },
  });
  t.match(policy(CLIENTS_POLICY), {
    spec: {
      podSelector: { matchLabels: { app: "kube-apiserver" } },
      ingress: [
        {
          from: [{ ipBlock: { cidr: "0.0.0.0/0", except: ["10.64.0.0/12"] } }],
          ports: [{ port: 6_443 }],
        },
      ],
    },
  });
  t.match(policy("xylem.gateway-to-seed-api.egress.alpha"), {
    spec: {
      egress: [
        {
          to: [{ ipBlock: { cidr: "10.96.0.1/32" } }, { ipBlock: { cidr: "192.0.2.2/32" } }],
          ports: [{ port: 443 }, { port: 6_443 }],
        },
      ],
    },
  });
  t.match(condition("PoliciesApplied"), { status: "True", reason: "Applied" });
  const before = seed.writes.length;
  await clock.advance(60 * 60_000);
  await controller.stop();
  const second = start({ policies: settings });
  await clock.advance(5_000);
  await second.stop();
  t.equal(seed.writes.length, before, "nothing was written in an hour and after a restart");
  t.equal(clock.pending, 0, "no timer is left");
});

void t.test(
  "N57 what somebody changed or deleted is put back at once, labels of others stay",
  async (t) => {
    const { clock, seed, shoot, names, policy, start } = policyWorld();
    seed.seed(TUNNELS, tunnel());
    shoot.seed(SERVICES, agentService("198.51.100.4"));
    const controller = start({ policies: settings });
    await clock.advance(2_000);
    const wanted = policy(CLIENTS_POLICY)?.["spec"];
    await seed.patch(NETWORK_POLICIES, inTunnel(CLIENTS_POLICY), {
      metadata: { labels: { team: "x" } },
      spec: { ingress: [{ from: [{ ipBlock: { cidr: "0.0.0.0/0" } }] }] },
    });
    await seed.delete(NETWORK_POLICIES, inTunnel(ENDPOINT_POLICY));
    await clock.advance(1_000);
    t.strictSame(policy(CLIENTS_POLICY)?.["spec"], wanted);
    t.match(policy(CLIENTS_POLICY)?.metadata.labels, { team: "x", "xylem.dev/flow": /./u });
    t.strictSame(await names(), NAMES);
    await controller.stop();
  },
);

void t.test(
  "a balancer that moves moves the policy; one that can't be seen leaves it as it is",
  async (t) => {
    const { clock, seed, shoot, policy, start, condition } = policyWorld();
    seed.seed(TUNNELS, tunnel());
    const controller = start({ policies: settings });
    await clock.advance(2_000);
    t.equal(policy(ENDPOINT_POLICY), null);
    t.match(condition("PoliciesApplied"), {
      status: "False",
      reason: "FlowsClosed",
      message: /no address of its endpoint is known/u,
    });
    shoot.seed(SERVICES, agentService("198.51.100.4"));
    await clock.advance(1_000);
    t.match(condition("PoliciesApplied"), { status: "True" });
    shoot.seed(SERVICES, agentService("198.51.100.5"));
    await clock.advance(1_000);
    const moved = [{ to: [{ ipBlock: { cidr: "198.51.100.5/32" } }] }];
    t.match(Object(policy(ENDPOINT_POLICY)?.["spec"]).egress, moved);
    await shoot.delete(SERVICES, { namespace: "kube-system", name: "xylem-agent" });
    await clock.advance(1_000);
    t.match(Object(policy(ENDPOINT_POLICY)?.["spec"]).egress, moved);
    await controller.stop();
  },
);

void t.test(
  "a policy of somebody else that has a name of ours is left alone, and said",
  async (t) => {
    const { clock, seed, shoot, policy, start, condition } = policyWorld();
    seed.seed(TUNNELS, tunnel());
    shoot.seed(SERVICES, agentService("198.51.100.4"));
    const foreign = { metadata: inTunnel(ENDPOINT_POLICY), spec: { podSelector: {} } };
    seed.seed(NETWORK_POLICIES, foreign);
    const controller = start({ policies: settings });
    await clock.advance(2_000);
    t.strictSame(policy(ENDPOINT_POLICY)?.["spec"], foreign.spec);
    t.match(condition("PoliciesApplied"), {
      status: "False",
      message: /xylem\.gateway-to-endpoint\.egress\.alpha is not Xylem's/u,
    });
    await controller.stop();
  },
);

void t.test("while the SeedNetwork is not there no policy is made, and it is said", async (t) => {
  const { clock, seed, names, start, condition } = policyWorld();
  await seed.delete(SEED_NETWORKS, { name: "eu-1" });
  seed.seed(TUNNELS, tunnel());
  const controller = start({ policies: settings });
  await clock.advance(2_000);
  t.strictSame(await names(), []);
  t.match(condition("PoliciesApplied"), {
    status: "Unknown",
    reason: "SeedUnknown",
    message: /SeedNetwork eu-1 does not exist: create it/u,
  });
  t.match(condition("Published"), { status: "True" });
  await controller.stop();
});

void t.test("with its Tunnel its policies go, and those of others stay", async (t) => {
  const { clock, seed, shoot, names, start } = policyWorld();
  seed.seed(TUNNELS, tunnel());
  shoot.seed(SERVICES, agentService("198.51.100.4"));
  seed.seed(NETWORK_POLICIES, ...OTHERS);
  const controller = start({ policies: settings });
  await clock.advance(2_000);
  await seed.delete(TUNNELS, NAME);
  await clock.advance(2_000);
  t.strictSame(await names(), OTHERS.map(({ metadata }) => metadata.name).toSorted());
  await controller.stop();
});

void t.test("a controller that keeps none removes those that an earlier one kept", async (t) => {
  const { clock, seed, shoot, names, start, condition } = policyWorld();
  seed.seed(TUNNELS, tunnel());
  shoot.seed(SERVICES, agentService("198.51.100.4"));
  seed.seed(NETWORK_POLICIES, ...OTHERS);
  const first = start({ policies: settings });
  await clock.advance(2_000);
  t.equal((await names()).length, NAMES.length + OTHERS.length);
  await first.stop();
  const second = start();
  await clock.advance(2_000);
  t.strictSame(await names(), OTHERS.map(({ metadata }) => metadata.name).toSorted());
  t.equal(condition("PoliciesApplied"), undefined, "the condition goes with them");
  await second.stop();
  t.equal(clock.pending, 0, "no timer is left");
});

const BAD: readonly { name: string; flags: PolicyFlags; want: RegExp }[] = [
  { name: "no SeedNetwork", flags: { seedNetwork: undefined }, want: /needs --seed-network/u },
  {
    name: "a role that is none",
    flags: { policyPods: ["apiserver=app=x"] },
    want: /--policy-pods apiserver=app=x: begin with one of api-server, controller, dns/u,
  },
  {
    name: "labels that are none",
    flags: { policyPods: ["etcd=etcd"] },
    want: /--policy-pods etcd=etcd: "etcd" is no label; write name=value/u,
  },
  {
    name: "a namespace that is none",
    flags: { policyPods: ["dns=Kube:a=b"] },
    want: /"Kube" is no namespace/u,
  },
  { name: "a port that is found", flags: { policyPort: ["seed-api=1"] }, want: /begin with one/u },
  {
    name: "a port that is none",
    flags: { policyPort: ["etcd=0"] },
    want: /--policy-port etcd=0: a port is a whole number from 1 to 65535/u,
  },
  {
    name: "clients that are no block",
    flags: { policyClients: ["10.0.0.1/8"] },
    want: /--policy-clients 10\.0\.0\.1\/8: /u,
  },
];

for (const { name, flags, want } of BAD) {
  void t.test(`--network-policies with ${name} is refused in a sentence`, (t) => {
    const read = readPolicyOptions({ ...ON, ...flags }, { POD_NAMESPACE: "xylem-system" });
    t.match(read.ok ? "taken" : read.problem, want);
    t.end();
  });
}

void t.test("what the flags say is what policies are made from", (t) => {
  const flags = {
    ...ON,
    policyPods: [
      "api-server=app=kube-apiserver,role=x",
      "dns=kube-system:app.kubernetes.io/name=d",
      "scraper=*:app=prometheus",
      "etcd=none",
    ],
    policyPort: ["api-server=6443"],
    policyClients: ["203.0.113.0/24"],
    gatewayStatusPort: 19_446,
  };
  t.strictSame(valueOf(readPolicyOptions(flags, { POD_NAMESPACE: "xylem-system" })), {
    seedNetwork: "eu-1",
    controllerNamespace: "xylem-system",
    apiServerClients: ["203.0.113.0/24"],
    roles: {
      "api-server": { pods: { app: "kube-apiserver", role: "x" } },
      dns: { namespace: "kube-system", pods: { "app.kubernetes.io/name": "d" } },
      scraper: { namespace: null, pods: { app: "prometheus" } },
      etcd: null,
    },
    ports: { "gateway-status": 19_446, "api-server": 6_443 },
  });
  t.equal(valueOf(readPolicyOptions({}, {})), null, "off unless asked for");
  t.end();
});
