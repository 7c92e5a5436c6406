/** Tests of reading Tunnels and TunnelGateways: defaults, every rule, hostile input. */

import fc from "fast-check";
import t from "tap";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { publicKeyFromBytes, type PublicKey } from "#src/model/key.ts";
import { valueOf, type Parsed } from "#src/model/parsed.ts";
import { parseTunnel } from "./tunnel-codec.ts";
import { parseTunnelGateways, tunnelGatewaysObject } from "./tunnel-gateways-codec.ts";

const c = (text: string): Cidr => valueOf(parseCidr(text));

const ranges = { nodes: ["10.250.0.0/20"], pods: ["10.222.0.0/17"], services: ["10.97.0.0/22"] };

t.test("a Tunnel with ranges alone gets all defaults", async (t) => {
  t.same(parseTunnel(tunnelObject({})), {
    ok: true,
    value: {
      namespace: "shoot--lab--alpha",
      name: "alpha",
      generation: 3,
      ranges: { nodes: ["10.250.0.0/20"], pods: ["10.222.0.0/17"], services: ["10.97.0.0/22"] },
      endpoint: null,
      mode: "tun",
      transit: ["198.18.0.0/23"],
      slots: 32,
      mtu: 1380,
      mapped: "overlapping",
      seedAddresses: [],
    },
  });
});

t.test("a Tunnel keeps what it says", async (t) => {
  const got = parseTunnel(
    tunnelObject({
      endpoint: { host: "2001:DB8::10", port: 4500 },
      mode: "tun",
      transit: ["198.19.0.0/28", "fd00:5::/124"],
      slots: 15,
      mtu: 1280,
    }),
  );
  t.match(got, {
    ok: true,
    value: { slots: 15, mtu: 1280, transit: ["198.19.0.0/28", "fd00:5::/124"] },
  });
  if (got.ok) t.same(got.value.endpoint, { address: "2001:db8::10", port: 4500 });
});

t.test("an endpoint without a port has the standard one", async (t) => {
  const got = parseTunnel(tunnelObject({ endpoint: { host: "192.0.2.10" } }));
  t.match(got, { ok: true, value: { endpoint: { port: 51820 } } });
});

const refused: { title: string; spec: object; want: RegExp; suggestion?: string }[] = [
  {
    title: "no ranges",
    spec: { ranges: undefined },
    want: /spec\.ranges must be an object, found missing/,
  },
  {
    title: "an empty list of ranges",
    spec: { ranges: { ...ranges, pods: [] } },
    want: /spec\.ranges\.pods is empty/,
  },
  {
    title: "a missing list of ranges",
    spec: { ranges: { ...ranges, services: null } },
    want: /spec\.ranges\.services is empty/,
  },
  {
    title: "A27 host bits in a range",
    spec: { ranges: { ...ranges, pods: ["10.222.0.5/17"] } },
    want: /^Tunnel shoot--lab--alpha\/alpha: spec\.ranges\.pods\[0\]: "10\.222\.0\.5\/17" is not a canonical CIDR: .*; write "10\.222\.0\.0\/17"$/,
    suggestion: "10.222.0.0/17",
  },
  {
    title: "ranges of two kinds that overlap",
    spec: { ranges: { ...ranges, services: ["10.250.4.0/24"] } },
    want: /spec\.ranges\.services\[0\] 10\.250\.4\.0\/24 overlaps spec\.ranges\.nodes\[0\] 10\.250\.0\.0\/20/,
  },
  {
    title: "the same range twice in one list",
    spec: { ranges: { ...ranges, nodes: ["10.1.0.0/16", "10.1.0.0/16"] } },
    want: /nodes\[1\] 10\.1\.0\.0\/16 overlaps spec\.ranges\.nodes\[0\]/,
  },
  {
    title: "IPv6 ranges that overlap",
    spec: { ranges: { nodes: ["fd00::/48"], pods: ["fd00::/64"], services: ["fd01::/112"] } },
    want: /pods\[0\] fd00::\/64 overlaps/,
  },
  {
    title: "too many ranges",
    spec: { ranges: { ...ranges, pods: Array(33).fill("10.0.0.0/8") } },
    want: /has 33 items: at most 32/,
  },
  ...reservedRows(),
  {
    title: "W58 the default transit range inside a shoot range",
    spec: { ranges: { ...ranges, pods: ["198.18.0.0/15"] } },
    want: /spec\.transit \(the default\) 198\.18\.0\.0\/23 overlaps spec\.ranges\.pods\[0\] 198\.18\.0\.0\/15: set spec\.transit to a range/,
  },
  {
    title: "W58 a transit range inside a shoot's 100.64.0.0/10",
    spec: { ranges: { ...ranges, pods: ["100.64.0.0/10"] }, transit: ["100.127.0.0/24"] },
    want: /spec\.transit\[0\] 100\.127\.0\.0\/24 overlaps/,
  },
  {
    title: "W58 a transit range inside a shoot's 10.0.0.0/8",
    spec: {
      ranges: { nodes: ["10.0.0.0/8"], pods: ["172.16.0.0/12"], services: ["192.168.0.0/16"] },
      transit: ["10.9.9.0/24"],
    },
    want: /spec\.transit\[0\] 10\.9\.9\.0\/24 overlaps spec\.ranges\.nodes\[0\] 10\.0\.0\.0\/8/,
  },
  {
    title: "W58 a link-local transit range",
    spec: { transit: ["169.254.8.0/24"] },
    want: /169\.254\.0\.0\/16, which is reserved \(link-local\)/,
  },
  {
    title: "an empty list of transit ranges",
    spec: { transit: [] },
    want: /spec\.transit is empty/,
  },
  {
    title: "two transit ranges of one family",
    spec: { transit: ["198.18.0.0/24", "198.19.0.0/24"] },
    want: /more than one IPv4 range/,
  },
  {
    title: "three transit ranges",
    spec: { transit: ["198.18.0.0/24", "fd00::/64", "fd01::/64"] },
    want: /at most 2/,
  },
  {
    title: "a transit range with too few addresses",
    spec: { transit: ["198.18.0.0/27"] },
    want: /198\.18\.0\.0\/27 has 32 addresses, but 32 slots need 33/,
  },
  {
    title: "no slots",
    spec: { slots: 0 },
    want: /spec\.slots: must be a whole number from 1 to 256, found 0/,
  },
  { title: "too many slots", spec: { slots: 257 }, want: /spec\.slots/ },
  { title: "half a slot", spec: { slots: 1.5 }, want: /spec\.slots/ },
  { title: "slots as text", spec: { slots: "32" }, want: /found "32"/ },
  {
    title: "an MTU below IPv6's",
    spec: { mtu: 1279 },
    want: /spec\.mtu: must be a whole number from 1280 to 9000/,
  },
  { title: "an MTU above 9000", spec: { mtu: 9001 }, want: /spec\.mtu/ },
  {
    title: "another mode",
    spec: { mode: "proxy" },
    want: /spec\.mode: must be "tun", found "proxy"/,
  },
  {
    title: "an endpoint that is a name",
    spec: { endpoint: { host: "lb.example.com" } },
    want: /spec\.endpoint\.host: .*leave endpoint out/,
  },
  {
    title: "port 0",
    spec: { endpoint: { host: "192.0.2.1", port: 0 } },
    want: /spec\.endpoint\.port: a port is/,
  },
  { title: "a spec that is a list", spec: [], want: /spec must be an object, found a list/ },
];

for (const { title, spec, want, suggestion } of refused) {
  t.test(`a Tunnel is refused for ${title}`, async (t) => {
    const got = parseTunnel(tunnelObject(spec));
    t.equal(got.ok, false);
    if (got.ok) return;
    t.match(got.problem, want);
    t.equal(got.suggestion, suggestion);
  });
}

t.test(
  "W58 a shoot on 242.0.0.0/8 or 10.0.0.0/8 is carried with the default transit range",
  async (t) => {
    const onClassE = { nodes: ["242.0.0.0/8"], pods: ["10.0.0.0/8"], services: ["100.64.0.0/10"] };
    t.ok(parseTunnel(tunnelObject({ ranges: onClassE })).ok);
  },
);

t.test(
  "TunnelGateways says what the Tunnel says, with an address per slot and family",
  async (t) => {
    const tunnel = valueOf(
      parseTunnel(tunnelObject({ slots: 2, transit: ["198.19.4.0/29", "fd00:5::/120"] })),
    );
    const maps = [{ real: c("10.250.0.0/20"), mapped: c("10.64.0.0/20") }];
    const object = tunnelGatewaysObject({ tunnel, keys: [key(1), key(2)], maps });
    const got = valueOf(parseTunnelGateways(JSON.parse(JSON.stringify(object))));
    t.same(got, {
      slots: [
        { slot: 0, publicKey: key(1), addresses: ["198.19.4.1", "fd00:5::1"] },
        { slot: 1, publicKey: key(2), addresses: ["198.19.4.2", "fd00:5::2"] },
      ],
      transit: tunnel.transit,
      ranges: tunnel.ranges,
      mtu: 1380,
      maps,
    });
  },
);

const gatewayRows: { title: string; spec: object; want: RegExp }[] = [
  { title: "no slots", spec: { slots: [] }, want: /spec\.slots is empty/ },
  {
    title: "one slot twice",
    spec: { slots: [slot(0, 1, "198.18.0.1"), slot(0, 2, "198.18.0.2")] },
    want: /slot 0 twice/,
  },
  {
    title: "one key twice",
    spec: { slots: [slot(0, 1, "198.18.0.1"), slot(1, 1, "198.18.0.2")] },
    want: /public key .* twice/,
  },
  {
    title: "a duplicate transit address",
    spec: { slots: [slot(0, 1, "198.18.0.1"), slot(1, 2, "198.18.0.1")] },
    want: /transit address 198\.18\.0\.1 twice/,
  },
  {
    title: "an address outside of the transit ranges",
    spec: { slots: [slot(0, 1, "10.0.0.1")] },
    want: /slots\[0\]\.addresses\[0\] 10\.0\.0\.1 is outside/,
  },
  {
    title: "a slot without addresses",
    spec: { slots: [{ ...slot(0, 1, "198.18.0.1"), addresses: [] }] },
    want: /addresses is empty/,
  },
  {
    title: "a broken key",
    spec: { slots: [{ ...slot(0, 1, "198.18.0.1"), publicKey: "abc" }] },
    want: /slots\[0\]\.publicKey/,
  },
  { title: "no transit ranges", spec: { transit: [] }, want: /spec\.transit is empty/ },
  {
    title: "a map of two sizes",
    spec: { maps: [{ real: "10.250.0.0/20", mapped: "10.64.0.0/21" }] },
    want: /spec\.maps\[0\] maps 10\.250\.0\.0\/20 to 10\.64\.0\.0\/21: both must be of one family/,
  },
  {
    title: "a map with host bits",
    spec: { maps: [{ real: "10.250.0.1/20", mapped: "10.64.0.0/20" }] },
    want: /spec\.maps\[0\]\.real.*write "10\.250\.0\.0\/20"/,
  },
  { title: "no MTU", spec: { mtu: undefined }, want: /spec\.mtu/ },
];

for (const { title, spec, want } of gatewayRows) {
  t.test(`TunnelGateways is refused for ${title}`, async (t) => {
    const good = {
      slots: [slot(0, 1, "198.18.0.1")],
      transit: ["198.18.0.0/23"],
      ranges,
      mtu: 1380,
    };
    const metadata = { namespace: "kube-system", name: "xylem" };
    t.ok(parseTunnelGateways({ metadata, spec: good }).ok);
    refuses(t, parseTunnelGateways({ metadata, spec: { ...good, ...spec } }), want);
  });
}

t.test(
  "S2 hostile Tunnels and TunnelGateways never throw, and are named only by valid names",
  async (t) => {
    fc.assert(
      fc.property(fc.oneof(fc.anything(), hostileObject()), (object) => {
        for (const got of [parseTunnel(object), parseTunnelGateways(object)]) {
          if (got.ok || got.problem.length > 1500 || !/^[\x20-\x7e]*$/.test(got.problem))
            return false;
        }
        return true;
      }),
      { numRuns: 1000 },
    );
    const evil = parseTunnel({
      metadata: { name: "\u001b[31mevil", namespace: "x".repeat(5000) },
      spec: 1,
    });
    if (!evil.ok) t.match(evil.problem, /^Tunnel without a valid name: /);
  },
);

t.test("S2 inherited fields and getters are not read", async (t) => {
  const spec = Object.create({ ranges, slots: 4 });
  t.notOk(parseTunnel({ metadata: { name: "a", namespace: "b" }, spec }).ok);
  const trap = Object.defineProperty({}, "spec", {
    get: () => {
      throw new Error("sprung");
    },
    enumerable: true,
  });
  t.notOk(parseTunnel(trap).ok);
});

function tunnelObject(spec: object): unknown {
  return {
    metadata: { namespace: "shoot--lab--alpha", name: "alpha", generation: 3 },
    spec: Array.isArray(spec) ? spec : { ranges, ...spec },
  };
}

/** Every reserved range, as a part of it and around it. */
function reservedRows(): { title: string; spec: object; want: RegExp }[] {
  const blocks = [
    "0.0.0.0/0",
    "0.0.0.0/8",
    "127.0.0.0/16",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "239.1.0.0/16",
    "255.255.255.0/24",
    "::/0",
    "::1/128",
    "fe80::/64",
    "ff02::/16",
    "::/64",
  ];
  return blocks.map((block) => ({
    title: `W58 the reserved ${block}`,
    spec: { ranges: { ...ranges, pods: [block] } },
    want: /overlaps .*, which is reserved \(/,
  }));
}

function refuses(
  t: { equal: (a: unknown, b: unknown) => void; match: (a: string, b: RegExp) => void },
  got: Parsed<unknown>,
  want: RegExp,
): void {
  t.equal(got.ok, false);
  if (!got.ok) t.match(got.problem, want);
}

function key(seed: number): PublicKey {
  return valueOf(publicKeyFromBytes(new Uint8Array(32).fill(seed)));
}

function slot(number: number, seed: number, address: string): object {
  return { slot: number, publicKey: key(seed), addresses: [address] };
}

function hostileObject(): fc.Arbitrary<unknown> {
  const anyRanges = fc.record({
    nodes: fc.anything(),
    pods: fc.anything(),
    services: fc.anything(),
  });
  return fc.record({
    metadata: fc.record({ name: fc.anything(), namespace: fc.string({ unit: "binary" }) }),
    spec: fc.record({
      ranges: fc.oneof(anyRanges, fc.anything()),
      transit: fc.anything(),
      slots: fc.anything(),
      mtu: fc.anything(),
    }),
  });
}
