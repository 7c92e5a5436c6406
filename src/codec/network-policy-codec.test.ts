/** Policies are read with the API server's defaults, and refused with its refusals: object, field, value. */

import t from "tap";
import { ANY_LABELS } from "#src/model/policy.ts";
import { parseClusterNetworkPolicy } from "./cluster-network-policy-codec.ts";
import { parseNetworkPolicy, parseObservedPolicy } from "./network-policy-codec.ts";
import { parseParty, parsePortText } from "./policy-query-codec.ts";
import { readWorld } from "./policy-world-codec.ts";

const policy = (spec: object, metadata: object = {}) => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { namespace: "a", name: "p", ...metadata },
  spec,
});

void t.test(
  "absent types are ingress, and egress where there is an egress rule; absent and empty lists differ",
  (t) => {
    const cases: readonly { name: string; spec: object; ingress: unknown; egress: unknown }[] = [
      { name: "nothing", spec: { podSelector: {} }, ingress: [], egress: null },
      { name: "empty egress", spec: { podSelector: {}, egress: [] }, ingress: [], egress: null },
      {
        name: "egress rule",
        spec: { podSelector: {}, egress: [{}] },
        ingress: [],
        egress: [{ peers: [], ports: [] }],
      },
      {
        name: "egress only, its ingress rules are not asked",
        spec: { podSelector: {}, policyTypes: ["Egress"], ingress: [{}] },
        ingress: null,
        egress: [],
      },
      {
        name: "null lists are absent",
        spec: { podSelector: {}, ingress: null, egress: null, policyTypes: null },
        ingress: [],
        egress: null,
      },
      {
        name: "empty lists of peers and ports match everything",
        spec: { podSelector: {}, ingress: [{ from: [], ports: [] }] },
        ingress: [{ peers: [], ports: [] }],
        egress: null,
      },
      {
        name: "empty selectors, protocol TCP, every port of it",
        spec: {
          ingress: [{ from: [{ podSelector: {} }, { namespaceSelector: {} }], ports: [{}] }],
        },
        ingress: [
          {
            peers: [
              { kind: "pods", namespaces: null, pods: ANY_LABELS },
              { kind: "pods", namespaces: ANY_LABELS, pods: ANY_LABELS },
            ],
            ports: [{ protocol: "TCP", port: null, endPort: null }],
          },
        ],
        egress: null,
      },
      {
        name: "host bits of a block mean nothing",
        spec: {
          podSelector: {},
          ingress: [{ from: [{ ipBlock: { cidr: "10.1.2.3/16", except: ["10.1.2.3/24"] } }] }],
        },
        ingress: [
          { peers: [{ kind: "block", cidr: "10.1.0.0/16", except: ["10.1.2.0/24"] }], ports: [] },
        ],
        egress: null,
      },
    ];
    for (const { name, spec, ingress, egress } of cases) {
      const read = parseNetworkPolicy(policy(spec));
      t.same(read, { ok: true, value: { ...(read.ok ? read.value : {}), ingress, egress } }, name);
    }
    t.end();
  },
);

void t.test("a bad policy is one sentence with object and field", (t) => {
  const ingress = (rule: object) => ({ podSelector: {}, ingress: [rule] });
  const cases: readonly { spec: object; problem: string | RegExp }[] = [
    {
      spec: ingress({ from: [{}] }),
      problem:
        "NetworkPolicy a/p: spec.ingress[0].from[0] names nobody: set podSelector, namespaceSelector or ipBlock",
    },
    {
      spec: ingress({ from: [{ podSelector: {}, ipBlock: { cidr: "10.0.0.0/8" } }] }),
      problem: /from\[0\] has an ipBlock and a selector/,
    },
    {
      spec: ingress({ from: [{ ipBlock: { cidr: "10.0.0.0" } }] }),
      problem: /from\[0\]\.ipBlock\.cidr: "10\.0\.0\.0" is not a canonical CIDR: the prefix length/,
    },
    {
      spec: ingress({ from: [{ ipBlock: { cidr: "10.0.0.0/8", except: ["11.0.0.0/16"] } }] }),
      problem: /except\[0\] 11\.0\.0\.0\/16 must be a smaller block inside of 10\.0\.0\.0\/8/,
    },
    {
      spec: ingress({ from: [{ ipBlock: { cidr: "::ffff:10.0.0.0/104" } }] }),
      problem: /IPv4-mapped/,
    },
    {
      spec: ingress({ ports: [{ endPort: 90 }] }),
      problem: /endPort needs a port that is a number/,
    },
    {
      spec: ingress({ ports: [{ port: "web", endPort: 90 }] }),
      problem: /endPort needs a port that is a number/,
    },
    {
      spec: ingress({ ports: [{ port: 91, endPort: 90 }] }),
      problem: /endPort 90 is below port 91/,
    },
    {
      spec: ingress({ ports: [{ port: 0 }] }),
      problem: /ports\[0\]\.port: a port is a whole number/,
    },
    { spec: ingress({ ports: [{ port: "8080" }] }), problem: /its name .* found "8080"/ },
    {
      spec: ingress({ ports: [{ protocol: "ICMP" }] }),
      problem: /TCP or UDP or SCTP, found "ICMP"/,
    },
    {
      spec: ingress({ to: [{ podSelector: {} }] }),
      problem: /unknown field "to": known are from, ports/,
    },
    {
      spec: { podSelector: {}, policyType: [] },
      problem: /spec has an unknown field "policyType"/,
    },
    {
      spec: { podSelector: { matchLabel: {} } },
      problem: /spec\.podSelector has an unknown field "matchLabel"/,
    },
    {
      spec: { podSelector: { matchExpressions: [{ key: "a", operator: "In" }] } },
      problem: /values must hold at least one value for operator In/,
    },
    {
      spec: {
        podSelector: { matchExpressions: [{ key: "a", operator: "Exists", values: ["x"] }] },
      },
      problem: /values must be empty for operator Exists/,
    },
    {
      spec: { podSelector: { matchLabels: { a: 1 } } },
      problem: /matchLabels\["a"\]: must be a label value/,
    },
    { spec: { podSelector: [] }, problem: /spec\.podSelector must be an object, found a list/ },
    { spec: ingress([]), problem: /spec\.ingress\[0\] must be an object/ },
  ];
  for (const { spec, problem } of cases) {
    t.match(parseNetworkPolicy(policy(spec)), { ok: false, problem }, String(problem));
  }
  t.end();
});

void t.test(
  "a policy of the API server that can't be read is still known by its name and version",
  (t) => {
    const metadata = { uid: "u", resourceVersion: "5", labels: { x: "y" } };
    t.match(parseObservedPolicy(policy({ podSelector: { matchFuture: 1 } }, metadata)), {
      ok: true,
      value: { namespace: "a", name: "p", uid: "u", resourceVersion: "5", policy: null },
    });
    t.match(parseObservedPolicy(policy({}, { ...metadata, uid: "" })), { ok: false });
    t.end();
  },
);

void t.test(
  "a ClusterNetworkPolicy keeps what is not understood as unknown, and refuses what the API does",
  (t) => {
    const cluster = (spec: object) => ({
      metadata: { name: "c" },
      spec: { tier: "Admin", priority: 7, subject: { namespaces: {} }, ...spec },
    });
    const egress = (rule: object) =>
      cluster({ egress: [{ action: "Accept", to: [{ networks: ["10.0.0.0/8"] }], ...rule }] });
    t.match(
      parseClusterNetworkPolicy(
        cluster({
          egress: [
            {
              name: "dns",
              action: "Pass",
              to: [{ domainNames: ["a.example"] }, { nodes: {} }, { networks: ["::/0"] }],
              protocols: [
                { udp: { destinationPort: { number: 53 } } },
                { tcp: { destinationPort: { range: { start: 1, end: 9 } } } },
                { destinationNamedPort: "web" },
              ],
            },
          ],
        }),
      ),
      {
        ok: true,
        value: {
          subject: { namespaces: ANY_LABELS, pods: ANY_LABELS },
          egress: [
            {
              peers: [
                { kind: "unknown", field: "domainNames" },
                { kind: "nodes" },
                { kind: "networks", cidrs: ["::/0"] },
              ],
              ports: [
                { kind: "range", protocol: "UDP", from: 53, to: 53 },
                { kind: "range", protocol: "TCP", from: 1, to: 9 },
                { kind: "named", name: "web" },
              ],
            },
          ],
        },
      },
    );
    const cases: readonly { object: object; problem: RegExp }[] = [
      { object: cluster({ tier: "Default" }), problem: /^ClusterNetworkPolicy c: spec\.tier/ },
      {
        object: cluster({ priority: 1001 }),
        problem: /spec\.priority: must be a whole number from 0/,
      },
      {
        object: cluster({ subject: {} }),
        problem: /subject must be an object with exactly one field/,
      },
      { object: cluster({ subject: { nodes: {} } }), problem: /subject\.nodes is not known/ },
      { object: egress({ to: [] }), problem: /egress\[0\]\.to must hold at least one peer/ },
      { object: egress({ action: "Allow" }), problem: /action: must be Accept or Deny or Pass/ },
      { object: egress({ protocols: [] }), problem: /protocols is empty/ },
      {
        object: egress({ protocols: [{ tcp: {} }] }),
        problem: /destinationPort must be an object/,
      },
      { object: egress({ protocols: [{ icmp: {} }] }), problem: /icmp is not known/ },
      {
        object: egress({
          protocols: [{ tcp: { destinationPort: { range: { start: 9, end: 9 } } } }],
        }),
        problem: /end 9 must be above start 9/,
      },
      { object: egress({ to: [{ networks: ["x"] }] }), problem: /networks\[0\]: "x" is not/ },
    ];
    for (const { object, problem } of cases) {
      t.match(parseClusterNetworkPolicy(object), { ok: false, problem }, String(problem));
    }
    t.end();
  },
);

void t.test(
  "a world is pods, workloads, namespaces, nodes, services and policies; the rest is passed over",
  (t) => {
    const template = {
      metadata: { labels: { app: "web" } },
      spec: {
        initContainers: [{ ports: [{ name: "status", containerPort: 9446 }] }],
        containers: [
          { ports: [{ containerPort: 1 }, { name: "dns", containerPort: 53, protocol: "UDP" }] },
        ],
      },
    };
    const objects = [
      {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { namespace: "a", name: "web" },
        spec: { template },
      },
      {
        apiVersion: "batch/v1",
        kind: "CronJob",
        metadata: { name: "job" },
        spec: { jobTemplate: { spec: { template } } },
      },
      {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: "host" },
        spec: { hostNetwork: true },
        status: { podIP: "192.0.2.1", hostIPs: [{ ip: "192.0.2.1" }, { ip: "2001:db8::1" }] },
      },
      {
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: "s" },
        spec: { clusterIP: "None", ports: [{ port: 80, targetPort: "http" }, { port: 81 }] },
      },
      {
        apiVersion: "v1",
        kind: "Node",
        metadata: { name: "n" },
        status: {
          addresses: [
            { type: "Hostname", address: "n" },
            { type: "InternalIP", address: "192.0.2.1" },
          ],
        },
      },
      { apiVersion: "v1", kind: "ConfigMap", metadata: {} },
      { kind: "Pod" },
    ];
    const read = readWorld(objects, { withTemplates: true });
    t.match(read, {
      ok: true,
      value: {
        pods: [
          {
            namespace: "a",
            name: "web",
            isTemplate: true,
            labels: { app: "web" },
            ports: [
              { name: "status", port: 9446, protocol: "TCP" },
              { name: "dns", port: 53, protocol: "UDP" },
            ],
          },
          { namespace: "default", name: "job", isTemplate: true },
          { name: "host", isHostNetwork: true, nodeAddresses: ["192.0.2.1", "2001:db8::1"] },
        ],
        services: [{ addresses: [], selector: null, ports: [{ target: "http" }, { target: 81 }] }],
        nodes: [{ addresses: ["192.0.2.1"] }],
      },
    });
    t.match(readWorld(objects, { withTemplates: false }), { value: { pods: { length: 1 } } });
    const bad = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "x" },
      status: { podIP: "1.2" },
    };
    t.match(readWorld([{}, bad], { withTemplates: true }), {
      ok: false,
      at: 1,
      problem: /^Pod x: spec|^Pod x: status\.podIP/,
    });
    t.end();
  },
);

void t.test("FROM, TO and PORT are read, and bad ones say how to write them", (t) => {
  t.same(parseParty("a/web-0"), {
    ok: true,
    value: { kind: "pod", namespace: "a", name: "web-0" },
  });
  t.match(parseParty("a/app=web,x.y/tier="), {
    value: { kind: "labels", labels: { matchLabels: { app: "web", "x.y/tier": "" } } },
  });
  t.match(parseParty("10.0.0.1"), { value: { kind: "block", cidr: "10.0.0.1/32" } });
  t.match(parseParty("2001:db8::/32"), { value: { kind: "block", cidr: "2001:db8::/32" } });
  t.match(parseParty("web"), { ok: false, problem: /names nobody: write namespace\/pod/ });
  t.match(parseParty("10.0.0.1/8"), { ok: false, problem: /bits are set after the prefix/ });
  t.match(parseParty("A/web"), { ok: false, problem: /the namespace must be a Kubernetes name/ });
  t.match(parseParty("a/app=web=x"), { ok: false, problem: /more than one '='/ });
  t.match(parseParty("a/app==x"), { ok: false });
  t.same(parsePortText("443"), { ok: true, value: { port: 443, protocol: "TCP" } });
  t.same(parsePortText("dns/udp"), { ok: true, value: { port: "dns", protocol: "UDP" } });
  for (const text of ["0", "65536", "443/ICMP", "", "a b", "1/TCP/2", "-1"]) {
    t.match(parsePortText(text), { ok: false, problem: /^"/ }, text);
  }
  t.end();
});
