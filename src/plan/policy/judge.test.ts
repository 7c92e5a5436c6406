/** Verdicts agree with a naive judge over small universes, and say who decided. */

import fc from "fast-check";
import t from "tap";
import { readWorld } from "#src/codec/policy-world-codec.ts";
import { parseCidr } from "#src/model/cidr.ts";
import { parseIp } from "#src/model/ip.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { FlowEnd, PolicyProtocol, PolicyWorld } from "#src/model/policy.ts";
import { judgeOf } from "./judge.ts";
import { diffVerdicts } from "./verdict-diff.ts";
import { endAllows, oracleAllows } from "./policy-oracle.ts";
import type {
  RawClusterPeer,
  RawClusterPolicy,
  RawEnd,
  RawNamespace,
  RawPod,
  RawPolicy,
  RawSelector,
  RawWorld,
} from "./policy-oracle.ts";

const keys = fc.constantFrom("a", "b");
const values = fc.constantFrom("x", "y");
const labels: fc.Arbitrary<Record<string, string>> = fc.oneof(
  fc.constant({}),
  fc.dictionary(keys, values, { maxKeys: 2, noNullPrototype: true }),
);

/** Removes what is undefined, as JSON does: absent and empty fields are different things to the API. */
const json = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

const expression = fc.oneof(
  fc.record({
    key: keys,
    operator: fc.constantFrom("In", "NotIn"),
    values: fc.uniqueArray(values, { minLength: 1 }),
  }),
  fc.record({ key: keys, operator: fc.constantFrom("Exists", "DoesNotExist") }),
);
const selector: fc.Arbitrary<RawSelector> = fc
  .record({
    matchLabels: fc.option(labels, { nil: undefined }),
    matchExpressions: fc.option(fc.array(expression, { maxLength: 2 }), { nil: undefined }),
  })
  .map(json) as fc.Arbitrary<RawSelector>;

const namespaceSelector: fc.Arbitrary<RawSelector> = fc.oneof(
  selector,
  fc
    .constantFrom("n1", "n2")
    .map((name) => ({ matchLabels: { "kubernetes.io/metadata.name": name } })),
);

const blocks = fc.constantFrom(
  { cidr: "0.0.0.0/0" },
  { cidr: "10.0.0.0/8", except: ["10.1.0.0/16"] },
  { cidr: "10.1.0.0/16", except: ["10.1.0.0/31", "10.1.0.3/32"] },
  { cidr: "203.0.113.0/24" },
  { cidr: "203.0.113.9/32" },
  { cidr: "192.0.2.1/32" },
);

const peer = fc.oneof(
  fc.record({ podSelector: selector }),
  fc.record({ namespaceSelector }),
  fc.record({ podSelector: selector, namespaceSelector }),
  fc.record({ ipBlock: blocks }),
);

const ports = fc.constantFrom(
  {},
  { port: 80 },
  { protocol: "UDP", port: 80 },
  { protocol: "UDP" },
  { port: 80, endPort: 81 },
  { port: 82, endPort: 90 },
  { port: "web" },
  { protocol: "UDP", port: "web" },
  { protocol: "SCTP", port: 81 },
);

const rules = (side: "from" | "to") =>
  fc.array(
    fc
      .record({
        [side]: fc.option(fc.array(peer, { maxLength: 2 }), { nil: undefined }),
        ports: fc.option(fc.array(ports, { maxLength: 2 }), { nil: undefined }),
      })
      .map(json),
    { maxLength: 2 },
  );

const policy: fc.Arbitrary<RawPolicy> = fc
  .record({
    namespace: fc.constantFrom("n1", "n2"),
    podSelector: selector,
    policyTypes: fc.option(fc.uniqueArray(fc.constantFrom("Ingress", "Egress")), {
      nil: undefined,
    }),
    ingress: fc.option(rules("from"), { nil: undefined }),
    egress: fc.option(rules("to"), { nil: undefined }),
  })
  .map(({ namespace, ...spec }) =>
    json({
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { namespace, name: "p" },
      spec,
    }),
  ) as fc.Arbitrary<RawPolicy>;

const podsPeer: fc.Arbitrary<RawClusterPeer> = fc.oneof(
  fc.record({ namespaces: namespaceSelector }),
  fc.record({ pods: fc.record({ namespaceSelector, podSelector: selector }) }),
);
const egressPeer: fc.Arbitrary<RawClusterPeer> = fc.oneof(
  podsPeer,
  fc.record({ nodes: selector }),
  blocks.map(({ cidr }): RawClusterPeer => ({ networks: [cidr] })),
  fc.constant<RawClusterPeer>({ domainNames: ["example.com"] }),
);
const protocols = fc.constantFrom<Record<string, unknown>>(
  { tcp: { destinationPort: { number: 80 } } },
  { udp: { destinationPort: { range: { start: 80, end: 82 } } } },
  { sctp: { destinationPort: { number: 81 } } },
  { destinationNamedPort: "web" },
);
const clusterRules = (side: "from" | "to") =>
  fc.array(
    fc
      .record({
        action: fc.constantFrom("Accept", "Deny", "Pass"),
        [side]: fc.array(side === "from" ? podsPeer : egressPeer, { minLength: 1, maxLength: 2 }),
        protocols: fc.option(fc.array(protocols, { minLength: 1, maxLength: 2 }), {
          nil: undefined,
        }),
      })
      .map(json),
    { maxLength: 2 },
  );
const clusterPolicy = fc
  .record({
    tier: fc.constantFrom("Admin", "Baseline"),
    subject: podsPeer,
    ingress: clusterRules("from"),
    egress: clusterRules("to"),
  })
  .map((spec) => spec);

/** Priorities differ: of two equal ones either may win. */
const clusterPolicies = fc.array(clusterPolicy, { minLength: 1, maxLength: 3 }).chain((list) =>
  fc
    .shuffledSubarray([0, 1, 500, 1000], { minLength: list.length, maxLength: list.length })
    .map((priorities) =>
      list.map((spec, at) => ({
        apiVersion: "policy.networking.k8s.io/v1alpha2",
        kind: "ClusterNetworkPolicy",
        metadata: { name: `c${at}` },
        spec: { ...spec, priority: priorities[at] ?? 0 },
      })),
    ),
) as fc.Arbitrary<RawClusterPolicy[]>;

const namespace = (name: string) =>
  labels.map((some): RawNamespace => ({
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name, labels: some },
  }));

const pod = (at: number): fc.Arbitrary<RawPod> =>
  fc
    .record({
      namespace: fc.constantFrom("n1", "n2"),
      labels,
      isHost: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
      node: fc.constantFrom("192.0.2.1", "192.0.2.2"),
      port: fc.constantFrom(80, 81),
      protocol: fc.constantFrom("TCP", "UDP"),
    })
    .map(({ namespace: where, isHost, node, port, protocol, labels: some }) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { namespace: where, name: `p${at}`, labels: some },
      spec: {
        ...(isHost ? { hostNetwork: true } : {}),
        containers: [{ ports: [{ name: "web", containerPort: port, protocol }] }],
      },
      status: { podIP: isHost ? node : `10.1.0.${at}`, hostIP: node },
    }));

const node = (at: number) =>
  labels.map((some) => ({
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: `node${at}`, labels: some },
    status: { addresses: [{ type: "InternalIP", address: `192.0.2.${at}` }] },
  }));

const world: fc.Arbitrary<RawWorld> = fc.record({
  namespaces: fc.tuple(namespace("n1"), namespace("n2")),
  nodes: fc.tuple(node(1), node(2)),
  pods: fc.tuple(pod(1), pod(2), pod(3)),
  policies: fc.array(policy, { maxLength: 4 }),
  clusterPolicies: fc.oneof(
    { weight: 1, arbitrary: fc.constant<RawClusterPolicy[]>([]) },
    { weight: 3, arbitrary: clusterPolicies },
  ),
});

const ADDRESSES = ["203.0.113.9", "203.0.113.200", "10.200.0.1", "192.0.2.1", "192.0.2.2"];

void t.test(
  "N50 verdicts of both directions are those of a judge written from the API's sentences",
  (t) => {
    let flows = 0;
    const seen = new Map<string, number>();
    fc.assert(
      fc.property(world, (raw) => {
        const model = modelOf(raw);
        const judge = judgeOf(model);
        const ends: RawEnd[] = [...raw.pods, ...ADDRESSES];
        for (const from of ends) {
          for (const to of ends) {
            for (const port of [80, 81, 85]) {
              for (const protocol of ["TCP", "UDP", "SCTP"] as PolicyProtocol[]) {
                const verdict = judge({
                  from: endOf(model, from),
                  to: endOf(model, to),
                  port,
                  protocol,
                });
                const flow = { from, to, port, protocol };
                flows += 1;
                seen.set(verdict.ingress.by, (seen.get(verdict.ingress.by) ?? 0) + 1);
                if (
                  verdict.isAllowed !== oracleAllows(raw, flow) ||
                  verdict.egress.isAllowed !== endAllows(raw, flow, "egress") ||
                  verdict.ingress.isAllowed !== endAllows(raw, flow, "ingress")
                ) {
                  throw new Error(`${JSON.stringify(flow)}: ${JSON.stringify(verdict)}`);
                }
              }
            }
          }
        }
      }),
      { numRuns: 200 },
    );
    t.comment(`${flows} flows: ${JSON.stringify(Object.fromEntries(seen))}`);
    const deciders = ["outside", "itself", "own-node", "cluster-policy", "policy", "isolation"];
    for (const by of [...deciders, "no-policy"]) t.ok(seen.has(by), `some were decided by ${by}`);
    t.end();
  },
);

void t.test(
  "a comparison names the flows of pods whose verdict changes, no more and no fewer",
  (t) => {
    let changed = 0;
    const everywhere = [valueOf(parseCidr("0.0.0.0/0"))];
    const pair = fc.record({ base: world, other: world });
    fc.assert(
      fc.property(pair, ({ base, other }) => {
        const have = modelOf(base);
        const wantRaw = { ...base, ...rulesOf(other) };
        const want = modelOf(wantRaw);
        const diff = valueOf(diffVerdicts({ have, want, everywhere }));
        const pods = base.pods.filter(({ spec }) => spec.hostNetwork !== true);
        const ends: RawEnd[] = [...pods, ...ADDRESSES];
        for (const from of ends) {
          for (const to of ends) {
            if (typeof from === "string" && typeof to === "string") continue;
            // A pod always reaches itself, also where a class of equal pods is named.
            if (from === to) continue;
            for (const port of [80, 81, 85]) {
              for (const protocol of ["TCP", "UDP", "SCTP"] as PolicyProtocol[]) {
                const flow = { from, to, port, protocol };
                const [before, after] = [oracleAllows(base, flow), oracleAllows(wantRaw, flow)];
                const isTold = diff.changes.some(
                  (change) =>
                    isMember(change.from, from) &&
                    isMember(change.to, to) &&
                    change.becomes === (after ? "allowed" : "denied") &&
                    change.ports.some(
                      (range) =>
                        range.protocol === protocol && range.from <= port && port <= range.to,
                    ),
                );
                if (before !== after) changed += 1;
                // A block of addresses may change elsewhere than at the address asked about.
                const isExact = typeof from !== "string" && typeof to !== "string";
                if (before !== after ? !isTold : isExact && isTold) {
                  throw new Error(`${JSON.stringify(flow)} ${before} -> ${after}`);
                }
              }
            }
          }
        }
      }),
      { numRuns: 100 },
    );
    t.ok(changed > 100, `${changed} flows changed`);
    t.end();
  },
);

/** An address is a member of some block. */
function isMember(members: readonly string[], end: RawEnd): boolean {
  return typeof end === "string"
    ? members.some((name) => /^[0-9]/.test(name))
    : members.includes(`${end.metadata.namespace}/${end.metadata.name}`);
}

function rulesOf({ policies, clusterPolicies: cluster }: RawWorld): Partial<RawWorld> {
  return { policies, clusterPolicies: cluster };
}

function modelOf(raw: RawWorld): PolicyWorld {
  const objects = [
    ...raw.namespaces,
    ...raw.nodes,
    ...raw.pods,
    ...raw.policies,
    ...raw.clusterPolicies,
  ];
  const read = readWorld(objects, { withTemplates: true });
  if (!read.ok) throw new Error(read.problem);
  return read.value;
}

function endOf(model: PolicyWorld, end: RawEnd): FlowEnd {
  if (typeof end === "string") return { kind: "address", address: valueOf(parseIp(end)) };
  const found = model.pods.find(({ name }) => name === end.metadata.name);
  if (found === undefined) throw new Error(`no pod ${end.metadata.name}`);
  return { kind: "pod", pod: found, address: found.addresses[0] ?? null };
}
