/** The Firewall suite against the fake, and as root against nft in a fresh network namespace. */

import { execFileSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { isHostError } from "#src/ports/host-error.ts";
import type { Firewall } from "#src/ports/firewall.ts";
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
