/** Tests of a Tunnel's status: what it says, and that it only moves when it must. */

import t from "tap";
import { parseAgentId } from "#src/model/agent-id.ts";
import { parseCidr } from "#src/model/cidr.ts";
import { parseIp } from "#src/model/ip.ts";
import { publicKeyFromBytes } from "#src/model/key.ts";
import { parsed, problem, valueOf } from "#src/model/parsed.ts";
import { parseSlot } from "#src/model/slot.ts";
import type { Tunnel } from "#src/model/tunnel.ts";
import { countAgents, planTunnelStatus, type TunnelStatusFacts } from "./tunnel-status.ts";

const cidr = (text: string) => valueOf(parseCidr(text));
const tunnel: Tunnel = {
  namespace: "shoot--a",
  name: "alpha",
  generation: 4,
  ranges: {
    nodes: [cidr("10.250.0.0/20")],
    pods: [cidr("10.222.0.0/17")],
    services: [cidr("10.97.0.0/22")],
  },
  endpoint: null,
  mode: "tun",
  transit: [cidr("198.18.0.0/23")],
  slots: 32,
  mtu: 1380,
  mapped: "overlapping",
  seedAddresses: [],
};
const gateway = (slot: number) => ({
  slot: valueOf(parseSlot(slot)),
  holder: `kube-apiserver-${slot}`,
  address: valueOf(parseIp(`198.18.0.${slot + 1}`)),
});
const T0 = 1_767_225_600_000;
const facts: TunnelStatusFacts = {
  generation: 4,
  spec: parsed(tunnel),
  publication: { kind: "published" },
  gateways: [gateway(1), gateway(0)],
  agents: { ready: 2, total: 3 },
  injection: null,
  bridging: null,
  maps: [],
  lastHandshakeMs: T0,
  previous: undefined,
  nowMs: T0 + 5000,
};

t.test(
  "a tunnel that works is Accepted, Published and Ready, with its gateways by slot",
  async (t) => {
    const { status, isChanged } = planTunnelStatus(facts);
    t.equal(isChanged, true);
    t.match(status, {
      observedGeneration: 4,
      conditions: [
        {
          type: "Accepted",
          status: "True",
          observedGeneration: 4,
          lastTransitionTime: "2026-01-01T00:00:05Z",
        },
        { type: "Published", status: "True" },
        { type: "Ready", status: "True", reason: "Paired" },
      ],
      gateways: [{ slot: 0, holder: "kube-apiserver-0" }, { slot: 1 }],
      agents: { ready: 2, total: 3 },
      lastHandshake: "2026-01-01T00:00:00Z",
    });
  },
);

const states: { name: string; change: Partial<TunnelStatusFacts>; want: string[] }[] = [
  {
    name: "a bad spec",
    change: { spec: problem("Tunnel shoot--a/alpha: spec.mtu is wrong") },
    want: ["False InvalidSpec", "Unknown NotAccepted", "False NotAccepted"],
  },
  {
    name: "a shoot that is not told yet",
    change: { publication: { kind: "pending", message: "starting" } },
    want: ["True Valid", "Unknown Pending", "False NotPublished"],
  },
  {
    name: "a shoot that can't be told",
    change: { publication: { kind: "failed", message: "unreachable" } },
    want: ["True Valid", "False PublishFailed", "False NotPublished"],
  },
  {
    name: "no gateway",
    change: { gateways: [] },
    want: ["True Valid", "True Published", "False NoGateway"],
  },
  {
    name: "no agent",
    change: { agents: { ready: 0, total: 3 } },
    want: ["True Valid", "True Published", "False NoAgent"],
  },
];

for (const { name, change, want } of states) {
  t.test(`the conditions say ${name}`, async (t) => {
    const { status } = planTunnelStatus({ ...facts, ...change });
    t.same(
      status.conditions.map((condition) => `${condition.status} ${condition.reason}`),
      want,
    );
  });
}

t.test("a bad spec's problem is the condition's message", async (t) => {
  const { status } = planTunnelStatus({ ...facts, spec: problem("Tunnel a/b: spec.mtu is wrong") });
  t.match(status.conditions[0], { message: "Tunnel a/b: spec.mtu is wrong" });
});

t.test(
  "W57 the same facts later need no write, whatever the order of keys and gateways",
  async (t) => {
    const previous = reorder(planTunnelStatus(facts).status);
    const later = planTunnelStatus({
      ...facts,
      gateways: facts.gateways.toReversed(),
      previous,
      nowMs: T0 + 3_600_000,
    });
    t.equal(later.isChanged, false);
  },
);

t.test(
  "a condition's time moves with its status and not with its message or generation",
  async (t) => {
    const previous = planTunnelStatus(facts).status;
    const nowMs = T0 + 60_000;
    const renewed = planTunnelStatus({ ...facts, generation: 5, previous, nowMs });
    t.equal(renewed.isChanged, true);
    t.match(renewed.status.conditions[2], {
      observedGeneration: 5,
      lastTransitionTime: "2026-01-01T00:00:05Z",
    });
    const lost = planTunnelStatus({ ...facts, gateways: [], previous, nowMs });
    t.match(lost.status.conditions, [
      { lastTransitionTime: "2026-01-01T00:00:05Z" },
      { lastTransitionTime: "2026-01-01T00:00:05Z" },
      { status: "False", lastTransitionTime: "2026-01-01T00:01:00Z" },
    ]);
  },
);

const handshakes = [
  { name: "59 s newer", ms: T0 + 59_000, want: "2026-01-01T00:00:00Z" },
  { name: "60 s newer", ms: T0 + 60_000, want: "2026-01-01T00:01:00Z" },
  { name: "unknown", ms: null, want: "2026-01-01T00:00:00Z" },
  { name: "older", ms: T0 - 600_000, want: "2026-01-01T00:00:00Z" },
];

for (const { name, ms, want } of handshakes) {
  t.test(`a handshake that is ${name} gives ${want}`, async (t) => {
    const previous = planTunnelStatus(facts).status;
    t.equal(
      planTunnelStatus({ ...facts, previous, lastHandshakeMs: ms }).status.lastHandshake,
      want,
    );
  });
}

t.test("without any handshake the field is left out", async (t) => {
  t.notOk("lastHandshake" in planTunnelStatus({ ...facts, lastHandshakeMs: null }).status);
});

t.test("S2 a garbled earlier status is replaced, not trusted", async (t) => {
  for (const previous of [
    null,
    5,
    [],
    { conditions: "x" },
    {
      conditions: [null, { type: "Ready", status: "True", lastTransitionTime: "yesterday" }],
      lastHandshake: {},
    },
  ]) {
    const { status, isChanged } = planTunnelStatus({ ...facts, previous });
    t.equal(isChanged, true);
    t.match(status.conditions[2], { lastTransitionTime: "2026-01-01T00:00:05Z" });
  }
});

t.test("agents count as ready on Ready nodes with the winning claim", async (t) => {
  const node = (name: string, isReady: boolean) => ({
    name,
    uid: name,
    createdMs: 0,
    addresses: [],
    podCidrs: [],
    isReady,
  });
  const claim = (name: string, id: number) => ({
    node: name,
    uid: name,
    createdMs: id,
    publicKey: valueOf(publicKeyFromBytes(new Uint8Array(32).fill(name.charCodeAt(0)))),
    agentId: valueOf(parseAgentId(7)),
    port: 51820,
  });
  const got = countAgents({
    nodes: [node("a", true), node("b", true), node("c", false)],
    claims: [claim("a", 1), claim("b", 2)],
  });
  t.match(got, { ready: 1, total: 3, findings: [{ code: "agent-id-taken" }] });
});

function reorder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reorder);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, part]) => [key, reorder(part)]),
  );
}

t.test("a Tunnel that is being deleted says so, whether its spec is valid or not", async (t) => {
  const publication = { kind: "withdrawing", message: "the shoot does not answer" } as const;
  for (const spec of [facts.spec, problem("no ranges")]) {
    const { status } = planTunnelStatus({ ...facts, spec, publication });
    t.match(status.conditions, [
      { type: "Accepted" },
      { type: "Published", status: "Unknown", reason: "Withdrawing", message: /does not answer/ },
      { type: "Ready", status: "False", reason: "Deleting" },
    ]);
  }
});

t.test(
  "what the audit of pods says is the condition Injected, and nothing without one",
  async (t) => {
    const stale = { status: "False", reason: "StalePods", message: "restart a" } as const;
    const { status } = planTunnelStatus({ ...facts, injection: stale });
    t.match(status.conditions[3], { type: "Injected", ...stale, observedGeneration: 4 });
    const later = { ...facts, previous: status, nowMs: T0 + 60_000 };
    t.equal(planTunnelStatus({ ...later, injection: stale }).isChanged, false);
    t.equal(planTunnelStatus({ ...later, injection: "not-looked-yet" }).isChanged, false);
    t.equal(planTunnelStatus({ ...later, injection: null }).status.conditions.length, 3);
    const first = planTunnelStatus({ ...facts, injection: "not-looked-yet" });
    t.equal(first.status.conditions.length, 3, "nothing is claimed before the first look");
  },
);
