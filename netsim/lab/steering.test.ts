/** Datagrams reach their owner through whichever agent the balancer picks: each mode of the balancer, and its moves. */

import t from "tap";
import { setTimeout as after } from "node:timers/promises";
import { parseEndpoint } from "#src/model/endpoint.ts";
import { handshakes, pingNodes, skipUnlessRoot, wantNoLoss, withTunnelLab } from "./tunnel-test.ts";
import { nodeNames, twoNetworksPlan } from "./two-networks.ts";

const skip = skipUnlessRoot;
const timeout = 60_000;

void t.test(
  "a balancer that pins each flow: every node is reached, and its answer has its own address",
  { skip, timeout },
  (t) =>
    withTunnelLab(t, { name: "steer-flow" }, async (lab) => {
      await pingNodes(lab, { count: 2, intervalMs: 200 });
      wantNoLoss(t, await pingNodes(lab, { count: 40, intervalMs: 25 }), "pinned");
      const peers = (await lab.gateway.stats()).peers;
      for (const node of nodeNames) {
        const peer = peers.find(({ publicKey }) => lab.nodeOf(publicKey) === node);
        t.ok(
          (peer?.rxPackets ?? 0) >= 40,
          `${node} answered itself: ${peer?.rxPackets} packets from its peer`,
        );
      }
    }),
);

void t.test(
  "W36 a balancer that sends every packet to another agent: all nodes are reached, none is lost",
  { skip, timeout },
  (t) =>
    withTunnelLab(t, { name: "steer-packet", mode: "per-packet" }, async (lab) => {
      await pingNodes(lab, { count: 3, intervalMs: 300 });
      const before = handshakes(lab);
      wantNoLoss(t, await pingNodes(lab, { count: 60, intervalMs: 25 }), "per packet");
      t.same([...handshakes(lab)], [...before], "nothing had to be agreed anew");
      let passedOn = 0;
      for (const node of nodeNames)
        passedOn += (await lab.agent(node).stats()).counters["relay_datagrams"] ?? 0;
      t.ok(passedOn > 60, `agents passed ${passedOn} datagrams on to their owners`);
    }),
);

void t.test(
  "a balancer that moves its target under traffic: no ping is lost and nothing is agreed anew",
  { skip, timeout },
  (t) =>
    withTunnelLab(t, { name: "steer-move", mode: "moving" }, async (lab) => {
      const balancer = lab.lab.balancer("public");
      await balancer.setTargets(["node1"]);
      await pingNodes(lab, { count: 3, intervalMs: 300 });
      const before = handshakes(lab);
      // Five seconds, so that most of them see the new target on a slow machine, too.
      const pings = pingNodes(lab, { count: 100, intervalMs: 50 });
      await after(1_000);
      await balancer.setTargets(["node2"]);
      wantNoLoss(t, await pings, "moved from node1 to node2");
      t.same([...handshakes(lab)], [...before], "the sessions are the same");
      const { node2 } = await balancer.counters();
      t.ok((node2?.packetsIn ?? 0) > 30, `node2 became the entry: ${node2?.packetsIn} packets`);
    }),
);

void t.test(
  "T19 the balancer gets another address: the next packet works without a handshake",
  { skip, timeout },
  (t) =>
    withTunnelLab(t, { name: "steer-address" }, async (lab) => {
      await pingNodes(lab, { count: 3, intervalMs: 300 });
      const before = handshakes(lab);
      const [address] = twoNetworksPlan.balancerSpareAddresses;
      await lab.lab.balancer("public").moveAddress(address);
      const endpoint = parseEndpoint(`${address}:${twoNetworksPlan.tunnelPort}`);
      if (!endpoint.ok) throw new Error(endpoint.problem);
      lab.facts.endpoint = endpoint.value;
      await lab.applyGateway();
      wantNoLoss(t, await pingNodes(lab, { count: 10, intervalMs: 50 }), "after the move");
      t.same([...handshakes(lab)], [...before], "the sessions are the same");
    }),
);

void t.test(
  "T19 the balancer forgets every flow while nobody talks: the next packet works without a handshake",
  { skip, timeout },
  (t) =>
    withTunnelLab(t, { name: "steer-forget" }, async (lab) => {
      await pingNodes(lab, { count: 3, intervalMs: 300 });
      const before = handshakes(lab);
      await lab.lab.balancer("public").forgetFlows();
      wantNoLoss(t, await pingNodes(lab, { count: 10, intervalMs: 50 }), "after all was forgotten");
      t.same([...handshakes(lab)], [...before], "the sessions are the same");
    }),
);
