/** One write registers a node; none follows, unless key, id or port changed. */

import t from "tap";
import { parseNode } from "#src/codec/node-codec.ts";
import { parseTunnelAgent } from "#src/codec/tunnel-agent-codec.ts";
import { valueOf } from "#src/model/parsed.ts";
import { TUNNEL_AGENTS } from "#src/ports/kube-resource.ts";
import type { KubeErrorCode, KubeObject } from "#src/ports/kube.ts";
import { keyOf, node, OWN, OWN_ID, publicKey, rival, world } from "./agent-world.ts";
import { register } from "./registration.ts";

const made = (objects: readonly KubeObject[] = []) => {
  const { kube, log } = world();
  kube.seed(TUNNEL_AGENTS, ...objects);
  const object = node(1);
  const creationTimestamp = "2026-01-01T00:00:00Z";
  const self = valueOf(
    parseNode({ ...object, metadata: { ...object.metadata, creationTimestamp } }),
  );
  const registered = () => {
    const claims = kube.peekAll(TUNNEL_AGENTS).map((claim) => valueOf(parseTunnelAgent(claim)));
    return register({ kube, log }, { node: self, claims, publicKey, port: 51_820, version: "1" });
  };
  return { kube, log, registered };
};

const own = (spec: object = {}): KubeObject => ({
  metadata: OWN,
  spec: { publicKey, agentId: OWN_ID, port: 51_820, version: "1", ...spec },
});

void t.test("an absent registration is created, then nothing is written", async (t) => {
  const { kube, registered } = made();
  t.equal(await registered(), OWN_ID);
  t.equal(await registered(), OWN_ID);
  t.strictSame(kube.writes, [{ verb: "create", object: "TunnelAgent kube-system/n1" }]);
});

const CHANGED: readonly { name: string; spec: object }[] = [
  { name: "another key", spec: { publicKey: keyOf(9) } },
  { name: "another port", spec: { port: 4_000 } },
];

for (const { name, spec } of CHANGED) {
  void t.test(`${name} is written over the old registration`, async (t) => {
    const { kube, registered } = made([own(spec)]);
    t.equal(await registered(), OWN_ID);
    t.match(kube.peek(TUNNEL_AGENTS, OWN), own());
    t.strictSame(
      kube.writes.map(({ verb }) => verb),
      ["patch"],
    );
  });
}

void t.test("another version alone is no reason to write", async (t) => {
  const { kube, registered } = made([own({ version: "0" })]);
  await registered();
  t.strictSame(kube.writes, []);
});

void t.test("an id that another node has is stepped over", async (t) => {
  const { registered } = made([rival(2, { agentId: OWN_ID })]);
  t.equal(await registered(), (OWN_ID % 65_535) + 1);
});

const REFUSALS: readonly KubeErrorCode[] = ["server-error", "forbidden", "unreachable", "timeout"];

for (const code of REFUSALS) {
  void t.test(`S3 a write refused with ${code} keeps the old registration`, async (t) => {
    const { kube, log, registered } = made([own({ port: 4_000 })]);
    kube.failNext("patch", code);
    t.equal(await registered(), OWN_ID);
    t.match(kube.peek(TUNNEL_AGENTS, OWN), own({ port: 4_000 }));
    t.match(log.messages("warn"), [/could not be updated, the old one stands/u]);
  });
}

void t.test(
  "S3 an old registration with another key can't stand: nobody could answer to it",
  async (t) => {
    const { kube, registered } = made([own({ publicKey: keyOf(9) })]);
    kube.failNext("patch", "server-error");
    await t.rejects(registered(), { code: "server-error" });
  },
);

void t.test("a first registration that is refused is a failure", async (t) => {
  const { kube, registered } = made();
  kube.failNext("create", "forbidden");
  await t.rejects(registered(), { code: "forbidden" });
});
