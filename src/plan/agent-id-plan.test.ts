/** Tests of choosing agent ids and of settling contests. */

import fc from "fast-check";
import t from "tap";
import { AGENT_ID_MAX, parseAgentId } from "#src/model/agent-id.ts";
import { publicKeyFromBytes, type PublicKey } from "#src/model/key.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { AgentClaim } from "#src/model/tunnel.ts";
import { chooseAgentId, fnv1a, preferredAgentId, winningClaims } from "./agent-id-plan.ts";

t.test("FNV-1a gives the published values", async (t) => {
  t.equal(fnv1a(""), 0x811c9dc5);
  t.equal(fnv1a("a"), 0xe40c292c);
  t.equal(fnv1a("foobar"), 0xbf9cf968);
});

t.test("the preferred id of a name is 1 + hash mod 65535", async (t) => {
  t.equal(preferredAgentId("foobar"), 1 + (0xbf9cf968 % 65535));
  fc.assert(fc.property(fc.string(), (name) => parseAgentId(preferredAgentId(name)).ok));
});

t.test("an agent without rivals takes its preferred id", async (t) => {
  t.equal(chooseAgentId({ node: "n1", claims: [] }), preferredAgentId("n1"));
});

t.test("an agent keeps the id that it holds, whatever it would prefer", async (t) => {
  t.equal(chooseAgentId({ node: "n1", claims: [claim({ node: "n1", agentId: 9 })] }), 9);
});

t.test("an agent takes the next free number after a collision", async (t) => {
  const preferred = preferredAgentId("n1");
  const claims = [0, 1, 2].map((step) =>
    claim({ node: `x${step}`, agentId: wrap(preferred + step) }),
  );
  t.equal(chooseAgentId({ node: "n1", claims }), wrap(preferred + 3));
});

t.test("the number after 65535 is 1", async (t) => {
  const node = nodePreferring(AGENT_ID_MAX);
  t.equal(chooseAgentId({ node, claims: [claim({ node: "x", agentId: AGENT_ID_MAX })] }), 1);
});

t.test("on a tie the younger picks again and the older keeps the id", async (t) => {
  const older = claim({ node: "old", agentId: 7, createdMs: 1 });
  const younger = claim({ node: "new", agentId: 7, createdMs: 2 });
  t.equal(chooseAgentId({ node: "old", claims: [younger, older] }), 7);
  t.not(chooseAgentId({ node: "new", claims: [younger, older] }), 7);
});

t.test("when every id is taken the preferred one is answered, in bounded time", async (t) => {
  const key = keyOf(1);
  const claims = Array.from({ length: AGENT_ID_MAX }, (_, at) => ({
    ...claim({ node: `x${at}`, agentId: at + 1 }),
    publicKey: key,
  }));
  t.equal(chooseAgentId({ node: "late", claims }), preferredAgentId("late"));
});

t.test("the older claim of an id wins, then the smaller UID, in any order", async (t) => {
  const first = claim({ node: "a", agentId: 7, createdMs: 1, uid: "u1" });
  const second = claim({ node: "b", agentId: 7, createdMs: 1, uid: "u2" });
  const third = claim({ node: "c", agentId: 7, createdMs: 2, uid: "u0" });
  for (const claims of [
    [first, second, third],
    [third, second, first],
  ]) {
    const { winners, losers } = winningClaims(claims);
    t.same([...winners.values()], [first]);
    t.match(losers, [
      {
        code: "agent-id-taken",
        object: "TunnelAgent b",
        message: /agent id 7, which the older TunnelAgent a holds/,
      },
      { code: "agent-id-taken", object: "TunnelAgent c" },
    ]);
  }
});

t.test("S1 a node that copies another's public key is ignored", async (t) => {
  const good = claim({ node: "good", agentId: 1, createdMs: 1, key: 5 });
  const evil = claim({ node: "evil", agentId: 2, createdMs: 2, key: 5 });
  const { winners, losers } = winningClaims([evil, good]);
  t.same([...winners.values()], [good]);
  t.match(losers, [{ code: "public-key-taken", object: "TunnelAgent evil" }]);
});

t.test("agents that pick again in turn all end with an id of their own", async () => {
  const names = fc.uniqueArray(fc.constantFrom(...Array.from("abcdefghijklmnop")), {
    minLength: 1,
    maxLength: 16,
  });
  fc.assert(
    fc.property(names, fc.integer({ min: 1, max: AGENT_ID_MAX }), (nodes, id) => {
      let claims = nodes.map((node, at) =>
        claim({ node, agentId: id, createdMs: at, key: at + 1 }),
      );
      for (const node of nodes) {
        const agentId = chooseAgentId({ node, claims });
        claims = claims.map((old) => (old.node === node ? { ...old, agentId } : old));
      }
      return winningClaims(claims).losers.length === 0;
    }),
  );
});

function claim(facts: {
  node: string;
  agentId: number;
  createdMs?: number;
  uid?: string;
  key?: number;
}): AgentClaim {
  return {
    node: facts.node,
    uid: facts.uid ?? `uid-${facts.node}`,
    createdMs: facts.createdMs ?? 0,
    publicKey: keyOf(facts.key ?? (fnv1a(facts.node) % 255) + 1),
    agentId: valueOf(parseAgentId(facts.agentId)),
    port: 51820,
  };
}

function keyOf(seed: number): PublicKey {
  return valueOf(publicKeyFromBytes(new Uint8Array(32).fill(seed)));
}

function wrap(id: number): number {
  return ((id - 1) % AGENT_ID_MAX) + 1;
}

function nodePreferring(id: number): string {
  for (let at = 0; ; at++) if (preferredAgentId(`n${at}`) === id) return `n${at}`;
}
