/** Tests of the nft codec: golden text, what nft printed, and listings that nobody should trust. */

import fc from "fast-check";
import t from "tap";
import { bigintToIp } from "#src/model/ip.ts";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import type { FirewallChain, FirewallTable } from "#src/model/network.ts";
import { parseNft } from "./nft-reader.ts";
import { renderNft, renderNftRemoval } from "./nft.ts";

void t.test("a table is one transaction that replaces whatever was there", (t) => {
  const table: FirewallTable = {
    interface: "xylem0",
    chains: [
      {
        hook: "postrouting",
        rules: [
          {
            kind: "masquerade",
            from: "tunnel",
            sources: cidrs("fd00:18::/64", "198.18.1.0/24", "198.18.0.0/24"),
          },
        ],
      },
    ],
  };
  t.equal(
    renderNft(table),
    [
      "add table inet xylem",
      "delete table inet xylem",
      "table inet xylem {",
      "\tchain postrouting {",
      "\t\ttype nat hook postrouting priority srcnat; policy accept;",
      '\t\tiifname "xylem0" oifname != "xylem0" ip saddr { 198.18.0.0/23 } counter masquerade comment "masquerade"',
      '\t\tiifname "xylem0" oifname != "xylem0" ip6 saddr { fd00:18::/64 } counter masquerade comment "masquerade"',
      "\t}",
      "}",
      "",
    ].join("\n"),
  );
  t.end();
});

void t.test("maps are rewritten before conntrack and after NAT, answers are marked", (t) => {
  const [real, mapped, host, image, towards] = cidrs(
    "10.250.0.0/20",
    "10.64.0.0/20",
    "fd25::7/128",
    "fd99::9/128",
    "10.65.0.0/23",
  );
  if (!real || !mapped || !host || !image || !towards) return fail();
  const text = renderNft({
    interface: "xylem0",
    chains: [
      {
        hook: "arrival",
        rules: [
          { kind: "map-destination", from: "tunnel", real, mapped },
          { kind: "map-destination", from: "tunnel", real: host, mapped: image },
        ],
      },
      {
        hook: "departure",
        rules: [{ kind: "map-source", to: "tunnel", real, mapped, destinations: [towards] }],
      },
      { hook: "answer", rules: [{ kind: "mark-answers", to: "tunnel" }] },
    ],
  });
  t.equal(
    text.split("\n").slice(3, -2).join("\n"),
    [
      "\tchain arrival {",
      "\t\ttype filter hook prerouting priority raw; policy accept;",
      '\t\tiifname "xylem0" ip daddr 10.64.0.0/20 counter ip daddr set ip daddr & 0.0.15.255 | 10.250.0.0 comment "map-destination"',
      '\t\tiifname "xylem0" ip6 daddr fd99::9/128 counter ip6 daddr set fd25::7 comment "map-destination"',
      "\t}",
      "\tchain departure {",
      "\t\ttype filter hook postrouting priority 300; policy accept;",
      '\t\toifname "xylem0" ip daddr { 10.65.0.0/23 } ip saddr 10.250.0.0/20 counter ip saddr set ip saddr & 0.0.15.255 | 10.64.0.0 comment "map-source"',
      "\t}",
      "\tchain answer {",
      "\t\ttype route hook output priority mangle; policy accept;",
      '\t\toifname "xylem0" ct direction reply counter meta mark set 158 comment "mark-answers"',
      "\t}",
    ].join("\n"),
  );
  t.end();
});

void t.test("every rule has a counter and names our interface", (t) => {
  fc.assert(
    fc.property(table(), (anyTable) => {
      const rules = renderNft(anyTable)
        .split("\n")
        .filter((line) => line.includes("comment"));
      return rules.every(
        (line) => line.includes(" counter ") && line.includes(`"${anyTable.interface}"`),
      );
    }),
  );
  t.end();
});

void t.test("the removal works whether or not the table is there", (t) => {
  t.equal(renderNftRemoval(), "add table inet xylem\ndelete table inet xylem\n");
  t.end();
});

void t.test("an interface name that could end the quotes is refused", (t) => {
  for (const name of ["", 'x" accept', "a b", "x{", "sixteen-bytes-xx"]) {
    t.throws(() => renderNft({ interface: name, chains: [] }), RangeError, name);
  }
  t.end();
});

void t.test("the text does not depend on the order or the cut of addresses", (t) => {
  const a = masquerade("10.0.0.0/25", "10.0.0.128/25", "10.1.0.0/16");
  const b = masquerade("10.1.0.0/16", "10.0.0.0/24", "10.0.0.7/32");
  t.equal(renderNft(a), renderNft(b));
  t.end();
});

void t.test("what nft 1.0.6 printed is read back, ranges and single prefixes included", (t) => {
  const listing = listingOf([
    rule("forward", [
      iif("xylem0"),
      match("!=", payload("ip", "daddr"), {
        set: [
          { range: ["10.0.0.0", "10.0.2.255"] },
          "10.9.9.9",
          { prefix: { addr: "10.96.0.0", len: 16 } },
        ],
      }),
      counter(7),
      { drop: null },
    ]),
    rule("forward", [
      iif("xylem0"),
      match("==", { meta: { key: "nfproto" } }, "ipv6"),
      counter(2),
      { drop: null },
    ]),
    rule("forward", [
      match("==", { meta: { key: "oifname" } }, "xylem0"),
      match("in", { ct: { key: "state" } }, ["invalid", "new", "untracked"]),
      counter(1),
      { drop: null },
    ]),
  ]);
  t.strictSame(parseNft(listing), {
    table: {
      interface: "xylem0",
      chains: [
        {
          hook: "forward",
          rules: [
            {
              kind: "only-destinations",
              from: "tunnel",
              destinations: ["10.0.0.0/23", "10.0.2.0/24", "10.9.9.9/32", "10.96.0.0/16"],
            },
            { kind: "drop-new-into", to: "tunnel" },
          ],
        },
      ],
    },
    foreignRules: 0,
    counters: { "only-destinations": 9, "drop-new-into": 1 },
  });
  t.end();
});

void t.test("IPv6 as inet_ntop spells it, with a dotted tail, is read", (t) => {
  const expressions = [
    iif("xylem0"),
    match("!=", { meta: { key: "oifname" } }, "xylem0"),
    match("==", payload("ip6", "saddr"), {
      set: [
        { prefix: { addr: "::8.0.0.0", len: 101 } },
        "::1.2.3.4",
        { range: ["::9.0.0.0", "::9.0.0.1"] },
      ],
    }),
    counter(0),
    { masquerade: null },
  ];
  const sources = ["::102:304/128", "::800:0/101"];
  t.match(parseNft(listingOf([rule("forward", expressions)])), {
    foreignRules: 0,
    table: { chains: [{ rules: [{ kind: "masquerade", sources }] }] },
  });
  t.end();
});

const replies = match("in", { ct: { key: "state" } }, ["established", "related"]);
for (const { name, expressions } of [
  { name: "no counter", expressions: [iif("xylem0"), replies, { accept: null }] },
  { name: "another verdict", expressions: [iif("xylem0"), replies, counter(0), { drop: null }] },
  { name: "no verdict", expressions: [iif("xylem0"), replies, counter(0)] },
  {
    name: "something after the verdict",
    expressions: [iif("xylem0"), replies, counter(0), { accept: null }, counter(0)],
  },
  {
    name: "one more test",
    expressions: [iif("xylem0"), iif("xylem0"), replies, counter(0), { accept: null }],
  },
  {
    name: "a state more",
    expressions: [
      iif("xylem0"),
      match("in", { ct: { key: "state" } }, ["established", "new", "related"]),
      counter(0),
      { accept: null },
    ],
  },
  { name: "no interface", expressions: [replies, counter(0), { accept: null }] },
  {
    name: "a jump",
    expressions: [iif("xylem0"), replies, counter(0), { jump: { target: "theirs" } }],
  },
  {
    name: "a limit",
    expressions: [iif("xylem0"), replies, { limit: { rate: 1 } }, counter(0), { accept: null }],
  },
  {
    name: "a rewriting that keeps other bits",
    expressions: [
      iif("xylem0"),
      match("==", payload("ip", "daddr"), { prefix: { addr: "10.64.0.0", len: 20 } }),
      counter(0),
      {
        mangle: {
          key: payload("ip", "daddr"),
          value: { "|": [{ "&": [payload("ip", "daddr"), "0.0.31.255"] }, "10.250.0.0"] },
        },
      },
    ],
  },
  {
    name: "a rewriting of the other address",
    expressions: [
      iif("xylem0"),
      match("==", payload("ip", "daddr"), "10.64.0.1"),
      counter(0),
      { mangle: { key: payload("ip", "saddr"), value: "10.250.0.1" } },
    ],
  },
  {
    name: "another mark",
    expressions: [
      match("==", { meta: { key: "oifname" } }, "xylem0"),
      match("==", { ct: { key: "direction" } }, "reply"),
      counter(0),
      { mangle: { key: { meta: { key: "mark" } }, value: 7 } },
    ],
  },
  {
    name: "one family of only-destinations alone",
    expressions: [
      iif("xylem0"),
      match("==", { meta: { key: "nfproto" } }, "ipv6"),
      counter(0),
      { drop: null },
    ],
  },
]) {
  void t.test(`a rule that we never write is foreign: ${name}`, (t) => {
    const listing = listingOf([rule("forward", expressions)]);
    t.match(parseNft(listing), {
      foreignRules: 1,
      table: { chains: [{ hook: "forward", rules: [] }] },
    });
    t.end();
  });
}

void t.test("a rule of another interface in our table is foreign", (t) => {
  const rules = ["xylem0", "eth0"].map((name) =>
    rule("forward", [iif(name), replies, counter(0), { accept: null }]),
  );
  t.match(parseNft(listingOf(rules)), { foreignRules: 1, table: { interface: "xylem0" } });
  t.end();
});

void t.test("a listing without our table is null", (t) => {
  for (const listing of [
    null,
    7,
    [],
    {},
    { nftables: null },
    { nftables: [{ table: { family: "ip", name: "xylem" } }] },
  ]) {
    t.equal(parseNft(listing), null);
  }
  t.end();
});

void t.test("no listing, however broken, throws", (t) => {
  const broken = fc.jsonValue({ maxDepth: 6 });
  fc.assert(
    fc.property(fc.array(broken), broken, (items, expressions) => {
      parseNft({
        nftables: [...ours(), ...items, { rule: { chain: "forward", expr: expressions } }],
      });
      parseNft(listingOf([rule("forward", items)]));
      parseNft(items);
    }),
  );
  t.end();
});

function masquerade(...sources: string[]): FirewallTable {
  const rules = [{ kind: "masquerade", from: "tunnel", sources: cidrs(...sources) }] as const;
  return { interface: "xylem0", chains: [{ hook: "postrouting", rules }] };
}

function ours(): readonly object[] {
  return [
    { metainfo: { json_schema_version: 1 } },
    { table: { family: "inet", name: "xylem", handle: 1 } },
    { chain: { name: "forward", type: "filter", hook: "forward", prio: 0, policy: "accept" } },
  ];
}

function listingOf(rules: readonly object[]): object {
  return { nftables: [...ours(), ...rules] };
}

function rule(chain: string, expr: readonly unknown[]): object {
  return { rule: { family: "inet", table: "xylem", chain, handle: 9, expr } };
}

function match(op: string, left: object, right: unknown): object {
  return { match: { op, left, right } };
}

function iif(name: string): object {
  return match("==", { meta: { key: "iifname" } }, name);
}

function payload(protocol: string, field: string): object {
  return { payload: { protocol, field } };
}

function counter(packets: number): object {
  return { counter: { packets, bytes: 0 } };
}

function table(): fc.Arbitrary<FirewallTable> {
  const rules = fc.oneof(
    fc.constant({ kind: "accept-replies", from: "tunnel" } as const),
    fc.constant({ kind: "drop-new", from: "tunnel" } as const),
    fc.constant({ kind: "drop-new-into", to: "tunnel" } as const),
    fc
      .array(cidr())
      .map(
        (destinations) => ({ kind: "only-destinations", from: "tunnel", destinations }) as const,
      ),
    fc.array(cidr()).map((sources) => ({ kind: "masquerade", from: "tunnel", sources }) as const),
    cidr().map(
      (real) => ({ kind: "map-destination", from: "tunnel", real, mapped: real }) as const,
    ),
    fc
      .record({ real: cidr(), destinations: fc.array(cidr()) })
      .map((map) => ({ kind: "map-source", to: "tunnel", ...map, mapped: map.real }) as const),
    fc.constant({ kind: "mark-answers", to: "tunnel" } as const),
  );
  const chain: fc.Arbitrary<FirewallChain> = fc.record({
    hook: fc.constantFrom("input", "forward", "output", "postrouting", "arrival", "departure"),
    rules: fc.array(rules, { maxLength: 4 }),
  });
  return fc.record({
    interface: fc.constantFrom("xylem0", "wg-1.2_x"),
    chains: fc.uniqueArray(chain, { selector: ({ hook }) => hook, maxLength: 4 }),
  });
}

function cidr(): fc.Arbitrary<Cidr> {
  return fc
    .record({
      family: fc.constantFrom<4 | 6>(4, 6),
      bits: fc.integer({ min: 1, max: 32 }),
      at: fc.nat(255),
    })
    .map(({ family, bits, at }) => {
      const width = family === 4 ? 32 : 128;
      const base =
        ((BigInt(at) << BigInt(width - 8)) >> BigInt(width - bits)) << BigInt(width - bits);
      return cidrs(`${bigintToIp(base, family)}/${bits}`)[0] ?? fail();
    });
}

function cidrs(...texts: string[]): readonly Cidr[] {
  return texts.map((text) => {
    const read = parseCidr(text);
    return read.ok ? read.value : fail(read.problem);
  });
}

function fail(problem = "the sample is empty"): never {
  throw new TypeError(problem);
}
