/** Faults of networks that a tunnel must outlive, on real packets and with no Kubernetes in the way. */

import t from "tap";
import { setTimeout as after } from "node:timers/promises";
import { parseCidr } from "#src/model/cidr.ts";
import { cutCable, restoreCable } from "./cable.ts";
import type { Namespace } from "./namespace.ts";
import { watchLag } from "./lag.ts";
import { ping } from "./ping.ts";
import { handshakes, pingNodes, skipUnlessRoot, wantNoLoss, withTunnelLab } from "./tunnel-test.ts";
import { nodeNames } from "./two-networks.ts";
import { waitFor } from "./wait.ts";

const skip = skipUnlessRoot;

void t.test(
  "P2 the balancer keeps sending to a dead entry: other nodes' traffic resumes within a second",
  { skip, timeout: 120_000 },
  (t) =>
    withTunnelLab(t, { name: "dead-entry" }, async (lab) => {
      await pingNodes(lab, { count: 3, intervalMs: 300 });
      const entry = await busiestEntry(lab);
      const others = nodeNames.filter((node) => node !== entry);
      const pings = others.map(
        async (node) =>
          [node, await ping(lab.seed, lab.address(node), { count: 100, intervalMs: 40 })] as const,
      );
      await after(1_000);
      const lag = watchLag();
      await cutCable(lab.lab, entry);
      for (const [node, report] of await Promise.all(pings)) {
        t.ok(
          report.gapMsMax < 1_000 + lag.allowanceMs(),
          `${node}: longest silence ${report.gapMsMax} ms (${report.lost} of ${report.sent} lost) after the entry ${entry} died`,
        );
        t.ok(report.received > 60, `${node}: ${report.received} answers`);
      }
      t.ok(
        (await lab.gateway.stats()).paths.some(({ replaced }) => replaced > 0),
        "a path got a fresh source port",
      );
      await restoreCable(lab.lab, entry);
    }),
);

void t.test(
  "T18 a node is cut off without a word: streams to other nodes do not notice, and the gateway says whom it misses",
  { skip, timeout: 120_000 },
  (t) =>
    withTunnelLab(t, { name: "dead-node" }, async (lab) => {
      await pingNodes(lab, { count: 3, intervalMs: 300 });
      // The dead node is no entry here, so that this is about owners only.
      await lab.lab.balancer("public").setTargets(["node1"]);
      await pingNodes(lab, { count: 3, intervalMs: 100 });
      const pings = pingNodes(lab, { count: 60, intervalMs: 50 });
      await after(1_000);
      const lag = watchLag();
      await cutCable(lab.lab, "node3");
      const cutMs = performance.now();
      const reports = await pings;
      for (const node of ["node1", "node2"])
        t.equal(reports.get(node)?.lost, 0, `${node} lost nothing`);
      const missed = lab.gateway.events.find(
        (e) => e.kind === "unanswered" && lab.nodeOf(e.publicKey) === "node3",
      );
      t.ok(missed !== undefined, "node3 was reported as unanswered");
      const tookMs = (missed?.atMs ?? Number.NaN) - cutMs;
      t.ok(
        tookMs < 1_000 + lag.allowanceMs(),
        `it was reported ${tookMs.toFixed(0)} ms after the cut`,
      );
      t.equal(handshakesOf(lab, ["node1", "node2"]), 2, "nothing was agreed anew with the others");
    }),
);

void t.test(
  "W11 NAT gives the tunnel another source port while both ends reconcile: nothing is lost, no endpoint is overwritten",
  { skip, timeout: 120_000 },
  (t) =>
    withTunnelLab(t, { name: "nat-port", natPorts: "random" }, async (lab) => {
      await pingNodes(lab, { count: 3, intervalMs: 300 });
      for (const round of ["before", "after"]) {
        const pings = pingNodes(lab, { count: 70, intervalMs: 40 });
        for (let pass = 1; pass <= 5; pass += 1) {
          await after(500);
          const reports = [
            await lab.applyGateway(),
            ...(await Promise.all(nodeNames.map((node) => lab.applyAgent(node)))),
          ];
          const writes = reports.reduce((sum, report) => sum + report.writes, 0);
          t.equal(writes, 0, `reconcile ${pass} ${round} the new port wrote nothing`);
        }
        wantNoLoss(t, await pings, `five reconciles ${round} the new source port`);
        // Between pings: an answer on its way when the mapping goes is lost in the NAT itself, whoever sent it.
        const forget = ["conntrack", "-D", "-p", "udp"];
        await lab.lab.namespace("seed-router").run(forget, { check: false });
      }
      const moved = lab.agent("node2").events.filter(({ kind }) => kind === "endpoint");
      t.ok(moved.length >= 2, `node2 followed its gateway: ${moved.length} endpoints learned`);
    }),
);

void t.test(
  "W23 a node's ranges change once a second under a flood of pings: none is lost",
  { skip, timeout: 120_000 },
  (t) =>
    withTunnelLab(t, { name: "ranges-change" }, async (lab) => {
      await pingNodes(lab, { count: 3, intervalMs: 300 });
      const pings = pingNodes(lab, { count: 800, intervalMs: 10 });
      const more = parseCidr("10.128.64.0/24");
      if (!more.ok) throw new Error(more.problem);
      const [first, ...rest] = lab.facts.nodes;
      if (first === undefined) throw new Error("no node");
      for (let second = 0; second < 8; second += 1) {
        await after(1_000);
        const podCidrs = second % 2 === 0 ? [...first.podCidrs, more.value] : first.podCidrs;
        lab.facts.nodes = [{ ...first, podCidrs }, ...rest];
        const { writes } = await lab.applyGateway();
        t.ok(writes > 0, `change ${second + 1} reached the device`);
      }
      wantNoLoss(t, await pings, "eight changes of allowed ranges");
    }),
);

void t.test(
  "T43 the gateway is killed and starts over what it left behind",
  { skip, timeout: 120_000 },
  (t) =>
    withTunnelLab(t, { name: "gateway-killed" }, async (lab) => {
      await pingNodes(lab, { count: 3, intervalMs: 300 });
      for (let crash = 1; crash <= 3; crash += 1) {
        await lab.gateway.kill();
        await lab.startGateway();
        const reports = await pingNodes(lab, { count: 5, intervalMs: 100 });
        wantNoLoss(t, reports, `after crash ${crash}`);
      }
      const { writes } = await lab.applyGateway();
      t.equal(writes, 0, "what was left behind is in order now");
    }),
);

void t.test(
  "W48 both ends are taken down: rules, routes, addresses, links and nft are as before",
  { skip, timeout: 120_000 },
  (t) =>
    withTunnelLab(t, { name: "take-down" }, async (lab) => {
      const look = async (machine: string): Promise<string> => {
        const parts = [
          ["ip", "rule"],
          ["ip", "route", "show", "table", "all"],
          ["ip", "-6", "route", "show", "table", "all"],
          ["ip", "addr"],
          ["nft", "list", "ruleset"],
        ];
        const seen = await Promise.all(parts.map((argv) => lab.lab.namespace(machine).run(argv)));
        // Lifetimes count down by themselves, and duplicate address detection ends by itself.
        return seen
          .map(({ stdout }) =>
            stdout.replaceAll(/expires \d+sec|valid_lft \S+ preferred_lft \S+| tentative/g, ""),
          )
          .join("\n");
      };
      await lab.gateway.close();
      await lab.agent("node1").close();
      await Promise.all(
        ["apiserver", "node1"].map((machine) => linkLocalSettled(lab.lab.namespace(machine))),
      );
      const before = [await look("apiserver"), await look("node1")];
      await lab.startGateway();
      await lab.startAgent("node1");
      const during = [await look("apiserver"), await look("node1")];
      t.match(during[0], /xylem0/);
      await lab.gateway.close();
      await lab.agent("node1").close();
      const afterwards = [await look("apiserver"), await look("node1")];
      t.same(afterwards, before);
      await lab.startGateway();
      await lab.startAgent("node1");
    }),
);

/** Duplicate address detection adds addresses and routes of the kernel's own a second or two after a link came up. */
const linkLocalSettled = (machine: Namespace): Promise<boolean> =>
  waitFor(`eth0 of ${machine.machine} has its link-local address`, async () => {
    const { stdout } = await machine.run([
      "ip",
      "-6",
      "addr",
      "show",
      "dev",
      "eth0",
      "scope",
      "link",
    ]);
    return stdout.includes("inet6") && !stdout.includes("tentative");
  });

/** The node that passes on most for others; with none, flows are spread anew until there is one. */
const busiestEntry = async (
  lab: Parameters<Parameters<typeof withTunnelLab>[2]>[0],
): Promise<string> => {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const counts = await Promise.all(
      nodeNames.map(
        async (node) =>
          [node, (await lab.agent(node).stats()).counters["relay_datagrams"] ?? 0] as const,
      ),
    );
    const [first] = counts.toSorted(([, a], [, b]) => b - a);
    if (first !== undefined && first[1] > 2) return first[0];
    await lab.lab.balancer("public").rehash();
    await pingNodes(lab, { count: 4, intervalMs: 50 });
  }
  throw new Error("no agent became an entry for another in 20 spreads of the flows");
};

const handshakesOf = (lab: Parameters<typeof handshakes>[0], nodes: readonly string[]): number =>
  nodes.reduce((sum, node) => sum + (handshakes(lab).get(node) ?? 0), 0);
