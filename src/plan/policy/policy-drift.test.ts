/** Drift of policies: what somebody changed is put back, what is not ours is left alone, and no drift is no write. */

import t from "tap";
import { parseNetworkPolicy, printNetworkPolicy } from "#src/codec/network-policy-codec.ts";
import { parseCidr } from "#src/model/cidr.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { NetworkPolicy, ObservedPolicy } from "#src/model/policy.ts";
import { STANDARD_PORTS } from "./flows.ts";
import { planPolicyDrift } from "./policy-drift.ts";
import { planPolicies, standardRoles } from "./policy-plan.ts";

const subject = "alpha";
const namespace = "shoot--lab--alpha";
const { policies: wanted } = planPolicies({
  namespace,
  subject,
  owner: null,
  roles: standardRoles({ namespace, tunnel: "alpha", controllerNamespace: "xylem-system" }),
  places: { "api-server-clients": [valueOf(parseCidr("203.0.113.0/24"))] },
  ports: STANDARD_PORTS,
  podRanges: [valueOf(parseCidr("203.0.113.128/26"))],
});
const isClients = ({ name }: NetworkPolicy): boolean => name.includes("clients-to-api-server");

void t.test(
  "N57 what is as wanted needs no write, whatever others added in labels and annotations",
  (t) => {
    const observed = wanted.map((policy) => ({
      ...observe(policy),
      labels: { ...policy.labels, team: "x" },
      annotations: { ...policy.annotations, note: "y" },
    }));
    t.same(planPolicyDrift({ subject, wanted, observed }), { changes: [], findings: [] });
    t.end();
  },
);

void t.test("policies of a flow that nothing is known of stay as they are, others go", (t) => {
  const observed = wanted.map(observe);
  const { changes } = planPolicyDrift({
    subject,
    wanted: [],
    observed,
    keep: ["clients-to-api-server"],
  });
  t.same(
    changes.map((change) => (change.kind === "remove" ? change.name : change.kind)).toSorted(),
    wanted
      .filter((policy) => !isClients(policy))
      .map(({ name }) => name)
      .toSorted(),
  );
  t.end();
});

void t.test(
  "N57 an except that somebody removed is put back, guarded by the version that was seen",
  (t) => {
    const observed = wanted.map((policy) =>
      isClients(policy) ? observe(withoutExcept(policy)) : observe(policy),
    );
    t.notSame(
      observed.find(({ policy }) => policy && isClients(policy))?.policy,
      wanted.find(isClients),
    );
    t.same(planPolicyDrift({ subject, wanted, observed }), {
      changes: [
        {
          kind: "replace",
          policy: wanted.find(isClients),
          uid: "uid-1",
          resourceVersion: "7",
          reason:
            "NetworkPolicy shoot--lab--alpha/xylem.clients-to-api-server.ingress.alpha: its ingress rules were changed",
        },
      ],
      findings: [],
    });
    t.end();
  },
);

void t.test("N57 every kind of change is found and named", (t) => {
  const cases: readonly {
    name: string;
    change: (policy: ObservedPolicy) => ObservedPolicy;
    reason: RegExp;
  }[] = [
    { name: "unreadable", change: (one) => ({ ...one, policy: null }), reason: /can't be read/ },
    {
      name: "pods",
      change: edit((policy) => ({ ...policy, pods: { ...policy.pods, matchLabels: {} } })),
      reason: /pods it selects/,
    },
    {
      name: "one more rule",
      change: edit((policy) => ({
        ...policy,
        ingress: [...(policy.ingress ?? []), { peers: [], ports: [] }],
      })),
      reason: /ingress rules/,
    },
    {
      name: "another direction",
      change: edit((policy) => ({ ...policy, egress: [] })),
      reason: /egress rules/,
    },
    {
      name: "label of the flow",
      change: (one) => ({ ...one, labels: { "app.kubernetes.io/managed-by": "xylem" } }),
      reason: /labels/,
    },
    { name: "annotations", change: (one) => ({ ...one, annotations: {} }), reason: /annotations/ },
  ];
  for (const { name, change, reason } of cases) {
    const observed = wanted.map((policy) =>
      isClients(policy) ? change(observe(policy)) : observe(policy),
    );
    const { changes } = planPolicyDrift({ subject, wanted, observed });
    t.match(changes, [{ kind: "replace", reason }], name);
    t.equal(changes.length, 1);
  }
  t.end();
});

void t.test("missing policies are made before unwanted ones go", (t) => {
  const old = {
    ...observe(requireFirst(wanted)),
    name: "xylem.old-flow.egress.alpha",
    uid: "uid-old",
  };
  const { changes } = planPolicyDrift({ subject, wanted, observed: [old] });
  t.same(
    changes.map(({ kind }) => kind),
    [...wanted.map(() => "create"), "remove"],
  );
  t.match(changes.at(-1), { name: "xylem.old-flow.egress.alpha", uid: "uid-old" });
  t.end();
});

void t.test(
  "policies of others and of other tunnels are left alone, and a taken name is said",
  (t) => {
    const first = requireFirst(wanted);
    const foreign = { ...observe(first), labels: {} };
    const other = {
      ...observe(first),
      name: "xylem.gateway-to-dns.egress.beta",
      annotations: { "xylem.dev/policies-of": "beta" },
    };
    const { changes, findings } = planPolicyDrift({
      subject,
      wanted: [first],
      observed: [foreign, other],
    });
    t.same(changes, []);
    t.match(findings, [{ code: "policy-name-taken", message: /is not Xylem's.*rename it/ }]);
    t.end();
  },
);

function observe(policy: NetworkPolicy): ObservedPolicy {
  const { name, labels, annotations } = policy;
  return {
    namespace,
    name,
    labels,
    annotations,
    uid: "uid-1",
    resourceVersion: "7",
    policy: readBack(policy),
  };
}

/** What the API server gives back. */
function readBack(policy: NetworkPolicy): NetworkPolicy {
  const object: unknown = JSON.parse(JSON.stringify(printNetworkPolicy(policy)));
  return valueOf(parseNetworkPolicy(object));
}

function edit(change: (policy: NetworkPolicy) => NetworkPolicy) {
  return (one: ObservedPolicy): ObservedPolicy =>
    one.policy === null ? one : { ...one, policy: change(one.policy) };
}

function withoutExcept(policy: NetworkPolicy): NetworkPolicy {
  const ingress = (policy.ingress ?? []).map((rule) => ({
    ...rule,
    peers: rule.peers.map((peer) => (peer.kind === "block" ? { ...peer, except: [] } : peer)),
  }));
  return { ...policy, ingress };
}

function requireFirst(policies: readonly NetworkPolicy[]): NetworkPolicy {
  const [first] = policies;
  if (first === undefined) throw new Error("nothing is wanted");
  return first;
}
