/** Tests of what is read from the shoot: Nodes, TunnelAgents, the agents' Service, slot Leases. */

import fc from "fast-check";
import t from "tap";
import { parseAgentId } from "#src/model/agent-id.ts";
import { parsePublicKey } from "#src/model/key.ts";
import { valueOf, type Parsed } from "#src/model/parsed.ts";
import { slotsUpTo } from "#src/model/slot.ts";
import { parseSlotLease, slotLeaseObject } from "./lease-codec.ts";
import { parseNode } from "./node-codec.ts";
import { parseAgentService } from "./service-codec.ts";
import { parseTunnelAgent, tunnelAgentObject } from "./tunnel-agent-codec.ts";

const KEY = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=";
const CREATED = "2026-01-01T00:00:00Z";
const CREATED_MS = 1_767_225_600_000;

t.test("a dual-stack Node is read", async (t) => {
  const object = nodeObject({
    spec: { podCIDR: "10.222.1.0/24", podCIDRs: ["10.222.1.0/24", "fd00:1::/64"] },
    status: {
      addresses: [
        { type: "Hostname", address: "not an address" },
        { type: "InternalIP", address: "10.250.0.2" },
        { type: "ExternalIP", address: "203.0.113.9" },
        { type: "InternalIP", address: "FD00::2" },
      ],
      conditions: [
        { type: "MemoryPressure", status: "False" },
        { type: "Ready", status: "True" },
      ],
    },
  });
  t.same(parseNode(object), {
    ok: true,
    value: {
      name: "n1",
      uid: "u1",
      createdMs: CREATED_MS,
      addresses: ["10.250.0.2", "fd00::2"],
      podCidrs: ["10.222.1.0/24", "fd00:1::/64"],
      isReady: true,
    },
  });
});

t.test("a Node that was just made has nothing yet and is not Ready", async (t) => {
  t.match(parseNode(nodeObject({})), {
    ok: true,
    value: { addresses: [], podCidrs: [], isReady: false },
  });
  t.match(parseNode(nodeObject({ spec: { podCIDR: "10.1.0.0/24" } })), {
    ok: true,
    value: { podCidrs: ["10.1.0.0/24"] },
  });
  t.match(parseNode(nodeObject({ spec: { podCIDR: "" } })), { ok: true, value: { podCidrs: [] } });
});

t.test("a Node whose Ready is Unknown is not Ready", async (t) => {
  const status = { conditions: [{ type: "Ready", status: "Unknown" }] };
  t.match(parseNode(nodeObject({ status })), { ok: true, value: { isReady: false } });
});

const hostileNodes: { title: string; parts: object; want: RegExp }[] = [
  {
    title: "an address that is none",
    parts: { status: { addresses: [{ type: "InternalIP", address: "10.0.0.1; rm" }] } },
    want: /^Node n1: status\.addresses\[0\]\.address: "10\.0\.0\.1; rm"/,
  },
  {
    title: "a mapped address",
    parts: { status: { addresses: [{ type: "InternalIP", address: "::ffff:10.0.0.1" }] } },
    want: /mapped/,
  },
  {
    title: "a pod CIDR with host bits",
    parts: { spec: { podCIDRs: ["10.1.2.3/24"] } },
    want: /write "10\.1\.2\.0\/24"/,
  },
  {
    title: "a huge list of addresses",
    parts: { status: { addresses: Array(100_000).fill({}) } },
    want: /has 100000 items: at most 128/,
  },
  {
    title: "a huge list of pod CIDRs",
    parts: { spec: { podCIDRs: Array(17).fill("10.0.0.0/24") } },
    want: /at most 16/,
  },
  {
    title: "a huge list of conditions",
    parts: { status: { conditions: Array(1000).fill({}) } },
    want: /at most 256/,
  },
  {
    title: "addresses that are text",
    parts: { status: { addresses: "10.0.0.1" } },
    want: /must be a list/,
  },
  {
    title: "an address that is null",
    parts: { status: { addresses: [null] } },
    want: /must be an object, found missing/,
  },
  {
    title: "a status that is text",
    parts: { status: "up" },
    want: /status must be an object, found "up"/,
  },
  {
    title: "no creation time",
    parts: { metadata: { name: "n1", uid: "u1" } },
    want: /creationTimestamp/,
  },
  {
    title: "a UID with a line end",
    parts: { metadata: { name: "n1", uid: "a\nb", creationTimestamp: CREATED } },
    want: /metadata\.uid/,
  },
];

for (const { title, parts, want } of hostileNodes) {
  t.test(`S2 a Node with ${title} is a problem that names it`, async (t) =>
    problemOf(t, parseNode(nodeObject(parts)), want),
  );
}

t.test("a TunnelAgent reads as it was written", async (t) => {
  const claim = {
    publicKey: valueOf(parsePublicKey(KEY)),
    agentId: valueOf(parseAgentId(4711)),
    port: 51820,
  };
  const object = tunnelAgentObject({
    node: { name: "n1", uid: "node-uid" },
    claim,
    version: "0.1.0",
  });
  const stored = {
    ...object,
    metadata: { ...object.metadata, uid: "u9", creationTimestamp: CREATED },
  };
  t.same(parseTunnelAgent(JSON.parse(JSON.stringify(stored))), {
    ok: true,
    value: { node: "n1", uid: "u9", createdMs: CREATED_MS, ...claim },
  });
  t.match(object.metadata.ownerReferences, [{ kind: "Node", name: "n1", uid: "node-uid" }]);
});

const hostileAgents = [
  { title: "agent id 0", spec: { publicKey: KEY, agentId: 0, port: 1 }, want: /spec\.agentId/ },
  {
    title: "an agent id above 65535",
    spec: { publicKey: KEY, agentId: 65536, port: 1 },
    want: /spec\.agentId/,
  },
  { title: "no port", spec: { publicKey: KEY, agentId: 1 }, want: /spec\.port/ },
  {
    title: "a huge key",
    spec: { publicKey: "A".repeat(1_000_000), agentId: 1, port: 1 },
    want: /spec\.publicKey/,
  },
];

for (const { title, spec, want } of hostileAgents) {
  t.test(`S2 a TunnelAgent with ${title} is a problem`, async (t) => {
    const metadata = { name: "n1", uid: "u1", creationTimestamp: CREATED };
    problemOf(t, parseTunnelAgent({ metadata, spec }), want);
  });
}

t.test("W15 a balancer's addresses and host names are told apart", async (t) => {
  const got = parseAgentService({
    metadata: { name: "xylem-agent", namespace: "kube-system" },
    spec: {
      ports: [
        { protocol: "TCP", port: 80 },
        { protocol: "UDP", port: 51821 },
      ],
    },
    status: {
      loadBalancer: {
        ingress: [
          { hostname: "LB.Example.com." },
          { ip: "192.0.2.10", ipMode: "VIP" },
          { ip: "192.0.2.10" },
          { ip: "2001:db8::1", hostname: "" },
        ],
      },
    },
  });
  t.same(got, {
    ok: true,
    value: { addresses: ["192.0.2.10", "2001:db8::1"], hosts: ["lb.example.com"], port: 51821 },
  });
});

t.test("a Service without a balancer yet has neither addresses nor names", async (t) => {
  const got = parseAgentService({
    metadata: {},
    spec: { ports: [{ protocol: "UDP", port: 1 }] },
    status: {},
  });
  t.match(got, { ok: true, value: { addresses: [], hosts: [] } });
});

t.test("S2 a Service with a hostile host name or without a UDP port is a problem", async (t) => {
  const spec = { ports: [{ protocol: "UDP", port: 1 }] };
  for (const hostname of ["a b", "-x", "x..y", "a".repeat(64), "a.".repeat(200), 5]) {
    problemOf(
      t,
      parseAgentService({ spec, status: { loadBalancer: { ingress: [{ hostname }] } } }),
      /not a host name/,
    );
  }
  problemOf(t, parseAgentService({ spec: { ports: [{ port: 1 }] } }), /no UDP port/);
});

t.test("a slot's Lease reads as it was written", async (t) => {
  const [, , slot] = slotsUpTo(3);
  if (slot === undefined) throw new Error("three slots have a last one");
  const object = slotLeaseObject({
    namespace: "shoot--a",
    tunnel: "alpha",
    slot,
    holder: "uid-1",
    gatewayName: "kube-apiserver-0",
    acquiredMs: 5,
    nowMs: CREATED_MS,
    lastHandshakeMs: CREATED_MS - 5000,
  });
  t.equal(object.spec.renewTime, "2026-01-01T00:00:00.000000Z");
  t.same(parseSlotLease(object), {
    ok: true,
    value: {
      tunnel: "alpha",
      slot: 2,
      holder: "uid-1",
      gatewayName: "kube-apiserver-0",
      expiresMs: CREATED_MS + 2_400_000,
      lastHandshakeMs: CREATED_MS - 5000,
    },
  });
  const { metadata } = object;
  const spoilt = { ...metadata, annotations: { "xylem.dev/last-handshake": "yesterday" } };
  t.match(parseSlotLease({ ...object, metadata: spoilt }), {
    ok: true,
    value: { holder: "uid-1", lastHandshakeMs: null },
  });
  const released = { ...object, spec: { ...object.spec, holderIdentity: "" } };
  t.match(parseSlotLease(released), { ok: true, value: { holder: null } });
});

t.test("other Leases and slots out of range are a problem", async (t) => {
  for (const name of [
    "alpha",
    "alpha-xylem-slot-256",
    "alpha-xylem-slot-01",
    "-xylem-slot-1",
    "alpha-xylem-slot-x",
  ]) {
    problemOf(
      t,
      parseSlotLease({ metadata: { name }, spec: {} }),
      /not the name of a slot's Lease/,
    );
  }
});

t.test("S2 no reader of foreign objects ever throws", async () => {
  const shaped = fc.record({
    metadata: fc.oneof(
      fc.anything(),
      fc.record({ name: fc.anything(), uid: fc.anything(), annotations: fc.anything() }),
    ),
    spec: fc.oneof(
      fc.anything(),
      fc.record({ podCIDRs: fc.anything(), ports: fc.array(fc.anything()) }),
    ),
    status: fc.oneof(
      fc.anything(),
      fc.record({ addresses: fc.array(fc.anything()), loadBalancer: fc.anything() }),
    ),
  });
  fc.assert(
    fc.property(fc.oneof(fc.anything(), shaped), (object) => {
      for (const read of [parseNode, parseTunnelAgent, parseAgentService, parseSlotLease]) {
        const got = read(object);
        if (!got.ok && !/^[\x20-\x7e]{1,1500}$/.test(got.problem)) return false;
      }
      return true;
    }),
    { numRuns: 1000 },
  );
});

function nodeObject(parts: object): unknown {
  return { metadata: { name: "n1", uid: "u1", creationTimestamp: CREATED }, ...parts };
}

function problemOf(
  t: { equal: (a: unknown, b: unknown) => void; match: (a: string, b: RegExp) => void },
  got: Parsed<unknown>,
  want: RegExp,
): void {
  t.equal(got.ok, false);
  if (!got.ok) t.match(got.problem, want);
}
