/**
 * Streams that are silent for many times as long as NAT and balancer remember: ten minutes, or as many as
 * $XYLEM_SILENCE_MINUTES says (catalogue row P1 has 20). Nearly all of it is waiting, beside other tests (scripts/test.ts).
 */

import t, { type Test } from "tap";
import { setTimeout as after } from "node:timers/promises";
import { parseEndpoint } from "#src/model/endpoint.ts";
import { countPackets, startCapture } from "./capture.ts";
import { listFlows } from "./nat.ts";
import { openStream } from "./talker.ts";
import type { TunnelLab } from "./tunnel-lab.ts";
import { pingNodes, skipUnlessRoot, wantNoLoss, withTunnelLab } from "./tunnel-test.ts";
import { nodeNames, twoNetworksPlan } from "./two-networks.ts";
import { waitFor } from "./wait.ts";

/** NAT and balancer forget idle flows after this time. */
const forgetSeconds = 30;
const silenceMinutes = Number(process.env["XYLEM_SILENCE_MINUTES"] ?? 10);
const silenceMs = silenceMinutes * 60_000;
/** Later than the last passive keepalive, 10 s after the last data, and than the flows' end. */
const settleMs = 60_000;
const timeout = silenceMs + 180_000;

const outside = {
  IPv4: `${twoNetworksPlan.balancerAddress}:${twoNetworksPlan.tunnelPort}`,
  IPv6: `[${twoNetworksPlan.balancerAddress6}]:${twoNetworksPlan.tunnelPort}`,
} as const;
type Family = keyof typeof outside;

// All at once: they wait for the same time.
t.jobs = 3;

for (const family of ["IPv4", "IPv6"] as const) {
  void t.test(
    `P1 over ${family}: a stream that was silent for ${silenceMinutes} minutes can be spoken to first by the node`,
    { skip: skipUnlessRoot, timeout, buffered: true },
    (t) =>
      withForgetfulLab(t, family, async (lab) => {
        const ends = {
          from: lab.seed,
          to: lab.lab.namespace("node2"),
          address: lab.address("node2"),
        };
        const stream = await openStream(lab.lab, ends);
        await after(silenceMs);
        await stream.say("after the silence");
        await stream.heard("after the silence", 10_000);
        t.notMatch(stream.clientLog(), /error|closed/, "the connection is the first one");
        t.equal(stream.clientLog().match(/connected/g)?.length, 1, "nothing was re-dialled");
        await stream.stop();
      }),
  );
}

void t.test(
  "P1 without an open stream nobody says anything, the flows are forgotten, and the next packet works",
  { skip: skipUnlessRoot, timeout, buffered: true },
  (t) =>
    withForgetfulLab(t, "silence", async (lab) => {
      await pingNodes(lab, { count: 3, intervalMs: 200 });
      await after(settleMs);
      const capture = await startCapture(lab.lab, "apiserver", {
        interface: "eth0",
        filter: "udp port 51820",
      });
      await after(settleMs);
      await capture.stop();
      const said = await countPackets(lab.lab, capture.file, "udp");
      t.equal(said, 0, "packets of the tunnel in a minute of silence");
      t.same(await listFlows(lab.lab.namespace("seed-router"), "udp"), [], "NAT has forgotten");
      wantNoLoss(t, await pingNodes(lab, { count: 3, intervalMs: 200 }), "after the silence");
    }),
);

/** A lab whose NAT and balancer forget, with sessions over the wanted family already made. */
async function withForgetfulLab(
  t: Test,
  kind: Family | "silence",
  run: (lab: TunnelLab) => Promise<void>,
): Promise<void> {
  await withTunnelLab(
    t,
    {
      name: `silent-${kind.toLowerCase()}`,
      natUdpTimeoutSeconds: forgetSeconds,
      balancerUdpTimeoutSeconds: forgetSeconds,
    },
    async (lab) => {
      const endpoint = parseEndpoint(outside[kind === "silence" ? "IPv4" : kind]);
      if (!endpoint.ok) throw new Error(endpoint.problem);
      lab.facts.endpoint = endpoint.value;
      await lab.applyGateway();
      for (const node of nodeNames) {
        await waitFor(`${node} answers`, async () => {
          const reports = await pingNodes(lab, { count: 1, intervalMs: 100 });
          return reports.get(node)?.lost === 0;
        });
      }
      await run(lab);
    },
  );
}
