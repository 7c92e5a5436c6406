/** Comparisons of policies: who is told apart, how ports and addresses are named, and what is too much. */

import t from "tap";
import { readWorld } from "#src/codec/policy-world-codec.ts";
import { EVERYWHERE } from "#src/codec/policy-query-codec.ts";
import type { PolicyWorld } from "#src/model/policy.ts";
import { rangesText } from "./port-atoms.ts";
import { diffVerdicts } from "./verdict-diff.ts";

const pod = (namespace: string, name: string, ...ips: string[]) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { namespace, name, labels: { app: name.replace(/-.*/, "") } },
  spec: { containers: [{ ports: [{ name: "http", containerPort: 8080 }] }] },
  status: { podIPs: ips.map((ip) => ({ ip })) },
});

const namespace = (name: string, labels: object) => ({
  apiVersion: "v1",
  kind: "Namespace",
  metadata: { name, labels },
});

const policy = (name: string, spec: object) => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { namespace: "a", name },
  spec: { podSelector: {}, ...spec },
});

const worldOf = (...objects: object[]): PolicyWorld => {
  const read = readWorld(objects, { withTemplates: true });
  if (!read.ok) throw new Error(read.problem);
  return read.value;
};

/** One line a change. */
const linesOf = (have: PolicyWorld, want: PolicyWorld): readonly string[] => {
  const diff = diffVerdicts({ have, want, everywhere: EVERYWHERE });
  if (!diff.ok) throw new Error(diff.problem);
  return diff.value.changes.map(
    ({ from, to, ports, becomes }) =>
      `${becomes}: ${from.join("+")} -> ${to.join("+")} ${rangesText(ports)}`,
  );
};

const DENY = policy("deny", {});

void t.test("pods that are alike are named together, unless a block tells them apart", (t) => {
  const pods = [
    pod("b", "client-1", "10.1.0.1"),
    pod("b", "client-2", "10.1.0.2"),
    pod("b", "client-3", "10.2.0.3"),
    pod("a", "web", "10.1.0.9"),
  ];
  const allow = policy("in", { ingress: [{ from: [{ ipBlock: { cidr: "10.1.0.0/16" } }] }] });
  t.same(linesOf(worldOf(...pods, DENY), worldOf(...pods, DENY, allow)), [
    "allowed: b/client-1+b/client-2 -> a/web all ports",
    "allowed: 10.1.0.0/16 -> a/web all ports",
  ]);
  t.end();
});

void t.test("each family of a pod is looked at", (t) => {
  const pods = [pod("b", "client", "10.1.0.1", "fd00::1"), pod("a", "web", "10.1.0.9", "fd00::9")];
  const allow = policy("in", { ingress: [{ from: [{ ipBlock: { cidr: "fd00::/64" } }] }] });
  t.same(linesOf(worldOf(...pods, DENY), worldOf(...pods, DENY, allow)), [
    "allowed: b/client (fd00::1) -> a/web (fd00::9) all ports",
    "allowed: fd00::/64 -> a/web (fd00::9) all ports",
  ]);
  t.end();
});

void t.test("ports are joined to ranges, names of ports are numbers of pods", (t) => {
  const pods = [pod("b", "client"), pod("a", "web")];
  const from = [{ namespaceSelector: {} }];
  const have = policy("in", { ingress: [{ from, ports: [{ port: 80, endPort: 90 }] }] });
  const want = policy("in", {
    ingress: [{ from, ports: [{ port: 85, endPort: 95 }, { port: "http" }, { protocol: "UDP" }] }],
  });
  t.same(linesOf(worldOf(...pods, have), worldOf(...pods, want)), [
    "denied: b/client -> a/web 80-84/TCP",
    "allowed: b/client -> a/web 91-95/TCP, 8080/TCP, all of UDP",
  ]);
  t.end();
});

void t.test(
  "a label of a namespace changes verdicts too, and a policy with no effect changes none",
  (t) => {
    const pods = [pod("b", "client"), pod("a", "web")];
    const allow = policy("in", {
      ingress: [
        { from: [{ namespaceSelector: { matchLabels: { team: "x" } } }], ports: [{ port: 1 }] },
      ],
    });
    const have = worldOf(...pods, allow, namespace("b", {}));
    t.same(linesOf(have, worldOf(...pods, allow, namespace("b", { team: "x" }))), [
      "allowed: b/client -> a/web 1/TCP",
    ]);
    t.same(linesOf(have, worldOf(...pods, allow, DENY, namespace("b", {}))), []);
    t.end();
  },
);

void t.test(
  "equal pods that shut each other out are told, a lone pod keeps reaching itself",
  (t) => {
    const pods = [pod("a", "web-1"), pod("a", "web-2"), pod("a", "db")];
    const deny = policy("deny", { podSelector: { matchLabels: { app: "web" } } });
    const lines = linesOf(worldOf(...pods), worldOf(...pods, deny));
    t.ok(lines.includes("denied: a/web-1+a/web-2 -> a/web-1+a/web-2 all ports"));
    t.ok(lines.includes("denied: a/db -> a/web-1+a/web-2 all ports"));
    t.same(
      linesOf(worldOf(pod("a", "web")), worldOf(pod("a", "web"), deny)).length,
      EVERYWHERE.length,
    );
    t.end();
  },
);

void t.test("pods of a workload may be shut out from each other", (t) => {
  const template = { metadata: { labels: { app: "web" } }, spec: { containers: [] } };
  const workload = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { namespace: "a", name: "web" },
    spec: { template },
  };
  const lines = linesOf(worldOf(workload), worldOf(workload, DENY));
  t.ok(lines.includes("denied: a/web -> a/web all ports"));
  t.end();
});

void t.test("where no pods are known, those that policies speak of are assumed", (t) => {
  const allow = policy("in", {
    podSelector: { matchLabels: { app: "web" } },
    ingress: [
      { from: [{ podSelector: { matchLabels: { app: "client" } } }], ports: [{ port: 1 }] },
    ],
  });
  t.same(linesOf(worldOf(DENY), worldOf(DENY, allow)), [
    "allowed: a/(app=client) -> a/(app=web) 1/TCP",
  ]);
  t.end();
});

void t.test("a comparison that would take minutes is refused with what to do", (t) => {
  const pods = Array.from({ length: 1500 }, (_, at) => pod("a", `p${at}`));
  const ports = Array.from({ length: 50 }, (_, at) => ({ port: 1 + 2 * at }));
  const have = worldOf(...pods);
  const want = worldOf(...pods, policy("in", { ingress: [{ ports }] }));
  t.match(diffVerdicts({ have, want, everywhere: EVERYWHERE }), {
    ok: false,
    problem: /too many to compare: compare fewer namespaces/,
  });
  t.end();
});
