/** Against a real API server: our policies are accepted and come back as they were, and it refuses what we refuse. */

import t from "tap";
import {
  parseNetworkPolicy,
  parseObservedPolicy,
  printNetworkPolicy,
} from "#src/codec/network-policy-codec.ts";
import { realClock } from "#src/host/clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { kubeconfigFile } from "#src/host/kube/kubeconfig.ts";
import { connectKube } from "#src/host/kube/rest.ts";
import { realRandom } from "#src/host/random.ts";
import { parseCidr } from "#src/model/cidr.ts";
import { valueOf } from "#src/model/parsed.ts";
import { STANDARD_PORTS } from "#src/plan/policy/flows.ts";
import { planPolicyDrift } from "#src/plan/policy/policy-drift.ts";
import { planPolicies, standardRoles } from "#src/plan/policy/policy-plan.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeResource } from "#src/ports/kube.ts";
import { NETWORK_POLICIES } from "./policy-live.ts";
import { policyCommand } from "./policy.ts";

const file = process.env["XYLEM_TEST_KUBECONFIG"];
const skip = file === undefined && "XYLEM_TEST_KUBECONFIG names no cluster to try";
const namespace = "xylem-policy-test";

const NAMESPACES: KubeResource = {
  group: "",
  version: "v1",
  plural: "namespaces",
  kind: "Namespace",
  isNamespaced: false,
};

const connect = (): Kube =>
  connectKube({
    credentials: kubeconfigFile(file ?? ""),
    clock: realClock,
    random: realRandom,
    log: new FakeLog(),
    userAgent: "xylem-test",
  });

const ipBlock = (cidr: string, except?: string[]) => ({
  ingress: [{ from: [{ ipBlock: except === undefined ? { cidr } : { cidr, except } }] }],
});
const port = (one: object) => ({ ingress: [{ ports: [one] }] });
const labels = (...matchExpressions: object[]) => ({ podSelector: { matchExpressions } });

/**
 * Specs that one of the two might take otherwise than the other. Not here: blocks with host bits, which Kubernetes took for
 * years, refuses in new objects (seen with 1.37) and keeps in old ones, so we read them.
 */
const SPECS: readonly object[] = [
  {},
  { policyTypes: ["Egress"] },
  { policyTypes: ["Ingress", "Egress", "Ingress"] },
  { policyTypes: ["Other"] },
  { ingress: [{}] },
  { egress: [{}] },
  { ingress: [{ from: [{}] }] },
  { ingress: [{ from: [{ podSelector: {}, ipBlock: { cidr: "10.0.0.0/8" } }] }] },
  ipBlock("10.0.0.0/8"),
  ipBlock("10.0.0.0"),
  ipBlock("10.0.0.0/33"),
  ipBlock("::ffff:10.0.0.0/104"),
  ipBlock("fd00::/8", ["fd00:1::/32"]),
  ipBlock("10.0.0.0/8", ["10.0.0.0/8"]),
  ipBlock("10.0.0.0/8", ["11.0.0.0/16"]),
  ipBlock("10.0.0.0/8", ["fd00::/16"]),
  port({}),
  port({ port: 80 }),
  port({ port: 0 }),
  port({ port: 65536 }),
  port({ port: "http" }),
  port({ port: "8080" }),
  port({ port: "much-too-long-a-name" }),
  port({ port: "Http" }),
  port({ port: "a--b" }),
  port({ port: 80, endPort: 90 }),
  port({ port: 80, endPort: 80 }),
  port({ port: 80, endPort: 79 }),
  port({ endPort: 80 }),
  port({ port: "http", endPort: 80 }),
  port({ protocol: "SCTP", port: 1 }),
  port({ protocol: "ICMP" }),
  { podSelector: { matchLabels: { "a/b": "c.d_e-f" } } },
  { podSelector: { matchLabels: { "a b": "c" } } },
  { podSelector: { matchLabels: { a: "-c" } } },
  { podSelector: { matchLabels: { a: "" } } },
  labels({ key: "a", operator: "In", values: ["x"] }),
  labels({ key: "a", operator: "In" }),
  labels({ key: "a", operator: "NotIn", values: [] }),
  labels({ key: "a", operator: "Exists" }),
  labels({ key: "a", operator: "Exists", values: ["x"] }),
  labels({ key: "a", operator: "Gt", values: ["1"] }),
];

void t.test("a real API server", { skip, timeout: 60_000 }, async (t) => {
  const kube = connect();
  t.teardown(() => kube.close());
  const made = await kube.create(NAMESPACES, { metadata: { name: namespace } });
  // Garbage collection takes away what belongs to nobody.
  const uid = made.metadata.uid ?? "";

  await t.test("N57 planned policies come back without drift", async (t) => {
    const wanted = planPolicies({
      namespace,
      subject: "alpha.b",
      owner: { apiVersion: "v1", kind: "Namespace", name: namespace, uid },
      roles: standardRoles({ namespace, tunnel: "alpha", controllerNamespace: namespace }),
      places: {
        "tunnel-endpoint": [valueOf(parseCidr("192.0.2.9/32"))],
        "api-server-clients": [valueOf(parseCidr("0.0.0.0/0")), valueOf(parseCidr("::/0"))],
        "seed-api": [valueOf(parseCidr("2001:db8::1/128"))],
        "seed-nodes": [valueOf(parseCidr("192.0.2.0/28"))],
      },
      ports: STANDARD_PORTS,
      podRanges: [valueOf(parseCidr("10.64.0.0/12")), valueOf(parseCidr("fd00:64::/48"))],
    }).policies;
    t.ok(wanted.length >= 15);
    for (const policy of wanted) await kube.create(NETWORK_POLICIES, printNetworkPolicy(policy));
    const items = await kube.list(NETWORK_POLICIES, { namespace });
    const observed = items.map((item) => valueOf(parseObservedPolicy(item)));
    t.same(planPolicyDrift({ subject: "alpha.b", wanted, observed }), {
      changes: [],
      findings: [],
    });
  });

  await t.test("it takes and refuses the specs that we take and refuse", async (t) => {
    for (const [at, spec] of SPECS.entries()) {
      const object = {
        metadata: { namespace, name: `p${at}` },
        spec: { podSelector: {}, ...spec },
      };
      const taken = await kube.create(NETWORK_POLICIES, object).then(
        (stored) => stored,
        (error: unknown) => {
          if (isHostError(error) && (error.code === "invalid" || error.code === "server-error"))
            return error.message;
          throw error;
        },
      );
      const ours = parseNetworkPolicy(object);
      const text = JSON.stringify(spec);
      t.equal(
        ours.ok,
        typeof taken !== "string",
        `${text}: ${ours.ok ? "taken" : ours.problem}; server: ${typeof taken === "string" ? taken : "taken"}`,
      );
      if (!ours.ok || typeof taken === "string") continue;
      const { labels: _, annotations: __, ...mine } = ours.value;
      t.match(parseNetworkPolicy(taken), { ok: true, value: mine }, `${text} comes back as read`);
    }
  });

  await t.test("xylem policy looks at it", async (t) => {
    const said = { text: "", code: -1 };
    const output = {
      out: (text: string) => void (said.text = text),
      error: (text: string) => void (said.text = text),
      exit: (code: number) => void (said.code = code),
    };
    const ask = ["explain", "203.0.113.1", "192.0.2.9", "80", "--kubeconfig", file ?? ""];
    await policyCommand(output).parseAsync(ask, { from: "user" });
    t.match(said, { text: /^allowed: 203\.0\.113\.1 -> 192\.0\.2\.9/, code: 0 });
  });

  await kube.delete(NAMESPACES, { name: namespace });
});
