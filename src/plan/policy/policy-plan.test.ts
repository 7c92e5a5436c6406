/** Policies of declared flows: complete, minimal, injective, and never a block for pods. */

import { readFileSync, writeFileSync } from "node:fs";
import { env } from "node:process";
import fc from "fast-check";
import t from "tap";
import { parseNetworkPolicy, printNetworkPolicy } from "#src/codec/network-policy-codec.ts";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { parseIp } from "#src/model/ip.ts";
import { valueOf } from "#src/model/parsed.ts";
import {
  ANY_LABELS,
  EMPTY_WORLD,
  type FlowEnd,
  type Labels,
  type NetworkPolicy,
  type PolicyPod,
  type PolicyWorld,
} from "#src/model/policy.ts";
import { flowMark, flowOfPolicy, policyName } from "./flow-mark.ts";
import { flowTables } from "./flow-table.ts";
import {
  ALL_FLOWS,
  SEED_FLOWS,
  STANDARD_PORTS,
  type DeclaredFlow,
  type FlowParty,
} from "./flows.ts";
import { judgeOf } from "./judge.ts";
import { planPolicies, standardRoles, type PolicyFacts } from "./policy-plan.ts";

const cidr = (text: string): Cidr => valueOf(parseCidr(text));
const TUNNEL_NAMESPACE = "shoot--lab--alpha";
const CONTROLLER_NAMESPACE = "xylem-system";

const tunnelFacts: PolicyFacts = {
  namespace: TUNNEL_NAMESPACE,
  subject: "alpha",
  owner: null,
  roles: {
    ...standardRoles({
      namespace: TUNNEL_NAMESPACE,
      tunnel: "alpha",
      controllerNamespace: CONTROLLER_NAMESPACE,
    }),
    scraper: { namespace: "monitoring", pods: { app: "seed-prometheus" } },
  },
  places: {
    "tunnel-endpoint": [cidr("192.0.2.10/32"), cidr("2001:db8::10/128")],
    "seed-api": [cidr("10.100.0.2/32")],
    "seed-nodes": [cidr("10.100.0.0/24")],
    "api-server-clients": [cidr("203.0.113.0/28")],
  },
  ports: { ...STANDARD_PORTS, "seed-api": 6443 },
  podRanges: [cidr("10.224.0.0/11")],
};
const controllerFacts: PolicyFacts = {
  ...tunnelFacts,
  namespace: CONTROLLER_NAMESPACE,
  subject: "controller",
};

const pod = (namespace: string, name: string, labels: Labels): PolicyPod => ({
  namespace,
  name,
  labels,
  addresses: [],
  nodeAddresses: [],
  isHostNetwork: false,
  isTemplate: false,
  ports: [],
});

const GATEWAY: Labels = { "xylem.dev/tunnel": "alpha" };
const PODS = [
  pod(TUNNEL_NAMESPACE, "kube-apiserver-0", { app: "kubernetes", role: "apiserver", ...GATEWAY }),
  pod(TUNNEL_NAMESPACE, "prometheus-0", { app: "prometheus", ...GATEWAY }),
  pod(TUNNEL_NAMESPACE, "etcd-0", { app: "etcd" }),
  pod(CONTROLLER_NAMESPACE, "controller", { "app.kubernetes.io/name": "xylem-controller" }),
  pod("kube-system", "dns", { "k8s-app": "kube-dns" }),
  pod("monitoring", "seed-prometheus", { app: "seed-prometheus" }),
  pod("monitoring", "other", { app: "other" }),
];

const EXPECTED_OPEN = [
  "kube-apiserver-0 192.0.2.10 51820/UDP",
  "prometheus-0 192.0.2.10 51820/UDP",
  "kube-apiserver-0 10.100.0.2 6443/TCP",
  "prometheus-0 10.100.0.2 6443/TCP",
  "controller 10.100.0.2 6443/TCP",
  "kube-apiserver-0 dns 53/TCP",
  "kube-apiserver-0 dns 53/UDP",
  "prometheus-0 dns 53/TCP",
  "prometheus-0 dns 53/UDP",
  "controller dns 53/TCP",
  "controller dns 53/UDP",
  "kube-apiserver-0 etcd-0 2379/TCP",
  "prometheus-0 kube-apiserver-0 443/TCP",
  "controller kube-apiserver-0 443/TCP",
  "203.0.113.5 kube-apiserver-0 443/TCP",
  "10.100.0.2 kube-apiserver-0 9446/TCP",
  "10.100.0.7 kube-apiserver-0 9446/TCP",
  "10.100.0.2 prometheus-0 9446/TCP",
  "10.100.0.7 prometheus-0 9446/TCP",
  "seed-prometheus kube-apiserver-0 9446/TCP",
  "seed-prometheus prometheus-0 9446/TCP",
  "10.100.0.2 controller 9449/TCP",
  "10.100.0.2 controller 9448/TCP",
  "10.100.0.7 controller 9448/TCP",
  "seed-prometheus controller 9448/TCP",
];

const PLACES: Readonly<Record<string, string>> = {
  "tunnel-endpoint": "192.0.2.10",
  "seed-api": "10.100.0.2",
  "seed-nodes": "10.100.0.7",
  "api-server-clients": "203.0.113.5",
};

void t.test(
  "N50 under default-deny every declared flow is open, and each one removed from the table is closed alone",
  (t) => {
    for (const removed of [null, ...SEED_FLOWS]) {
      const table = SEED_FLOWS.filter((flow) => flow !== removed);
      const judge = judgeOf(worldOf(table));
      const denied = SEED_FLOWS.filter((flow) => !isOpen(judge, flow)).map(({ id }) => id);
      t.same(denied, removed === null ? [] : [removed.id], `without ${removed?.id ?? "none"}`);
    }
    t.end();
  },
);

void t.test("N50 under default-deny nothing that is not declared is open", (t) => {
  const judge = judgeOf(worldOf(SEED_FLOWS));
  const ends = [
    ...PODS.map(podEnd),
    ...["192.0.2.10", "10.100.0.2", "10.100.0.7", "203.0.113.5", "8.8.8.8"].map(addressEnd),
  ];
  const numbers = [...new Set(Object.values(tunnelFacts.ports)), 22, 8443];
  const open = ends.flatMap((from) =>
    ends.flatMap((to) =>
      numbers.flatMap((port) =>
        (["TCP", "UDP"] as const)
          .filter(
            (protocol) =>
              from !== to && isAbout(from, to) && judge({ from, to, port, protocol }).isAllowed,
          )
          .map((protocol) => `${nameOf(from)} ${nameOf(to)} ${port}/${protocol}`),
      ),
    ),
  );
  t.same(open.toSorted(), EXPECTED_OPEN.toSorted());
  t.end();
});

void t.test(
  "N54 a block never stands for pods: it is refused inside the pod network and cut out around it",
  (t) => {
    const { policies, findings } = planPolicies({
      ...tunnelFacts,
      places: {
        ...tunnelFacts.places,
        "seed-api": [cidr("10.96.0.1/32"), cidr("10.100.0.2/32")],
        "api-server-clients": [cidr("0.0.0.0/0"), cidr("::/0")],
      },
      podRanges: [cidr("10.96.0.0/14"), cidr("fd00:1::/48")],
    });
    t.match(findings, [
      {
        code: "ip-block-for-pods",
        object: "NetworkPolicy shoot--lab--alpha/xylem.gateway-to-seed-api.egress.alpha",
        message: /10\.96\.0\.1\/32 is in the seed's pod network/,
      },
    ]);
    t.same(byFlow(policies, "gateway-to-seed-api").egress?.[0]?.peers, [
      { kind: "block", cidr: "10.100.0.2/32", except: [] },
    ]);
    t.same(byFlow(policies, "clients-to-api-server").ingress?.[0]?.peers, [
      { kind: "block", cidr: "0.0.0.0/0", except: ["10.96.0.0/14"] },
      { kind: "block", cidr: "::/0", except: ["fd00:1::/48"] },
    ]);
    t.end();
  },
);

void t.test(
  "a flow without an end is left out: no addresses, no such pods, another namespace",
  (t) => {
    const { policies, findings } = planPolicies({
      ...tunnelFacts,
      roles: { ...tunnelFacts.roles, etcd: null },
      places: {},
    });
    t.same(findings, []);
    t.same(
      policies.map(({ name }) => name),
      [
        "xylem.gateway-to-dns.egress.alpha",
        "xylem.prometheus-to-api-server.egress.alpha",
        "xylem.prometheus-to-api-server.ingress.alpha",
        "xylem.controller-to-api-server.ingress.alpha",
        "xylem.scraper-to-gateway.ingress.alpha",
      ],
    );
    t.end();
  },
);

void t.test(
  "names are injective, dots and dashes of tunnels included, and lead back to their flow",
  (t) => {
    const subject = fc
      .stringMatching(/^[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?$/)
      .filter((text) => !text.includes(".."));
    const mark = fc.record({
      flow: fc.constantFrom(...ALL_FLOWS.map(({ id }) => id)),
      direction: fc.constantFrom("ingress" as const, "egress" as const),
      subject,
    });
    fc.assert(
      fc.property(mark, (one) => t.same(flowMark(policyName(one)), one) && true),
      {
        numRuns: 50,
      },
    );
    t.same(new Set(ALL_FLOWS.map(({ id }) => id)).size, ALL_FLOWS.length);
    t.same(
      ALL_FLOWS.filter(({ id }) => !/^[a-z]+(-[a-z]+)*$/.test(id)),
      [],
    );
    t.equal(flowOfPolicy("xylem.gateway-to-dns.egress.a.b")?.id, "gateway-to-dns");
    t.equal(flowOfPolicy("xylem.gateway-to-dns.sideways.a"), null);
    t.equal(flowOfPolicy("deny-all"), null);
    t.end();
  },
);

void t.test("a tunnel whose name leaves no room for a policy's name is found, not cut", (t) => {
  const { policies, findings } = planPolicies({ ...tunnelFacts, subject: "a".repeat(230) });
  t.same(
    policies.filter(({ name }) => name.length > 253),
    [],
  );
  t.match(findings[0], { code: "policy-name-too-long", message: /stays closed.*shorter name/ });
  t.end();
});

void t.test("policies are marked as ours, say why, and read back as they were written", (t) => {
  const owner = { apiVersion: "xylem.dev/v1alpha1", kind: "Tunnel", name: "alpha", uid: "u-1" };
  const { policies } = planPolicies({ ...tunnelFacts, owner });
  t.same(printNetworkPolicy(byFlow(policies, "gateway-to-endpoint")), {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: {
      namespace: "shoot--lab--alpha",
      name: "xylem.gateway-to-endpoint.egress.alpha",
      labels: {
        "app.kubernetes.io/managed-by": "xylem",
        "xylem.dev/flow": "gateway-to-endpoint",
      },
      annotations: {
        "xylem.dev/policies-of": "alpha",
        "xylem.dev/why": SEED_FLOWS[0]?.why,
      },
      ownerReferences: [owner],
    },
    spec: {
      podSelector: { matchLabels: { "xylem.dev/tunnel": "alpha" } },
      policyTypes: ["Egress"],
      egress: [
        {
          to: [{ ipBlock: { cidr: "192.0.2.10/32" } }, { ipBlock: { cidr: "2001:db8::10/128" } }],
          ports: [{ protocol: "UDP", port: 51820 }],
        },
      ],
    },
  });
  for (const policy of policies) {
    const object: unknown = JSON.parse(JSON.stringify(printNetworkPolicy(policy)));
    t.same(parseNetworkPolicy(object), { ok: true, value: policy }, policy.name);
  }
  t.end();
});

void t.test("N50 the page of network policies holds the table of declared flows", (t) => {
  const file = new URL("../../../docs/network-policies.md", import.meta.url);
  const page = readFileSync(file, "utf8");
  const [begin, end] = ["<!-- flows: begin -->\n", "<!-- flows: end -->"];
  const [before, after] = [page.split(begin)[0] ?? "", page.split(end)[1] ?? ""];
  const wanted = `${before}${begin}${flowTables()}${end}${after}`;
  if (env["UPDATE_DOCS"] === "1") writeFileSync(file, wanted);
  t.equal(page, wanted, "run this test with UPDATE_DOCS=1 to write the table");
  t.end();
});

function podEnd(one: PolicyPod): FlowEnd {
  return { kind: "pod", pod: one, address: null };
}

function addressEnd(text: string): FlowEnd {
  return { kind: "address", address: valueOf(parseIp(text)) };
}

function nameOf(end: FlowEnd): string {
  return end.kind === "pod" ? end.pod.name : end.address;
}

/** Namespaces that are none of ours have no policies here: only flows with an end of ours are asked about. */
function isAbout(from: FlowEnd, to: FlowEnd): boolean {
  const isOurs = (end: FlowEnd) =>
    end.kind === "pod" && [TUNNEL_NAMESPACE, CONTROLLER_NAMESPACE].includes(end.pod.namespace);
  return isOurs(from) || isOurs(to);
}

/** All policies of a table, under default-deny in both namespaces. */
function worldOf(flows: readonly DeclaredFlow[]): PolicyWorld {
  const denyAll = (namespace: string): NetworkPolicy => ({
    namespace,
    name: "deny-all",
    labels: {},
    annotations: {},
    owner: null,
    pods: ANY_LABELS,
    ingress: [],
    egress: [],
  });
  return {
    ...EMPTY_WORLD,
    pods: PODS,
    policies: [tunnelFacts, controllerFacts].flatMap((facts) => [
      denyAll(facts.namespace),
      ...planPolicies(facts, flows).policies,
    ]),
  };
}

function endsOf(party: FlowParty): FlowEnd[] {
  if (party.kind === "place") return [addressEnd(PLACES[party.place] ?? "")];
  const selector = tunnelFacts.roles[party.role];
  const labels = Object.entries(selector?.pods ?? {});
  return PODS.filter(
    (one) =>
      one.namespace === selector?.namespace &&
      labels.every(([key, value]) => one.labels[key] === value),
  ).map(podEnd);
}

/** True when all pods of the flow may use all its protocols. */
function isOpen(judge: ReturnType<typeof judgeOf>, flow: DeclaredFlow): boolean {
  const [from, to] = [endsOf(flow.from), endsOf(flow.to)];
  if (from.length === 0 || to.length === 0) throw new Error(`no pods for ${flow.id}`);
  const port = tunnelFacts.ports[flow.port];
  return from.every((sender) =>
    to.every((receiver) =>
      flow.protocols.every(
        (protocol) => judge({ from: sender, to: receiver, port, protocol }).isAllowed,
      ),
    ),
  );
}

function byFlow(policies: readonly NetworkPolicy[], id: string): NetworkPolicy {
  const found = policies.find(({ labels }) => labels["xylem.dev/flow"] === id);
  if (found === undefined) throw new Error(`no policy of ${id}`);
  return found;
}
