/** Tests of the network's and the firewall's comparison with what is desired. */

import fc from "fast-check";
import t from "tap";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { parseIp, type IpAddress } from "#src/model/ip.ts";
import type {
  FirewallChain,
  FirewallTable,
  NetworkDesired,
  NetworkObserved,
  NetworkOperation,
  Route,
} from "#src/model/network.ts";
import { valueOf } from "#src/model/parsed.ts";
import { isSameFirewall } from "./firewall-equal.ts";
import { diffNetwork } from "./network-diff.ts";

const desired: NetworkDesired = {
  interface: "xylem0",
  mtu: 1380,
  addresses: [c("198.18.0.1/32")],
  routes: [{ destination: c("10.250.0.0/20"), source: ip("198.18.0.1") }],
  sysctls: { "net.ipv4.conf.xylem0.rp_filter": "2" },
};
const reached: NetworkObserved = {
  link: { mtu: 1380, isUp: true },
  addresses: desired.addresses,
  routes: desired.routes.map((route) => ({ ...route, interface: "xylem0" })),
  sysctls: desired.sysctls,
};

t.test("W57 nothing is done when everything is as desired", async (t) =>
  t.same(diffNetwork(desired, reached), []),
);

t.test("a fresh interface gets link, sysctls, addresses, routes, in this order", async (t) => {
  const fresh = { link: { mtu: 1500, isUp: false }, addresses: [], routes: [], sysctls: {} };
  t.same(
    diffNetwork(desired, fresh).map(({ kind }) => kind),
    ["set-link", "set-sysctl", "add-address", "add-route"],
  );
  t.same(diffNetwork(desired, { ...fresh, link: null })[0], {
    kind: "set-link",
    mtu: 1380,
    up: true,
  });
});

const drifts: { name: string; observed: Partial<NetworkObserved>; want: object[] }[] = [
  {
    name: "a link that is down",
    observed: { link: { mtu: 1380, isUp: false } },
    want: [{ kind: "set-link", mtu: 1380, up: true }],
  },
  {
    name: "another MTU",
    observed: { link: { mtu: 1400, isUp: true } },
    want: [{ kind: "set-link", mtu: 1380 }],
  },
  {
    name: "rp_filter set back",
    observed: { sysctls: { "net.ipv4.conf.xylem0.rp_filter": "1" } },
    want: [{ kind: "set-sysctl", value: "2" }],
  },
  {
    name: "a removed route",
    observed: { routes: [] },
    want: [{ kind: "add-route", route: desired.routes[0] }],
  },
  {
    name: "a route with another source",
    observed: { routes: [{ destination: c("10.250.0.0/20"), source: null, interface: "xylem0" }] },
    want: [
      { kind: "add-route" },
      { kind: "remove-route", route: { source: null, interface: "xylem0" } },
    ],
  },
  {
    name: "T43 a route that a former run left on another interface",
    observed: {
      routes: [
        ...reached.routes,
        { destination: c("10.9.0.0/16"), source: null, interface: "xylem9" },
      ],
    },
    want: [{ kind: "remove-route", route: { destination: "10.9.0.0/16", interface: "xylem9" } }],
  },
  {
    name: "an address that is not ours any more",
    observed: { addresses: [c("198.18.0.1/32"), c("198.18.0.7/32")] },
    want: [{ kind: "remove-address", address: "198.18.0.7/32" }],
  },
];

for (const { name, observed, want } of drifts) {
  t.test(`the fewest operations repair ${name}`, async (t) => {
    const got = diffNetwork(desired, { ...reached, ...observed });
    t.equal(got.length, want.length);
    t.match(got, want);
  });
}

t.test(
  "after its operations the network is as desired, and additions came before removals",
  async () => {
    fc.assert(
      fc.property(anyDesired(), anyObserved(), (want, found) => {
        const operations = diffNetwork(want, found);
        const after = operations.reduce(
          (state, operation) => run(want.interface, state, operation),
          found,
        );
        const kinds = operations.map(({ kind }) => kind.startsWith("remove"));
        return (
          diffNetwork(want, after).length === 0 &&
          kinds.toSorted((a, b) => Number(a) - Number(b)).every((kind, at) => kind === kinds[at])
        );
      }),
      { numRuns: 500 },
    );
  },
);

const filter: FirewallTable = {
  interface: "xylem0",
  chains: [
    {
      hook: "input",
      rules: [
        { kind: "accept-replies", from: "tunnel" },
        { kind: "drop-new", from: "tunnel" },
      ],
    },
    {
      hook: "forward",
      rules: [
        {
          kind: "only-destinations",
          from: "tunnel",
          destinations: [c("10.0.0.0/9"), c("10.128.0.0/9")],
        },
      ],
    },
    {
      hook: "postrouting",
      rules: [{ kind: "masquerade", from: "tunnel", sources: [c("198.18.0.0/23")] }],
    },
  ],
};

t.test("firewalls that mean the same are the same", async (t) => {
  const [input, , postrouting] = filter.chains;
  const merged: FirewallChain = {
    hook: "forward",
    rules: [{ kind: "only-destinations", from: "tunnel", destinations: [c("10.0.0.0/8")] }],
  };
  const chains = [postrouting, { hook: "output", rules: [] } as const, merged, input].filter(
    (chain) => chain !== undefined,
  );
  t.ok(isSameFirewall(filter, { interface: "xylem0", chains }));
});

const others: { name: string; chains: readonly FirewallChain[]; interface?: string }[] = [
  { name: "no chains", chains: [] },
  { name: "one chain less", chains: filter.chains.slice(1) },
  {
    name: "rules in another order",
    chains: filter.chains.map((chain) => ({ ...chain, rules: chain.rules.toReversed() })),
  },
  { name: "another interface", chains: filter.chains, interface: "xylem1" },
  {
    name: "another destination",
    chains: filter.chains.map((chain) =>
      chain.hook === "forward"
        ? {
            hook: "forward",
            rules: [{ kind: "only-destinations", from: "tunnel", destinations: [c("10.0.0.0/9")] }],
          }
        : chain,
    ),
  },
];

for (const { name, chains, interface: interfaceName = "xylem0" } of others) {
  t.test(`a firewall with ${name} is another one`, async (t) => {
    t.notOk(isSameFirewall(filter, { interface: interfaceName, chains }));
  });
}

function c(text: string): Cidr {
  return valueOf(parseCidr(text));
}

function ip(text: string): IpAddress {
  return valueOf(parseIp(text));
}

/** A kernel in which a route is replaced by one to the same destination, and a removal needs an exact match. */
function run(name: string, state: NetworkObserved, operation: NetworkOperation): NetworkObserved {
  switch (operation.kind) {
    case "set-link":
      return { ...state, link: { mtu: operation.mtu, isUp: operation.up } };
    case "set-sysctl":
      return { ...state, sysctls: { ...state.sysctls, [operation.name]: operation.value } };
    case "add-address":
      return { ...state, addresses: [...state.addresses, operation.address] };
    case "remove-address":
      return {
        ...state,
        addresses: state.addresses.filter((address) => address !== operation.address),
      };
    case "add-route": {
      const others = state.routes.filter(
        ({ destination, table }) =>
          destination !== operation.route.destination || table !== operation.route.table,
      );
      return { ...state, routes: [...others, { ...operation.route, interface: name }] };
    }
    case "add-rule":
      return { ...state, rules: [...(state.rules ?? []), operation.family] };
    case "remove-rule":
      return { ...state, rules: (state.rules ?? []).filter((one) => one !== operation.family) };
    case "remove-route":
      return {
        ...state,
        routes: state.routes.filter(
          (route) => JSON.stringify(sorted(route)) !== JSON.stringify(sorted(operation.route)),
        ),
      };
  }
}

function sorted(value: object): unknown {
  return Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
}

function anyRoute(): fc.Arbitrary<Route> {
  const destination = fc.constantFrom(c("10.0.0.0/8"), c("10.1.0.0/16"), c("fd00::/64"));
  const source = fc.constantFrom(null, ip("198.18.0.1"), ip("198.18.0.2"));
  return fc.oneof(
    fc.record({ destination, source }),
    fc.record({ destination, source, table: fc.constant("own" as const) }),
    fc.record({
      destination,
      source: fc.constant(null),
      table: fc.constant("own" as const),
      way: fc.constant("keep-out" as const),
    }),
  );
}

function anyRules() {
  return fc.uniqueArray(fc.constantFrom(4 as const, 6 as const));
}

function anyAddresses() {
  return fc.uniqueArray(fc.constantFrom(c("198.18.0.1/32"), c("198.18.0.2/32"), c("fd00::1/128")));
}

function anySysctls() {
  return fc.dictionary(fc.constantFrom("a", "b"), fc.constantFrom("0", "1"));
}

function anyDesired(): fc.Arbitrary<NetworkDesired> {
  return fc.record({
    interface: fc.constant("xylem0"),
    mtu: fc.constantFrom(1280, 1380),
    addresses: anyAddresses(),
    routes: fc.uniqueArray(anyRoute(), { selector: ({ destination }) => destination }),
    rules: anyRules(),
    sysctls: anySysctls(),
  });
}

function anyObserved(): fc.Arbitrary<NetworkObserved> {
  const route = fc.record({ route: anyRoute(), interface: fc.constantFrom("xylem0", "xylem9") });
  return fc.record({
    link: fc.option(fc.record({ mtu: fc.constantFrom(1280, 1380), isUp: fc.boolean() })),
    addresses: anyAddresses(),
    routes: fc
      .uniqueArray(route, {
        selector: (found) =>
          `${found.route.destination} ${found.route.table ?? "main"} ${found.interface}`,
      })
      .map((list) => list.map((found) => ({ ...found.route, interface: found.interface }))),
    rules: anyRules(),
    sysctls: anySysctls(),
  });
}
