/** Answers to "may FROM reach TO": who is meant, every address of a block, services, and what a verdict rests on. */

import t from "tap";
import { readWorld } from "#src/codec/policy-world-codec.ts";
import { parseParty, parsePortText } from "#src/codec/policy-query-codec.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { PolicyWorld } from "#src/model/policy.ts";
import { explain } from "./explain.ts";

const pod = (
  namespace: string,
  name: string,
  more: { ips?: string[]; labels?: object; spec?: object; hostIP?: string } = {},
) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { namespace, name, labels: more.labels ?? { app: name } },
  spec: { containers: [{ ports: [{ name: "http", containerPort: 8080 }] }], ...more.spec },
  status: { podIPs: (more.ips ?? []).map((ip) => ({ ip })), hostIP: more.hostIP ?? "" },
});

const policy = (namespace: string, name: string, spec: object) => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { namespace, name },
  spec,
});

const clusterPolicy = (name: string, spec: object) => ({
  apiVersion: "policy.networking.k8s.io/v1alpha2",
  kind: "ClusterNetworkPolicy",
  metadata: { name },
  spec: { subject: { namespaces: {} }, ...spec },
});

const worldOf = (...objects: object[]): PolicyWorld => {
  const read = readWorld(objects, { withTemplates: true });
  if (!read.ok) throw new Error(read.problem);
  return read.value;
};

const ask = (world: PolicyWorld, question: string) => {
  const [from = "", to = "", port = ""] = question.split(" ");
  return explain(world, {
    from: valueOf(parseParty(from)),
    to: valueOf(parseParty(to)),
    ...valueOf(parsePortText(port)),
  });
};

const PODS = [
  pod("a", "web", { ips: ["10.1.0.5"], hostIP: "192.0.2.1" }),
  pod("a", "web-2", { ips: ["10.1.0.6", "fd00::6"], labels: { app: "web" } }),
  pod("b", "client", { ips: ["10.1.1.5"] }),
];

void t.test("both directions are told with policy and rule, and the nearest miss", (t) => {
  const world = worldOf(
    ...PODS,
    policy("b", "out", {
      podSelector: {},
      policyTypes: ["Egress"],
      egress: [{ to: [{ namespaceSelector: {} }] }],
    }),
    policy("a", "deny", { podSelector: {} }),
    policy("a", "in", {
      podSelector: { matchLabels: { app: "web" } },
      ingress: [
        { from: [{ ipBlock: { cidr: "203.0.113.0/24" } }] },
        { from: [{ namespaceSelector: {} }], ports: [{ port: "http" }] },
      ],
    }),
  );
  t.match(ask(world, "b/client a/web http"), {
    value: {
      verdict: "allowed",
      flows: [
        {
          port: 8080,
          egress: { by: "policy", namespace: "b", policy: "out", rule: 0 },
          ingress: { by: "policy", namespace: "a", policy: "in", rule: 1 },
          notes: [],
        },
      ],
    },
  });
  t.match(ask(world, "b/client a/web 81"), {
    value: {
      verdict: "denied",
      flows: [
        {
          egress: { isAllowed: true },
          ingress: {
            isAllowed: false,
            by: "isolation",
            policies: ["deny", "in"],
            otherPorts: [{ policy: "in", rule: 1 }],
          },
        },
      ],
    },
  });
  t.match(ask(world, "192.0.2.1 a/web 81"), {
    value: { flows: [{ ingress: { by: "own-node" } }] },
  });
  t.match(ask(world, "a/web a/web 81"), { value: { flows: [{ ingress: { by: "itself" } }] } });
  t.end();
});

void t.test("a block is judged in parts that policies can tell apart, pods in it as pods", (t) => {
  const world = worldOf(
    ...PODS,
    policy("a", "in", {
      podSelector: {},
      ingress: [
        { from: [{ ipBlock: { cidr: "10.0.0.0/8", except: ["10.1.1.0/24", "10.200.0.0/16"] } }] },
      ],
    }),
  );
  const answer = valueOf(ask(world, "10.0.0.0/8 a/web 80"));
  t.equal(answer.verdict, "mixed");
  t.same(
    answer.flows.map(({ from, isAllowed }) => [from, isAllowed]),
    [
      ["10.0.0.0/8 except 10.1.0.5/32, 10.1.0.6/32, 10.1.1.0/24 and 1 more", true],
      ["a/web (10.1.0.5)", true],
      ["a/web-2 (10.1.0.6)", true],
      ["10.1.1.0/24 except 10.1.1.5/32", false],
      ["b/client (10.1.1.5)", false],
      ["10.200.0.0/16", false],
    ],
  );
  t.end();
});

void t.test("N54 a pod that only an ipBlock matches is allowed with a warning", (t) => {
  const world = worldOf(
    ...PODS,
    policy("a", "by-block", {
      podSelector: {},
      ingress: [{ from: [{ ipBlock: { cidr: "10.1.0.0/16" } }] }],
    }),
  );
  t.match(ask(world, "b/client a/web 80"), {
    value: {
      verdict: "allowed",
      flows: [{ notes: [/only by an ipBlock, which some network plugins never do/] }],
    },
  });
  const better = worldOf(
    ...PODS,
    ...world.policies.map(() =>
      policy("a", "by-block", {
        podSelector: {},
        ingress: [
          { from: [{ ipBlock: { cidr: "10.1.0.0/16" } }] },
          { from: [{ namespaceSelector: {} }] },
        ],
      }),
    ),
  );
  t.match(ask(better, "b/client a/web 80"), {
    value: { flows: [{ ingress: { rule: 1 }, notes: [] }] },
  });
  t.end();
});

void t.test("a denial that an unknown address might turn is noted", (t) => {
  const block = { from: [{ ipBlock: { cidr: "10.1.0.0/16" } }], ports: [{ port: 80 }] };
  const world = worldOf(
    pod("a", "web"),
    pod("b", "client"),
    policy("a", "by-block", { podSelector: {}, ingress: [block] }),
  );
  t.match(ask(world, "b/client a/web 80"), {
    value: { verdict: "denied", flows: [{ notes: [/address of the other end is not known/] }] },
  });
  t.match(ask(world, "b/client a/web 81"), {
    value: { verdict: "denied", flows: [{ notes: { length: 0 } }] },
  });
  t.end();
});

void t.test("a pod of two families is judged in each", (t) => {
  const world = worldOf(
    ...PODS,
    policy("a", "v4", {
      podSelector: {},
      ingress: [{ from: [{ ipBlock: { cidr: "0.0.0.0/0" } }] }],
    }),
  );
  const answer = valueOf(ask(world, "203.0.113.1 a/app=web 80"));
  t.same(
    answer.flows.map(({ to }) => to),
    ["a/web", "a/web-2 (10.1.0.6)"],
  );
  t.match(ask(world, "2001:db8::1 a/app=web 80"), {
    value: { verdict: "denied", flows: { length: 1 } },
  });
  t.match(ask(world, "2001:db8::1 a/web 80"), {
    ok: false,
    problem: /no address family in common/,
  });
  t.end();
});

void t.test("the address of a Service stands for its pods and their ports", (t) => {
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace: "a", name: "web" },
    spec: {
      clusterIP: "10.96.0.9",
      selector: { app: "web" },
      ports: [{ port: 80, targetPort: "http" }],
    },
  };
  const world = worldOf(
    ...PODS,
    service,
    policy("a", "in", { podSelector: {}, ingress: [{ ports: [{ port: 8080 }] }] }),
  );
  t.match(ask(world, "b/client 10.96.0.9 80"), {
    value: {
      verdict: "allowed",
      flows: [
        { to: "a/web", port: 8080, notes: [/pods behind Service a\/web/] },
        { to: "a/web-2 (10.1.0.6)" },
      ],
    },
  });
  t.match(ask(world, "b/client 10.96.0.9 81"), {
    ok: false,
    problem: "Service a/web has no port 81/TCP",
  });
  t.end();
});

void t.test(
  "cluster policies: Admin before, Baseline after, Pass to the next tier, equal priorities are said",
  (t) => {
    const from = [{ namespaces: {} }];
    const admin = (name: string, priority: number, action: string) =>
      clusterPolicy(name, { tier: "Admin", priority, ingress: [{ name: "r", action, from }] });
    const deny = policy("a", "deny", { podSelector: {} });
    t.match(ask(worldOf(...PODS, deny, admin("c", 1, "Accept")), "b/client a/web 80"), {
      value: {
        verdict: "allowed",
        flows: [
          { ingress: { by: "cluster-policy", policy: "c", tier: "Admin", rule: 0, ruleName: "r" } },
        ],
      },
    });
    t.match(ask(worldOf(...PODS, deny, admin("c", 1, "Pass")), "b/client a/web 80"), {
      value: { flows: [{ ingress: { by: "isolation" } }] },
    });
    const baseline = clusterPolicy("default", {
      tier: "Baseline",
      priority: 0,
      ingress: [{ action: "Deny", from }],
    });
    t.match(ask(worldOf(...PODS, baseline), "b/client a/web 80"), {
      value: { verdict: "denied", flows: [{ ingress: { policy: "default", tier: "Baseline" } }] },
    });
    t.match(
      ask(worldOf(...PODS, admin("c", 5, "Accept"), admin("d", 5, "Deny")), "b/client a/web 80"),
      {
        value: { flows: [{ notes: [/c \(Accept\) and d \(Deny\) both have priority 5/] }] },
      },
    );
    const unknown = clusterPolicy("names", {
      tier: "Admin",
      priority: 0,
      egress: [{ action: "Deny", to: [{ domainNames: ["a.example"] }] }],
    });
    t.match(ask(worldOf(...PODS, unknown), "b/client a/web 80"), {
      value: { verdict: "denied", flows: [{ notes: [/"domainNames" is not understood here/] }] },
    });
    t.end();
  },
);

void t.test("who is not there is said, with who is", (t) => {
  const world = worldOf(...PODS);
  t.match(ask(world, "a/nobody a/web 80"), {
    ok: false,
    problem: "FROM a/nobody: there is no such pod; known there: web, web-2",
  });
  t.match(ask(world, "a/web c/app=x 80"), {
    ok: false,
    problem: "TO: no pod in namespace c has the labels asked for; no pods of namespace c are known",
  });
  t.match(ask(world, "a/web b/client metrics"), {
    ok: false,
    problem: /no container of pod b\/client has a TCP port "metrics"/,
  });
  t.match(ask(world, "a/web 8.8.8.8 http"), {
    ok: false,
    problem: /is a name, and 8\.8\.8\.8 is no pod/,
  });
  t.end();
});
