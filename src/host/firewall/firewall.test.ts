/** The Firewall suite against the fake, and as root against nft in a fresh network namespace. */

import { execFileSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { renderNft } from "#src/codec/nft.ts";
import { cidrFromParts, type Cidr } from "#src/model/cidr.ts";
import type { FirewallHook, FirewallRule, FirewallTable } from "#src/model/network.ts";
import type { Random } from "#src/ports/random.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Firewall } from "#src/ports/firewall.ts";
import { seededRandom } from "../random.ts";
import { freshNamespace } from "../network/fresh-namespace.ts";
import { FakeFirewall } from "./fake-firewall.ts";
import { firewallCompliance, gatewayTable, type FirewallBench } from "./firewall-compliance.ts";
import { NftFirewall } from "./nft-firewall.ts";

const namespace = freshNamespace(import.meta.filename);
switch (namespace.kind) {
  case "inside":
    firewallCompliance(t, async () => nftBench());
    void t.test(
      "drift is seen: a table that is dormant, another policy, a foreign set",
      async (t) => {
        const { firewall } = nftBench();
        t.teardown(() => firewall.remove());
        for (const change of [
          "add table inet xylem { flags dormant ; }",
          "add chain inet xylem input { policy drop ; }",
          "add set inet xylem theirs { type ipv4_addr ; }",
          "add chain inet xylem theirs",
        ]) {
          await firewall.replace(gatewayTable);
          execFileSync("nft", [change]);
          t.ok(((await firewall.observe())?.foreignRules ?? 0) > 0, change);
        }
      },
    );
    void t.test("any table comes back as it was written, 60 at random", async (t) => {
      const { firewall } = nftBench();
      t.teardown(() => firewall.remove());
      const random = seededRandom(158);
      for (let i = 0; i < 60; i++) {
        const table = randomTable(random);
        await firewall.replace(table);
        const observed = await firewall.observe();
        t.equal(observed?.foreignRules, 0);
        t.equal(
          renderNft({ interface: table.interface, chains: observed?.table.chains ?? [] }),
          renderNft(table),
        );
      }
    });
    void t.test("a missing capability is named with its fix", async (t) => {
      const program = join(t.testdir(), "nft");
      const dropped = "setpriv --bounding-set=-net_admin --inh-caps=-net_admin nft";
      writeFileSync(program, `#!/bin/sh\nexec ${dropped} "$@"\n`);
      chmodSync(program, 0o755);
      const firewall = new NftFirewall(program);
      t.match(await failureOf(firewall), { code: "no-permission", message: /NET_ADMIN/ });
      await t.rejects(firewall.observe(), { code: "no-permission" });
    });
    void t.test("W39 tables of others are not touched", async (t) => {
      const { firewall } = nftBench();
      execFileSync("nft", [
        "add table inet theirs { chain input { type filter hook input priority 0; counter ; } ; }",
      ]);
      const before = execFileSync("nft", ["list", "ruleset"], { encoding: "utf8" });
      await firewall.replace(gatewayTable);
      await firewall.remove();
      t.equal(execFileSync("nft", ["list", "ruleset"], { encoding: "utf8" }), before);
    });
    break;
  case "outside":
    void t.test("fake", async (t) => firewallCompliance(t, fakeBench));
    void t.spawn(namespace.command, [...namespace.args], { env: namespace.env }, "nft");
    break;
  case "impossible":
    void t.test("fake", async (t) => firewallCompliance(t, fakeBench));
    void t.test("nft", { skip: namespace.reason }, () => undefined);
    break;
}

if (namespace.kind !== "inside") {
  void t.test("a missing nft is named with the package that has it", async (t) => {
    const error = await failureOf(new NftFirewall("/nonexistent/nft"));
    t.match(error, { code: "no-nft", message: /install the package nftables/ });
  });

  const refusals = [
    {
      says: "Error: Could not process rule: Operation not permitted",
      code: "no-permission",
      fix: /NET_ADMIN/,
    },
    {
      says: "netlink: Error: cache initialization failed: Operation not permitted",
      code: "no-permission",
      fix: /NET_ADMIN/,
    },
    {
      says: "Error: Could not process rule: Operation not supported",
      code: "unsupported",
      fix: /nft_masq/,
    },
    { says: "Error: syntax error, unexpected newline", code: "io", fix: /syntax error/ },
    { says: "", code: "io", fix: /nft/ },
  ];
  for (const { says, code, fix } of refusals) {
    void t.test(`what nft says becomes the code ${code}: ${says}`, async (t) => {
      const program = join(t.testdir(), "nft");
      writeFileSync(program, `#!/bin/sh\ncat >/dev/null\necho '${says}' >&2\nexit 1\n`);
      chmodSync(program, 0o755);
      const error = await failureOf(new NftFirewall(program));
      t.match(error, { code, message: fix });
    });
  }
}

/** Every hook, any rules in any order, up to 12 blocks of any size and family; neighbours are likely. */
function randomTable(random: Random): FirewallTable {
  const unit = (): number => random.unit();
  const below = (max: number): number => Math.floor(unit() * max);
  const block = (): Cidr => {
    const [family, width] = unit() < 0.5 ? ([4, 32] as const) : ([6, 128] as const);
    const length = 1 + below(family === 4 ? 32 : 128);
    const shift = BigInt(width - length);
    const base = ((BigInt(below(4)) << BigInt(width - 9)) >> shift) << shift;
    const near = length > 20 ? BigInt(below(6)) << shift : 0n;
    return cidrFromParts({ family, base: base + near, length });
  };
  const blocks = (): readonly Cidr[] => Array.from({ length: 1 + below(12) }, block);
  const rule = (hook: FirewallHook): FirewallRule => {
    if (hook === "postrouting") return { kind: "masquerade", from: "tunnel", sources: blocks() };
    const rules: readonly FirewallRule[] = [
      { kind: "accept-replies", from: "tunnel" },
      { kind: "drop-new", from: "tunnel" },
      { kind: "drop-new-into", to: "tunnel" },
      { kind: "only-destinations", from: "tunnel", destinations: blocks() },
    ];
    // nft refuses an outgoing interface where a packet comes in, and the other way round.
    const fitting = rules.filter(
      (r) => hook === "forward" || (r.kind === "drop-new-into") === (hook === "output"),
    );
    return fitting[below(fitting.length)] ?? { kind: "drop-new", from: "tunnel" };
  };
  const hooks = (["input", "forward", "output", "postrouting"] as const).filter(() => unit() < 0.7);
  return {
    interface: "xylem0",
    chains: hooks.map((hook) => ({
      hook,
      rules: Array.from({ length: below(4) }, () => rule(hook)),
    })),
  };
}

async function failureOf(firewall: Firewall): Promise<unknown> {
  try {
    await firewall.replace(gatewayTable);
  } catch (e) {
    if (isHostError(e)) return { code: e.code, message: e.message };
    throw e;
  }
  return null;
}

async function fakeBench(): Promise<FirewallBench> {
  const firewall = new FakeFirewall();
  return {
    firewall,
    flush: async () => firewall.flush(),
    flushRuleset: async () => firewall.flushRuleset(),
    addForeignRule: async () => firewall.addForeignRule(),
  };
}

function nftBench(): FirewallBench {
  const nft = async (command: string): Promise<void> => {
    execFileSync("nft", [command]);
  };
  return {
    firewall: new NftFirewall(),
    flush: () => nft("flush table inet xylem"),
    flushRuleset: () => nft("flush ruleset"),
    addForeignRule: () => nft("insert rule inet xylem input tcp dport 22 accept"),
  };
}
