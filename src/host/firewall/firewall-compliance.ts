/** What every Firewall must do; run against the fake and against nft. */

import type { Test } from "tap";
import { renderNft } from "#src/codec/nft.ts";
import type { AddressMap } from "#src/model/address-map.ts";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import type { FirewallTable } from "#src/model/network.ts";
import type { Firewall } from "#src/ports/firewall.ts";

/** A machine with an empty ruleset. */
export interface FirewallBench {
  readonly firewall: Firewall;
  /** Somebody else deletes all rules of our table, and leaves its chains. */
  flush(): Promise<void>;
  /** Somebody else deletes every table of the machine. */
  flushRuleset(): Promise<void>;
  /** Somebody else adds a rule to our chain `input`. */
  addForeignRule(): Promise<void>;
}

/** What a gateway has. */
export const gatewayTable: FirewallTable = {
  interface: "xylem0",
  chains: [
    {
      hook: "input",
      rules: [
        { kind: "accept-replies", from: "tunnel" },
        { kind: "drop-new", from: "tunnel" },
      ],
    },
    { hook: "forward", rules: [{ kind: "drop-new", from: "tunnel" }] },
  ],
};

/** What an agent has, of both families. */
export const agentTable: FirewallTable = {
  interface: "xylem0",
  chains: [
    {
      hook: "forward",
      rules: [
        {
          kind: "only-destinations",
          from: "tunnel",
          destinations: cidrs("10.222.0.0/17", "10.97.0.0/22", "fd00:222::/32"),
        },
        { kind: "drop-new-into", to: "tunnel" },
      ],
    },
    { hook: "output", rules: [{ kind: "drop-new-into", to: "tunnel" }] },
    {
      hook: "postrouting",
      rules: [
        { kind: "masquerade", from: "tunnel", sources: cidrs("198.18.0.0/23", "fd00:18::/64") },
      ],
    },
  ],
};

/** What an agent has that is dialed at mapped addresses. */
export const mappedAgentTable: FirewallTable = {
  interface: "xylem0",
  chains: [
    {
      hook: "arrival",
      rules: [
        { kind: "map-destination", from: "tunnel", ...map("10.222.5.0/24", "10.64.5.0/24") },
        { kind: "map-destination", from: "tunnel", ...map("fd00:222:5::/48", "fd99:5::/48") },
      ],
    },
    ...agentTable.chains.filter(({ hook }) => hook !== "postrouting"),
    {
      hook: "postrouting",
      rules: [
        {
          kind: "masquerade",
          from: "tunnel",
          sources: cidrs("198.18.0.0/23", "fd00:18::/64", "10.65.0.0/24", "fd98::/64"),
        },
      ],
    },
    {
      hook: "departure",
      rules: [
        {
          kind: "map-source",
          to: "tunnel",
          destinations: cidrs("10.65.0.0/24"),
          ...map("10.222.5.0/24", "10.64.5.0/24"),
        },
        {
          kind: "map-source",
          to: "tunnel",
          destinations: cidrs("fd98::/64"),
          ...map("fd00:222:5::/48", "fd99:5::/48"),
        },
      ],
    },
  ],
};

/** What a gateway has whose shoot overlaps its seed. */
export const apartGatewayTable: FirewallTable = {
  interface: "xylem0",
  chains: [
    ...gatewayTable.chains,
    { hook: "answer", rules: [{ kind: "mark-answers", to: "tunnel" }] },
  ],
};

/** Adds the suite to `t`; `makeBench` gives an empty machine each time. */
export function firewallCompliance(t: Test, makeBench: () => Promise<FirewallBench>): void {
  const test = (name: string, body: (t: Test, bench: FirewallBench) => Promise<void>): void => {
    void t.test(name, async (t) => {
      const bench = await makeBench();
      t.teardown(() => bench.firewall.remove());
      await body(t, bench);
    });
  };

  test("an absent table is observed as null, and its removal is success", async (t, {
    firewall,
  }) => {
    t.equal(await firewall.observe(), null);
    await firewall.remove();
    t.equal(await firewall.observe(), null);
  });

  for (const { name, table } of tables()) {
    test(`a table comes back as it was written: ${name}`, async (t, { firewall }) => {
      await firewall.replace(table);
      await firewall.replace(table);
      const observed = await firewall.observe();
      t.equal(observed?.foreignRules, 0);
      t.equal(rendered(observed?.table, table), renderNft(table));
      await firewall.remove();
      t.equal(await firewall.observe(), null);
    });
  }

  test("replace leaves nothing of the table before", async (t, { firewall }) => {
    await firewall.replace(agentTable);
    await firewall.replace(gatewayTable);
    const observed = await firewall.observe();
    t.equal(rendered(observed?.table, gatewayTable), renderNft(gatewayTable));
  });

  test("whoever looks again need not read what nobody has changed", async (t, {
    firewall,
    ...hands
  }) => {
    t.equal(await firewall.hasChanged(), true, "never read");
    await firewall.replace(gatewayTable);
    t.equal(await firewall.hasChanged(), true, "written, but not read since");
    await firewall.observe();
    t.equal(await firewall.hasChanged(), false);
    t.equal(await firewall.hasChanged(), false, "asking changes nothing");
    for (const touch of ["addForeignRule", "flush", "flushRuleset"] as const) {
      await hands[touch]();
      t.equal(await firewall.hasChanged(), true, "whatever somebody else did");
      await firewall.observe();
      t.equal(await firewall.hasChanged(), false, "an absent table is a reading too");
      await firewall.replace(gatewayTable);
      await firewall.observe();
    }
    await firewall.remove();
    t.equal(await firewall.hasChanged(), true);
  });

  test("drift is seen: rules flushed by somebody else", async (t, bench) => {
    const { firewall } = bench;
    await firewall.replace(gatewayTable);
    await bench.flush();
    const observed = await firewall.observe();
    t.strictSame(
      observed?.table.chains.flatMap((chain) => chain.rules),
      [],
    );
  });

  test("drift is seen: the whole ruleset flushed", async (t, bench) => {
    const { firewall } = bench;
    await firewall.replace(gatewayTable);
    await bench.flushRuleset();
    t.equal(await firewall.observe(), null);
  });

  test("drift is seen: a rule of somebody else in our table, until it is replaced", async (t, bench) => {
    await bench.firewall.replace(gatewayTable);
    await bench.addForeignRule();
    t.equal((await bench.firewall.observe())?.foreignRules, 1);
    await bench.firewall.replace(gatewayTable);
    t.equal((await bench.firewall.observe())?.foreignRules, 0);
  });
}

function tables(): readonly { name: string; table: FirewallTable }[] {
  const masquerade = (...sources: string[]): FirewallTable => ({
    interface: "xylem0",
    chains: [
      {
        hook: "postrouting",
        rules: [{ kind: "masquerade", from: "tunnel", sources: cidrs(...sources) }],
      },
    ],
  });
  const only = (...destinations: string[]): FirewallTable => ({
    interface: "x-1.2_y",
    chains: [
      {
        hook: "forward",
        rules: [
          { kind: "only-destinations", from: "tunnel", destinations: cidrs(...destinations) },
        ],
      },
    ],
  });
  return [
    { name: "a gateway's", table: gatewayTable },
    { name: "an agent's", table: agentTable },
    { name: "an agent's with maps", table: mappedAgentTable },
    { name: "a gateway's whose shoot overlaps its seed", table: apartGatewayTable },
    { name: "maps of single addresses and odd lengths", table: oddMaps() },
    { name: "one IPv4 source", table: masquerade("198.18.0.0/23") },
    { name: "one IPv6 host", table: masquerade("fd00:18::7/128") },
    {
      name: "neighbours that nft merges",
      table: masquerade("10.0.0.0/25", "10.0.0.128/25", "10.0.1.0/24", "10.0.2.0/24"),
    },
    { name: "prefixes inside others", table: masquerade("10.0.0.0/8", "10.96.0.0/16") },
    {
      name: "a neighbour run that is no block",
      table: only("10.0.1.0/24", "10.0.2.0/23", "10.0.4.7/32", "fd00:1::/48", "fd00:2::/47"),
    },
    { name: "nowhere at all", table: only() },
    { name: "IPv6 only", table: only("fd00:222::/48") },
    { name: "half of all addresses", table: only("0.0.0.0/1", "8000::/1") },
  ];
}

function oddMaps(): FirewallTable {
  const pairs = [
    ["10.1.2.3/32", "10.64.0.9/32"],
    ["10.1.2.8/29", "10.64.0.16/29"],
    ["11.0.0.0/8", "12.0.0.0/8"],
    ["128.0.0.0/1", "0.0.0.0/1"],
    ["fd00::7/128", "fd99::9/128"],
    ["fd00:1::/33", "fd99:1::/33"],
    ["::800:0/101", "::1000:0/101"],
  ] as const;
  const destinations = cidrs("198.18.0.0/24", "198.18.2.0/24", "fd98::/64");
  return {
    interface: "xylem0",
    chains: [
      {
        hook: "arrival",
        rules: pairs.map((pair) => ({
          kind: "map-destination",
          from: "tunnel",
          ...map(pair[0], pair[1]),
        })),
      },
      {
        hook: "departure",
        rules: pairs.map((pair) => ({
          kind: "map-source",
          to: "tunnel",
          destinations,
          ...map(pair[0], pair[1]),
        })),
      },
    ],
  };
}

function map(real: string, mapped: string): AddressMap {
  const [from, to] = cidrs(real, mapped);
  if (from === undefined || to === undefined) throw new TypeError("two blocks are wanted");
  return { real: from, mapped: to };
}

/** An empty chain has no rule that could name the interface. */
const rendered = (table: FirewallTable | undefined, written: FirewallTable): string =>
  table === undefined
    ? "no table"
    : renderNft({ ...table, interface: table.interface || written.interface });

function cidrs(...texts: string[]): readonly Cidr[] {
  return texts.map((text) => {
    const read = parseCidr(text);
    if (!read.ok) throw new TypeError(read.problem);
    return read.value;
  });
}
