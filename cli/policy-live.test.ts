/** `xylem policy` on a running cluster: what is read, and what a comparison with it means. */

import t from "tap";
import { parseNetworkPolicy } from "#src/codec/network-policy-codec.ts";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { valueOf } from "#src/model/parsed.ts";
import { EMPTY_WORLD, type NetworkPolicy } from "#src/model/policy.ts";
import { overlaidWorlds, replacedWorlds } from "#src/plan/policy/world-overlay.ts";
import type { KubeObject, KubeResource } from "#src/ports/kube.ts";
import { NETWORK_POLICIES, readKube } from "./policy-live.ts";

const PODS: KubeResource = {
  group: "",
  version: "v1",
  plural: "pods",
  kind: "Pod",
  isNamespaced: true,
};

const pod = (name: string, phase: string): KubeObject => ({
  metadata: { namespace: "a", name },
  spec: {},
  status: { phase, podIP: "10.1.0.5" },
});

const policy = (name: string, spec: object = {}, labels: Record<string, string> = {}) => ({
  metadata: { namespace: "a", name, labels },
  spec: { podSelector: {}, ...spec },
});

const model = (
  name: string,
  spec: object = {},
  labels: Record<string, string> = {},
): NetworkPolicy => valueOf(parseNetworkPolicy(policy(name, spec, labels)));

const opened = () => new FakeKube({ clock: new FakeClock(), log: new FakeLog() });

void t.test("pods that have ended are left out, and only lists are asked for", async (t) => {
  const kube = opened();
  kube.seed(PODS, pod("web", "Running"), pod("job", "Succeeded"));
  kube.seed(NETWORK_POLICIES, policy("deny"));
  t.match(await readKube(kube), {
    ok: true,
    value: { pods: { length: 1, 0: { name: "web" } }, policies: [{ name: "deny" }] },
  });
  t.same(new Set(kube.calls.map(({ verb }) => verb)), new Set(["list"]));
});

void t.test("a list that is forbidden is an error, not an empty cluster", async (t) => {
  const kube = opened();
  kube.breakDown("forbidden");
  await t.rejects(readKube(kube), { code: "forbidden" });
});

const MINE = { "app.kubernetes.io/managed-by": "xylem" };

void t.test(
  "against a cluster wanted policies are added, and with prune ours that are not wanted go",
  (t) => {
    const have = {
      ...EMPTY_WORLD,
      policies: [model("other"), model("old", {}, MINE), model("in")],
    };
    const want = { ...EMPTY_WORLD, policies: [model("in", { ingress: [{}] }), model("new")] };
    const names = (prune: boolean) =>
      overlaidWorlds({ have, want, prune }).want.policies.map(({ name }) => name);
    t.same(names(false), ["other", "old", "in", "new"]);
    t.same(names(true), ["other", "in", "new"]);
    t.same(overlaidWorlds({ have, want, prune: false }).want.policies[2], want.policies[0]);
    t.same(overlaidWorlds({ have, want, prune: false }).have.policies, have.policies);
    t.same(replacedWorlds({ have, want }).want.policies, want.policies);
    t.end();
  },
);
