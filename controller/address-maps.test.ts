/** Address maps on fakes: stored once, published on both sides, never moved, given back with the Tunnel. */

import t from "tap";
import {
  ADDRESS_MAPS,
  IP_ADDRESSES,
  NODES,
  SEED_NETWORKS,
  TUNNELS,
  TUNNEL_GATEWAYS,
} from "#src/ports/kube-resource.ts";
import { GATEWAYS, NAME, node, RANGES, tunnel, world } from "./controller-world.ts";

const seedNetwork = (spec: object = {}) => ({
  metadata: { name: "eu-1" },
  spec: { ...RANGES, mapped: ["10.64.0.0/14"], ...spec },
});
const LIST = { name: "eu-1" };
const OPTIONS = { seedNetwork: "eu-1" };
const MAPS = [
  { real: "10.97.0.0/22", mapped: "10.64.144.0/22" },
  { real: "10.222.0.0/17", mapped: "10.64.0.0/17" },
  { real: "10.250.0.0/20", mapped: "10.64.128.0/20" },
  { real: "198.18.0.0/23", mapped: "10.64.148.0/23" },
];

const overlapping = (spec: object = {}) => {
  const made = world();
  made.seed.seed(SEED_NETWORKS, seedNetwork(spec));
  made.seed.seed(TUNNELS, tunnel());
  const entries = (): readonly { mapped: string; real: string; tunnel: { uid: string } }[] =>
    Object(made.seed.peek(ADDRESS_MAPS, LIST)?.["spec"]).entries ?? [];
  const told = () => Object(made.shoot.peek(TUNNEL_GATEWAYS, GATEWAYS)?.["spec"]).maps;
  return { ...made, entries, told };
};

void t.test(
  "a Tunnel that overlaps its seed has its maps stored, published and told",
  async (t) => {
    const { clock, seed, start, status, condition, entries, told } = overlapping();
    const controller = start(OPTIONS);
    await clock.advance(2_000);
    t.same(status().addressMaps, MAPS);
    t.same(told(), MAPS);
    t.equal(entries().length, 4);
    t.match(condition("Bridged"), { status: "True", reason: "Mapped" });
    const { uid } = seed.peek(TUNNELS, NAME)?.metadata ?? {};
    t.ok(entries().every((entry) => entry.tunnel.uid === uid));
    await controller.stop();
    t.equal(clock.pending, 0);
  },
);

void t.test("nothing is written again, over an hour and a restart", async (t) => {
  const { clock, seed, shoot, start } = overlapping();
  const first = start(OPTIONS);
  await clock.advance(5_000);
  const writes = () => seed.writes.length + shoot.writes.length;
  const before = writes();
  await clock.advance(60 * 60_000);
  await first.stop();
  const second = start(OPTIONS);
  await clock.advance(5_000);
  t.equal(writes(), before);
  await second.stop();
});

void t.test(
  "without --seed-network there are no maps, and those that were published stay",
  async (t) => {
    const { clock, seed, start, status, condition, entries, told } = overlapping();
    const plain = start();
    await clock.advance(2_000);
    t.equal(status().addressMaps, undefined);
    t.equal(condition("Bridged"), undefined);
    t.equal(seed.peek(ADDRESS_MAPS, LIST), null);
    await plain.stop();
    const mapping = start(OPTIONS);
    await clock.advance(2_000);
    t.same(status().addressMaps, MAPS);
    await mapping.stop();
    const again = start();
    await clock.advance(2_000);
    t.same(status().addressMaps, MAPS);
    t.same(told(), MAPS);
    t.equal(entries().length, 4);
    await again.stop();
  },
);

void t.test(
  "a range that is added live gets a map; nothing moves when the pool shrinks",
  async (t) => {
    const { clock, seed, start, status, condition, entries } = overlapping({
      pods: ["10.222.0.0/16"],
    });
    const controller = start(OPTIONS);
    await clock.advance(2_000);
    const before = entries();
    const pods = ["10.222.0.0/17", "10.222.128.0/24"];
    await seed.patch(TUNNELS, NAME, { spec: { ranges: { pods } } });
    await clock.advance(2_000);
    t.same(entries().slice(0, 4), before);
    t.same(
      entries()
        .slice(4)
        .map(({ real, mapped }) => [real, mapped]),
      [["10.222.128.0/24", "10.64.150.0/24"]],
    );
    t.equal(status().addressMaps.length, 5);
    await seed.patch(SEED_NETWORKS, LIST, { spec: { mapped: ["10.68.0.0/14"] } });
    await clock.advance(2_000);
    t.same(entries().slice(0, 4), before);
    t.match(condition("Bridged"), {
      status: "False",
      reason: "NoMap",
      message: /lies outside of spec\.mapped of SeedNetwork eu-1/u,
    });
    await controller.stop();
  },
);

void t.test("two controllers at once store each map once", async (t) => {
  const { clock, seed, start, entries } = overlapping();
  seed.seed(TUNNELS, { ...tunnel(), metadata: { namespace: "shoot--b", name: "beta" } });
  const controllers = [start(OPTIONS), start(OPTIONS)];
  await clock.advance(30_000);
  const list = entries();
  t.equal(list.length, 8);
  t.equal(new Set(list.map(({ mapped }) => mapped)).size, 8);
  for (const controller of controllers) await controller.stop();
});

void t.test(
  "a Tunnel that goes gives its maps back; one made anew by force keeps the numbers",
  async (t) => {
    const { clock, seed, start, status, entries } = overlapping();
    const controller = start(OPTIONS);
    await clock.advance(2_000);
    const { uid } = seed.peek(TUNNELS, NAME)?.metadata ?? {};
    // Somebody takes the finalizer away by hand: nothing is given back.
    await seed.patch(TUNNELS, NAME, { metadata: { finalizers: [] } });
    await seed.delete(TUNNELS, NAME);
    seed.seed(TUNNELS, tunnel());
    await clock.advance(5_000);
    t.not(seed.peek(TUNNELS, NAME)?.metadata.uid, uid);
    t.same(status().addressMaps, MAPS);
    t.ok(entries().every((entry) => entry.tunnel.uid !== uid));
    await seed.delete(TUNNELS, NAME);
    await clock.advance(5_000);
    t.equal(seed.peek(TUNNELS, NAME), null);
    t.same(entries(), []);
    await controller.stop();
  },
);

void t.test(
  "a seed that is not described is told, and the tunnel is published all the same",
  async (t) => {
    const { clock, seed, shoot, start, condition } = world();
    seed.seed(TUNNELS, tunnel());
    const controller = start(OPTIONS);
    await clock.advance(2_000);
    t.match(condition("Published"), { status: "True" });
    t.match(condition("Bridged"), {
      status: "False",
      reason: "NoMap",
      message: /^SeedNetwork eu-1 does not exist: create it, or correct --seed-network$/u,
    });
    t.ok(shoot.peek(TUNNEL_GATEWAYS, GATEWAYS));
    seed.seed(SEED_NETWORKS, seedNetwork());
    await clock.advance(2_000);
    t.match(condition("Bridged"), { status: "True" });
    await controller.stop();
  },
);

void t.test(
  "an address of both sides is named as soon as a node or a Service has it",
  async (t) => {
    const { clock, seed, shoot, start, condition } = world();
    const seedAddresses = [
      { name: "etcd", address: "10.97.0.7" },
      { name: "dns", address: "10.250.0.11" },
    ];
    seed.seed(TUNNELS, tunnel({ seedAddresses }));
    const controller = start();
    await clock.advance(2_000);
    t.match(condition("Bridged"), { status: "True", reason: "KeptOut" });
    shoot.seed(IP_ADDRESSES, {
      metadata: { name: "10.97.0.7" },
      spec: { parentRef: { group: "", resource: "services", namespace: "default", name: "clash" } },
    });
    await clock.advance(2_000);
    t.match(condition("Bridged"), {
      status: "False",
      reason: "AddressIsBoth",
      message:
        /^10\.97\.0\.7 is needed in the seed \(etcd\) and is the shoot's Service default\/clash: /u,
    });
    shoot.seed(NODES, node("n1"));
    await clock.advance(2_000);
    t.match(condition("Bridged"), {
      message: /; 10\.250\.0\.11 .* \(dns\) and is the shoot's Node n1/u,
    });
    await shoot.delete(IP_ADDRESSES, { name: "10.97.0.7" });
    await shoot.delete(NODES, { name: "n1" });
    await clock.advance(2_000);
    t.match(condition("Bridged"), { status: "True" });
    await controller.stop();
  },
);

void t.test(
  "Services of the shoot are only listed where a Tunnel needs an address of their range",
  async (t) => {
    const { clock, shoot, start } = overlapping();
    const controller = start(OPTIONS);
    await clock.advance(2_000);
    t.notOk(shoot.calls.some(({ object }) => object.includes("IPAddress")));
    await controller.stop();
  },
);
