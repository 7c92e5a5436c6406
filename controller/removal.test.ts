/** A Tunnel that is deleted takes back what it made, in the shoot first, and nobody is stuck for ever. */

import t from "tap";
import {
  EVENTS,
  LEASES,
  SECRETS,
  TUNNELS,
  TUNNEL_AGENTS,
  TUNNEL_GATEWAYS,
} from "#src/ports/kube-resource.ts";
import { GATEWAYS, NAME, SECRET, tunnel, world } from "./controller-world.ts";

const MINUTE = 60_000;
const FORCE = { metadata: { annotations: { "xylem.dev/force-delete": "true" } } };

/** A Tunnel that is published, with a gateway that holds a slot. */
const published = async (object: object = {}) => {
  const made = world();
  made.seed.seed(TUNNELS, { ...tunnel(), ...object });
  const controller = made.start();
  await made.clock.advance(2_000);
  const gateway = made.claim();
  await made.clock.advance(2_000);
  return { ...made, controller, gateway };
};

void t.test("a Tunnel has the finalizer before its Secret is made", async (t) => {
  const { seed, controller } = await published();
  t.strictSame(seed.peek(TUNNELS, NAME)?.metadata["finalizers"], ["xylem.dev/tunnel"]);
  t.strictSame(
    seed.writes.slice(0, 2).map(({ verb, object }) => `${verb} ${object}`),
    ["patch Tunnel shoot--lab--alpha/alpha", "create Secret shoot--lab--alpha/alpha-xylem"],
  );
  await controller.stop();
});

void t.test("TunnelGateways is marked before it goes, and unmarked when it stays", async (t) => {
  const { clock, seed, shoot, controller } = await published();
  const annotations = { "xylem.dev/withdrawn": "true" };
  await shoot.patch(TUNNEL_GATEWAYS, GATEWAYS, { metadata: { annotations } });
  await clock.advance(2 * MINUTE);
  const kept = shoot.peek(TUNNEL_GATEWAYS, GATEWAYS)?.metadata.annotations;
  t.strictSame(Object.keys(kept ?? {}), ["xylem.dev/tunnel-uid"]);
  const before = shoot.writes.length;
  await seed.delete(TUNNELS, NAME);
  await clock.advance(2_000);
  t.strictSame(
    shoot.writes.slice(before).map(({ verb }) => verb),
    ["patch", "delete"],
  );
  await controller.stop();
});

void t.test("finalizers of others stay, and the Tunnel with them", async (t) => {
  const metadata = { ...NAME, finalizers: ["example.org/other"] };
  const { clock, seed, shoot, controller } = await published({ metadata });
  const finalizers = (): unknown => seed.peek(TUNNELS, NAME)?.metadata["finalizers"];
  t.strictSame(finalizers(), ["example.org/other", "xylem.dev/tunnel"]);
  await seed.delete(TUNNELS, NAME);
  await clock.advance(2_000);
  t.strictSame(finalizers(), ["example.org/other"]);
  t.equal(shoot.peek(TUNNEL_GATEWAYS, GATEWAYS), null);
  const writes = [seed.writes.length, shoot.writes.length];
  await clock.advance(5 * MINUTE);
  t.strictSame([seed.writes.length, shoot.writes.length], writes, "nothing is made anew");
  await controller.stop();
});

void t.test(
  "a deleted Tunnel takes TunnelGateways and its Leases with it; what is others' stays",
  async (t) => {
    const { clock, seed, shoot, controller } = await published();
    const foreign = { namespace: NAME.namespace, name: "somebody-elses" };
    const labels = { "xylem.dev/tunnel": NAME.name };
    seed.seed(LEASES, { metadata: { ...foreign, labels }, spec: {} });
    shoot.seed(TUNNEL_AGENTS, { metadata: { namespace: "kube-system", name: "n1" }, spec: {} });
    t.equal(seed.peekAll(LEASES).length, 2);
    await seed.delete(TUNNELS, NAME);
    await clock.advance(2_000);
    t.equal(seed.peek(TUNNELS, NAME), null);
    t.equal(shoot.peek(TUNNEL_GATEWAYS, GATEWAYS), null);
    t.equal(shoot.peekAll(TUNNEL_AGENTS).length, 1, "agents' objects go with their nodes");
    t.match(seed.peekAll(LEASES), [{ metadata: foreign }]);
    t.match(
      seed.peek(SECRETS, SECRET)?.metadata.ownerReferences,
      [{ kind: "Tunnel", uid: String }],
      "the Secret is the garbage collector's",
    );
    t.match(controller.status(), { tunnels: [] });
    await controller.stop();
    t.equal(clock.pending, 1, "only the gateway's renewal is left");
  },
);

void t.test(
  "a shoot that does not answer is tried again, said in the status, and told when it is back",
  async (t) => {
    const { clock, seed, shoot, controller, condition } = await published();
    shoot.breakDown();
    await seed.delete(TUNNELS, NAME);
    await clock.advance(MINUTE);
    t.match(condition("Published"), {
      status: "Unknown",
      reason: "Withdrawing",
      message: /outage; tried until 2026-01-01T00:10:04Z, annotate .*force-delete=true/u,
    });
    t.match(condition("Ready"), { status: "False", reason: "Deleting" });
    t.equal(seed.peekAll(LEASES).length, 1, "gateways keep their slots until the shoot was told");
    const writes = seed.writes.length;
    await clock.advance(3 * MINUTE);
    t.equal(seed.writes.length, writes, "waiting writes nothing");
    shoot.recover();
    await clock.advance(MINUTE);
    t.equal(seed.peek(TUNNELS, NAME), null);
    t.equal(shoot.peek(TUNNEL_GATEWAYS, GATEWAYS), null);
    t.equal(seed.peekAll(EVENTS).length, 0);
    await controller.stop();
  },
);

void t.test(
  "a shoot that never answers is given up after ten minutes, with an Event",
  async (t) => {
    const { clock, log, seed, shoot, controller } = await published();
    shoot.breakDown();
    await seed.delete(TUNNELS, NAME);
    await clock.advance(9 * MINUTE);
    t.ok(seed.peek(TUNNELS, NAME));
    await clock.advance(2 * MINUTE);
    t.equal(seed.peek(TUNNELS, NAME), null);
    t.equal(seed.peekAll(LEASES).length, 0);
    t.match(seed.peekAll(EVENTS), [
      {
        type: "Warning",
        reason: "ShootNotTold",
        involvedObject: { kind: "Tunnel", name: "alpha", uid: String },
        message: /given up after 10 minutes.*delete its TunnelGateways/u,
      },
    ]);
    t.match(log.messages("warn").at(-1), /given up/u);
    await controller.stop();
  },
);

void t.test("a namespace that takes no Event any more holds nothing up", async (t) => {
  const { clock, seed, shoot, controller } = await published();
  shoot.breakDown();
  await seed.delete(TUNNELS, NAME);
  await clock.advance(9 * MINUTE);
  seed.failNext("create", "forbidden");
  await clock.advance(2 * MINUTE);
  t.equal(seed.peek(TUNNELS, NAME), null);
  await controller.stop();
});

void t.test("force-delete leaves the shoot as it is, at once", async (t) => {
  const { clock, seed, shoot, controller } = await published();
  shoot.breakDown();
  await seed.delete(TUNNELS, NAME);
  await clock.advance(MINUTE);
  t.ok(seed.peek(TUNNELS, NAME));
  await seed.patch(TUNNELS, NAME, FORCE);
  await clock.advance(1_000);
  t.equal(seed.peek(TUNNELS, NAME), null);
  t.equal(seed.peekAll(LEASES).length, 0);
  t.ok(shoot.peek(TUNNEL_GATEWAYS, GATEWAYS));
  await controller.stop();
});

void t.test("what another seed's Tunnel told the shoot stays", async (t) => {
  const { clock, seed, shoot, controller } = await published();
  const annotations = { "xylem.dev/tunnel-uid": "of-the-new-seed" };
  await seed.delete(TUNNELS, NAME);
  await shoot.patch(TUNNEL_GATEWAYS, GATEWAYS, { metadata: { annotations } });
  await clock.advance(1_000);
  t.equal(seed.peek(TUNNELS, NAME), null);
  t.match(shoot.peek(TUNNEL_GATEWAYS, GATEWAYS), { metadata: { annotations } });
  await controller.stop();
});

void t.test(
  "a Tunnel whose spec became bad, and one that never was good, go all the same",
  async (t) => {
    const { clock, seed, shoot, controller } = await published();
    await seed.patch(TUNNELS, NAME, { spec: { ranges: null } });
    const never = { namespace: "other", name: "bad" };
    seed.seed(TUNNELS, { metadata: never, spec: {} });
    await clock.advance(2_000);
    t.equal(seed.peek(TUNNELS, never)?.metadata["finalizers"], undefined);
    await seed.delete(TUNNELS, NAME);
    await seed.delete(TUNNELS, never);
    await clock.advance(2_000);
    t.strictSame(seed.peekAll(TUNNELS), []);
    t.equal(shoot.peek(TUNNEL_GATEWAYS, GATEWAYS), null);
    await controller.stop();
  },
);
