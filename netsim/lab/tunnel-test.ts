/** What the tests of tunnels in the lab share: a lab per test, evidence when it fails, and pings to every node. */

import type { Test } from "tap";
import { startCapture } from "./capture.ts";
import type { Lab } from "./lab.ts";
import { type PingReport, ping } from "./ping.ts";
import { openTunnelLab, type TunnelLab, type TunnelLabOptions } from "./tunnel-lab.ts";
import { nodeNames } from "./two-networks.ts";

/** Not root: the reason for which a lab test is skipped; else false. */
export const skipUnlessRoot: string | false =
  process.getuid?.() === 0 ? false : "needs root: it makes network namespaces";

/** Runs a test with a lab of its own; when it fails, says where the evidence is. */
export const withTunnelLab = async (
  t: Test,
  options: TunnelLabOptions,
  run: (lab: TunnelLab) => Promise<void>,
): Promise<void> => {
  const lab = await openTunnelLab(options);
  try {
    await captureTunnel(lab.lab);
    await run(lab);
  } catch (error) {
    t.comment(`evidence: ${await lab.lab.evidence()}`);
    throw error;
  } finally {
    if (!t.passing()) {
      t.comment(`evidence: ${await lab.lab.evidence()}`);
      t.comment(JSON.stringify(await lab.gateway.stats().catch(String)));
    }
    await lab.close();
  }
};

/** Captures the headers of every datagram between gateways and agents; kept with the evidence when the test fails. */
export const captureTunnel = async (lab: Lab): Promise<void> => {
  await startCapture(lab, "balancer", { filter: "udp port 51820", snapLength: 96, name: "tunnel" });
};

/** Pings every node at once; the reports by node. */
export const pingNodes = async (
  lab: TunnelLab,
  options: { readonly count: number; readonly intervalMs: number },
): Promise<ReadonlyMap<string, PingReport>> => {
  const reports = nodeNames.map(
    async (node) => [node, await ping(lab.seed, lab.address(node), options)] as const,
  );
  return new Map(await Promise.all(reports));
};

/** Fails unless every ping was answered. */
export const wantNoLoss = (
  t: Test,
  reports: ReadonlyMap<string, PingReport>,
  when: string,
): void => {
  for (const [node, report] of reports) {
    t.equal(
      report.lost,
      0,
      `${when}: ${report.received} of ${report.sent} pings to ${node} were answered`,
    );
  }
};

/** How many sessions the gateway has made with each node since it started. */
export const handshakes = (lab: TunnelLab): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>();
  for (const event of lab.gateway.events) {
    if (event.kind !== "handshake") continue;
    const node = lab.nodeOf(event.publicKey);
    counts.set(node, (counts.get(node) ?? 0) + 1);
  }
  return counts;
};
