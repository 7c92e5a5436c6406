/** One end or all of them start anew: how soon the tunnel carries again. Programs take what time they need to start. */

import t from "tap";
import { ping } from "./ping.ts";
import { pingNodes, skipUnlessRoot, wantNoLoss, withTunnelLab } from "./tunnel-test.ts";
import { nodeNames } from "./two-networks.ts";
import { waitFor } from "./wait.ts";

const skip = skipUnlessRoot;

void t.test(
  "T34 the first packets after a gateway's restart are answered within a second",
  { skip, timeout: 120_000 },
  (t) =>
    withTunnelLab(t, { name: "first-packet" }, async (lab) => {
      await pingNodes(lab, { count: 3, intervalMs: 300 });
      for (const ending of ["a crash", "a clean stop"] as const) {
        if (ending === "a crash") await lab.gateway.kill();
        else await lab.gateway.close();
        await lab.startGateway();
        for (const node of nodeNames) {
          const report = await ping(lab.seed, lab.address(node), { count: 1 });
          t.equal(report.received, 1, `${node} answered the first packet after ${ending}`);
          t.ok(report.rttMsMax < 1_000, `${node}: after ${report.rttMsMax} ms`);
        }
      }
    }),
);

void t.test(
  "T48 both sides are killed and start at the same time: every node answers within five seconds",
  { skip, timeout: 120_000 },
  (t) =>
    withTunnelLab(t, { name: "all-restart" }, async (lab) => {
      await pingNodes(lab, { count: 3, intervalMs: 300 });
      for (const order of ["gateway first", "agents first"] as const) {
        await Promise.all([lab.gateway.kill(), ...nodeNames.map((node) => lab.agent(node).kill())]);
        const startAgents = async (): Promise<void> => {
          await Promise.all(nodeNames.map((node) => lab.startAgent(node)));
        };
        if (order === "gateway first") {
          await lab.startGateway();
          const early = await ping(lab.seed, lab.address("node1"), { count: 2, intervalMs: 200 });
          t.equal(early.received, 0, "no agent is there yet");
          await startAgents();
        } else {
          await startAgents();
          await lab.startGateway();
        }
        const startedMs = performance.now();
        await Promise.all(
          nodeNames.map((node) =>
            waitFor(
              `${node} answers (${order})`,
              async () => (await ping(lab.seed, lab.address(node), { count: 1 })).received === 1,
              { timeoutMs: 20_000 },
            ),
          ),
        );
        const tookMs = performance.now() - startedMs;
        t.ok(tookMs < 5_000, `${order}: all answered after ${tookMs.toFixed(0)} ms`);
        wantNoLoss(t, await pingNodes(lab, { count: 5, intervalMs: 100 }), order);
      }
    }),
);
