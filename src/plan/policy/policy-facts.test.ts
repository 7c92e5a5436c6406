/** Facts of a tunnel and of an installation become policies that an API server or a person can check. */

import t from "tap";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { parseEndpoint, type Endpoint } from "#src/model/endpoint.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { Tunnel } from "#src/model/tunnel.ts";
import {
  controllerPolicyFacts,
  tunnelPolicyFacts,
  type PolicyInstallation,
} from "./policy-facts.ts";
import { planPolicies } from "./policy-plan.ts";

const cidr = (text: string): Cidr => valueOf(parseCidr(text));
const endpoint = (text: string): Endpoint => valueOf(parseEndpoint(text));

const installation: PolicyInstallation = {
  controllerNamespace: "xylem-system",
  seedApi: [endpoint("10.96.0.1:443"), endpoint("192.0.2.2:6443")],
  seedNodes: [cidr("192.0.2.0/28")],
  podRanges: [cidr("10.64.0.0/12")],
  apiServerClients: [cidr("0.0.0.0/0")],
  roles: { scraper: { namespace: "monitoring", pods: { app: "prometheus" } } },
  ports: { "api-server": 6443 },
};

const tunnel: Tunnel = {
  namespace: "shoot--lab--alpha",
  name: "alpha",
  generation: 1,
  ranges: { nodes: [], pods: [], services: [] },
  endpoint: null,
  mode: "tun",
  transit: [],
  slots: 4,
  mtu: 1380,
  mapped: "overlapping",
  seedAddresses: [],
};

void t.test("a tunnel's policies name its endpoints and ports, and go away with it", (t) => {
  const endpoints = [endpoint("203.0.113.9:51821"), endpoint("[2001:db8::9]:51821")];
  const { facts, findings } = tunnelPolicyFacts({ tunnel, uid: "u", endpoints, installation });
  const plan = planPolicies(facts);
  t.same([...findings, ...plan.findings], []);
  const byName = new Map(plan.policies.map((policy) => [policy.name, policy]));
  t.match(byName.get("xylem.gateway-to-endpoint.egress.alpha"), {
    owner: { kind: "Tunnel", name: "alpha", uid: "u" },
    egress: [
      {
        peers: [{ cidr: "203.0.113.9/32" }, { cidr: "2001:db8::9/128" }],
        ports: { 0: { protocol: "UDP", port: 51821 }, length: 1 },
      },
    ],
  });
  t.match(byName.get("xylem.gateway-to-seed-api.egress.alpha"), {
    egress: [
      {
        peers: [{ cidr: "10.96.0.1/32" }, { cidr: "192.0.2.2/32" }],
        ports: [{ port: 443 }, { port: 6443 }],
      },
    ],
  });
  t.match(byName.get("xylem.controller-to-api-server.ingress.alpha"), {
    ingress: [{ ports: [{ port: 6443 }] }],
  });
  t.end();
});

void t.test("a tunnel without a known endpoint is found, and only its flow is missing", (t) => {
  const { facts, findings } = tunnelPolicyFacts({ tunnel, uid: "u", endpoints: [], installation });
  t.match(findings, [
    { code: "policy-endpoint-unknown", object: "Tunnel shoot--lab--alpha/alpha" },
  ]);
  const names = planPolicies(facts).policies.map(({ name }) => name);
  t.notOk(names.some((name) => name.includes("gateway-to-endpoint")));
  t.ok(names.includes("xylem.gateway-to-seed-api.egress.alpha"));
  t.end();
});

void t.test("the controller may reach API servers in all namespaces, and little else", (t) => {
  const { policies, findings } = planPolicies(controllerPolicyFacts(installation));
  t.same(findings, []);
  t.same(
    policies.map(({ name }) => name),
    [
      "xylem.controller-to-api-server.egress.controller",
      "xylem.controller-to-seed-api.egress.controller",
      "xylem.controller-to-dns.egress.controller",
      "xylem.seed-api-to-webhook.ingress.controller",
      "xylem.probes-to-controller.ingress.controller",
      "xylem.scraper-to-controller.ingress.controller",
    ],
  );
  t.match(policies[0]?.egress, [
    {
      peers: [
        {
          namespaces: { matchLabels: {}, matchExpressions: [] },
          pods: { matchLabels: { app: "kubernetes", role: "apiserver" } },
        },
      ],
    },
  ]);
  t.end();
});
