/** Stored address maps: what is added, what never changes, and that no order of wishes makes two owners. */

import fc from "fast-check";
import t from "tap";
import type { StoredMap } from "#src/model/address-map.ts";
import type { SeedNetwork } from "#src/model/allocation.ts";
import { containsCidr, overlaps, parseCidr, sizeOf, type Cidr } from "#src/model/cidr.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { ApprovedRanges, MappedRanges, Tunnel } from "#src/model/tunnel.ts";
import { planAddressMaps, releaseAddressMaps } from "./address-map-plan.ts";

const c = (text: string): Cidr => valueOf(parseCidr(text));
const list = (...texts: readonly string[]): readonly Cidr[] => texts.map(c);

const seed: SeedNetwork = {
  name: "eu-1",
  nodes: list("10.250.0.0/20", "fd25::/64"),
  pods: list("10.128.0.0/17"),
  services: list("172.28.0.0/22"),
  transit: list("198.18.0.0/23"),
  mapped: list("10.64.0.0/14", "fd99::/40"),
  reserved: [],
};

interface Shape {
  readonly name?: string;
  readonly ranges?: Partial<ApprovedRanges>;
  readonly transit?: readonly Cidr[];
  readonly mapped?: MappedRanges;
}

const tunnel = ({
  name = "alpha",
  ranges = {},
  transit,
  mapped = "overlapping",
}: Shape): Tunnel => ({
  namespace: `shoot--${name}`,
  name,
  generation: 1,
  ranges: {
    nodes: ranges.nodes ?? list("10.250.0.0/20"),
    pods: ranges.pods ?? list("10.128.0.0/17"),
    services: ranges.services ?? list("172.28.0.0/22"),
  },
  endpoint: null,
  mode: "tun",
  transit: transit ?? list("198.18.0.0/23"),
  slots: 32,
  mtu: 1380,
  mapped,
  seedAddresses: [],
});

const plan = (shape: Shape, stored: readonly StoredMap[] = [], uid = `uid-${shape.name}`) =>
  planAddressMaps({ tunnel: tunnel(shape), uid, seed, stored });

const shown = (maps: readonly { real: Cidr; mapped: Cidr }[]): readonly string[] =>
  maps.map(({ real, mapped }) => `${real} ${mapped}`);

void t.test(
  "ranges that overlap the seed's get a map of the same size, the transit range with them",
  async (t) => {
    const { maps, problems, isChanged } = plan({});
    t.same(shown(maps), [
      "10.128.0.0/17 10.64.0.0/17",
      "10.250.0.0/20 10.64.128.0/20",
      "172.28.0.0/22 10.64.144.0/22",
      "198.18.0.0/23 10.64.148.0/23",
    ]);
    t.same(problems, []);
    t.equal(isChanged, true);
  },
);

void t.test("a shoot that overlaps nothing has none, unless its users want both", async (t) => {
  const ranges = {
    nodes: list("10.1.0.0/20"),
    pods: list("10.2.0.0/17"),
    services: list("10.3.0.0/22"),
  };
  t.match(plan({ ranges }), { maps: [], isChanged: false, problems: [] });
  t.equal(plan({ ranges, mapped: "all" }).maps.length, 4);
});

void t.test("what is stored stays, and planning again adds nothing", async (t) => {
  const first = plan({ name: "a" });
  const again = plan({ name: "a" }, first.entries);
  t.equal(again.isChanged, false);
  t.same(again.entries, first.entries);
  t.same(again.maps, first.maps);
});

void t.test("a range that grew keeps its old part and gets maps for the rest", async (t) => {
  const first = plan({ ranges: { nodes: list("10.250.0.0/21") } });
  const grown = plan({ ranges: { nodes: list("10.250.0.0/20") } }, first.entries);
  t.same(grown.entries.slice(0, first.entries.length), first.entries);
  t.same(shown(grown.entries.slice(first.entries.length)), ["10.250.8.0/21 10.64.144.0/21"]);
  const shrunk = plan({ ranges: { nodes: list("10.250.0.0/22") } }, grown.entries);
  t.same(shrunk.entries, grown.entries, "a range that shrank changes nothing");
});

void t.test("a range that another shoot has, too, gets another map", async (t) => {
  const a = plan({ name: "a" });
  const b = plan({ name: "b" }, a.entries);
  t.same(b.entries.slice(0, 4), a.entries);
  t.same(shown(b.maps).slice(0, 2), ["10.128.0.0/17 10.65.0.0/17", "10.250.0.0/20 10.64.160.0/20"]);
});

void t.test(
  "a Tunnel made anew under its name keeps the numbers; a release takes only its own UID's",
  async (t) => {
    const first = plan({ name: "a" }, [], "old");
    const next = plan({ name: "a" }, first.entries, "new");
    t.same(next.maps, first.maps);
    t.equal(next.isChanged, true, "the owner's UID is written");
    t.same(
      releaseAddressMaps(next.entries, "old"),
      next.entries,
      "one that comes late frees nothing",
    );
    t.same(releaseAddressMaps(next.entries, "new"), []);
    const other = plan({ name: "b" }, next.entries);
    t.equal(releaseAddressMaps(other.entries, "new").length, other.maps.length);
  },
);

void t.test(
  "without room the sentence names range, size, pool and seed; the others have their maps",
  async (t) => {
    const small = { ...seed, mapped: list("10.64.0.0/20") };
    const { maps, problems } = planAddressMaps({
      tunnel: tunnel({}),
      uid: "u",
      seed: small,
      stored: [],
    });
    t.same(problems, [
      "10.128.0.0/17 has no address map: no /17 is free in spec.mapped (10.64.0.0/20) of SeedNetwork eu-1; add a range that neither side uses",
      "172.28.0.0/22 has no address map: no /22 is free in spec.mapped (10.64.0.0/20) of SeedNetwork eu-1; add a range that neither side uses",
      "198.18.0.0/23 has no address map: no /23 is free in spec.mapped (10.64.0.0/20) of SeedNetwork eu-1; add a range that neither side uses",
    ]);
    t.same(shown(maps), ["10.250.0.0/20 10.64.0.0/20"]);
    const none = { ...seed, mapped: [] };
    t.match(
      planAddressMaps({ tunnel: tunnel({}), uid: "u", seed: none, stored: [] }).problems[0],
      /has no IPv4 range in spec\.mapped; add one/u,
    );
  },
);

void t.test("a map goes nowhere where its own tunnel or the seed is", async (t) => {
  const ranges = { nodes: list("10.250.0.0/20", "10.64.0.0/16"), services: list("10.3.0.0/22") };
  const first = plan({ ranges: { ...ranges, nodes: list("10.250.0.0/20") } });
  t.same(shown(first.maps)[1], "10.250.0.0/20 10.64.128.0/20");
  const fresh = plan({ ranges });
  t.same(shown(fresh.maps)[1], "10.250.0.0/20 10.65.128.0/20");
  const late = plan({ ranges }, first.entries);
  t.match(
    late.problems[0],
    /10\.64\.0\.0\/17 is not used: 10\.64\.0\.0\/16 of this Tunnel overlaps it/u,
  );
});

void t.test("a pool that shrank is told, and nothing is renumbered", async (t) => {
  const first = plan({});
  const shrunk = { ...seed, mapped: list("10.66.0.0/15") };
  const after = planAddressMaps({
    tunnel: tunnel({}),
    uid: "uid-undefined",
    seed: shrunk,
    stored: first.entries,
  });
  t.same(after.entries, first.entries);
  t.match(
    after.problems[0],
    /lies outside of spec\.mapped of SeedNetwork eu-1.*put that range back/u,
  );
});

/** Few tunnels, few blocks that touch each other: most samples collide somehow. */
const NAMES = ["a", "b", "c"];
const BLOCKS = list(
  "10.250.0.0/20",
  "10.250.0.0/21",
  "10.250.8.0/22",
  "10.128.0.0/17",
  "10.128.128.0/18",
  "172.28.0.0/22",
  "fd25::/64",
  "fd25:0:0:1::/64",
  "10.1.0.0/24",
);

const wish = fc.record({
  name: fc.constantFrom(...NAMES),
  mapped: fc.constantFrom<MappedRanges>("overlapping", "all"),
  blocks: fc.uniqueArray(fc.constantFrom(...BLOCKS), { maxLength: 6 }),
  transit: fc.constantFrom(list("198.18.0.0/23"), list("198.18.0.0/23", "fd18::/112")),
});

interface Wish {
  readonly name: string;
  readonly mapped: MappedRanges;
  readonly blocks: readonly Cidr[];
  readonly transit: readonly Cidr[];
}

const shapeOf = ({ blocks, ...rest }: Wish): Shape => ({
  ...rest,
  ranges: { nodes: blocks, pods: [], services: [] },
});

const hasTwoOwners = (entries: readonly StoredMap[]): boolean =>
  entries.some((a, at) =>
    entries
      .slice(0, at)
      .some(
        (b) =>
          overlaps(a.mapped, b.mapped) ||
          (a.tunnel.name === b.tunnel.name && overlaps(a.real, b.real)),
      ),
  );

const isSound = ({ real, mapped }: StoredMap): boolean =>
  sizeOf(real) === sizeOf(mapped) &&
  seed.mapped.some((outer) => containsCidr({ outer, inner: mapped }));

void t.test(
  "any wishes in any order: nothing stored moves, and nothing has two owners",
  async () => {
    fc.assert(
      fc.property(fc.array(wish, { maxLength: 12 }), (wishes) => {
        let stored: readonly StoredMap[] = [];
        for (const one of wishes) {
          const { entries } = plan(shapeOf(one), stored);
          const isKept = stored.every(
            (entry, at) => JSON.stringify(entry) === JSON.stringify(entries[at]),
          );
          if (!isKept || hasTwoOwners(entries) || !entries.every(isSound)) return false;
          if (plan(shapeOf(one), entries).isChanged) return false;
          stored = entries;
        }
        return true;
      }),
      { numRuns: 300 },
    );
  },
);

void t.test("the order in which a tunnel names its ranges means nothing", async () => {
  fc.assert(
    fc.property(fc.array(wish, { maxLength: 4 }), wish, fc.nat(5), (before, last, turn) => {
      const stored = before.reduce<readonly StoredMap[]>(
        (entries, one) => plan(shapeOf(one), entries).entries,
        [],
      );
      const turned = [...last.blocks.slice(turn), ...last.blocks.slice(0, turn)].toReversed();
      const a = plan(shapeOf(last), stored);
      const b = plan(shapeOf({ ...last, blocks: turned }), stored);
      return JSON.stringify([a.entries, a.maps]) === JSON.stringify([b.entries, b.maps]);
    }),
  );
});

void t.test("what is released can be given again, and only that", async () => {
  fc.assert(
    fc.property(
      fc.array(wish, { maxLength: 8 }),
      fc.constantFrom(...NAMES),
      wish,
      (wishes, gone, last) => {
        const stored = wishes.reduce<readonly StoredMap[]>(
          (entries, one) => plan(shapeOf(one), entries).entries,
          [],
        );
        const left = releaseAddressMaps(stored, `uid-${gone}`);
        const { entries } = plan(shapeOf(last), left);
        return (
          left.every(({ tunnel: owner }) => owner.name !== gone) &&
          !hasTwoOwners(entries) &&
          left.every((entry, at) => JSON.stringify(entry) === JSON.stringify(entries[at]))
        );
      },
    ),
  );
});
