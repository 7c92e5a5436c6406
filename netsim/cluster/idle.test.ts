/**
 * Five minutes in which nothing happens, and five without API servers: the real times of catalogue rows W57 and W44.
 * Nearly all of it is waiting: it runs beside other tests (scripts/test.ts).
 */

import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import { listenToKernel } from "#netsim/lab/kernel-news.ts";
import type { Namespace } from "#netsim/lab/namespace.ts";
import { ping } from "#netsim/lab/ping.ts";
import { skipUnlessRoot } from "#netsim/lab/tunnel-test.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import { tunnelNamespace } from "./product.ts";
import { execIn, type TunnelCluster, withTunnelCluster } from "./tunnel-cluster.ts";

const idleMs = 5 * 60_000;
const outageMs = 5 * 60_000;
const pingIntervalMs = 200;

void t.test(
  "five minutes of rest, and five without API servers",
  { skip: skipUnlessRoot, timeout: 1_400_000 },
  (t) =>
    withTunnelCluster(t, "idle", async (site) => {
      await site.product.start();
      for (const { name } of site.cluster.site.nodes) await execIn(site.cluster, name);
      await t.test(
        "W57 five idle minutes with resyncs in them: no API, netlink or nft write",
        (t) => idleWritesNothing(t, site),
      );
      await t.test(
        "W44 no API server answers for five minutes: the tunnel carries on, nothing exits, there is a relay",
        (t) => outageChangesNothing(t, site),
      );
    }),
);

const idleWritesNothing = async (t: Test, site: TunnelCluster): Promise<void> => {
  const before = await writesSettled(site);
  const runs = (): Promise<readonly number[]> => Promise.all(ends(site).map(runsOf));
  const runsBefore = await runs();
  const { cluster } = site;
  const machines = ["apiserver", "prometheus", ...cluster.site.nodes.map(({ name }) => name)];
  const news = await listenToKernel(
    machines.map((machine) => cluster.lab.namespace(machine)),
    "xylem",
  );
  await after(idleMs);
  t.same(await writesSoFar(site), before);
  t.same(await news.stop(), [], "events of the kernel that are about the tunnel");
  for (const [index, count] of (await runs()).entries()) {
    t.ok(count > (runsBefore[index] ?? 0), `the loop of ${ends(site)[index]?.name} did run`);
  }
};

const outageChangesNothing = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster, product } = site;
  const gateway = product.gateways.apiserver;
  const pids = product.all.map((program) => program.pid());
  const servers = ["seed", "apiserver"].map((machine) => cluster.lab.namespace(machine));
  await Promise.all(servers.map(blockApi));
  await t.rejects(execIn(cluster, "node1"), "no API server answers");
  const from = cluster.lab.namespace("apiserver");
  const pings = await Promise.all(
    cluster.site.nodes.map(
      async ({ name, address }) =>
        [
          name,
          await ping(from, address, {
            count: outageMs / pingIntervalMs,
            intervalMs: pingIntervalMs,
          }),
        ] as const,
    ),
  );
  for (const [name, { lost, sent }] of pings) t.equal(lost, 0, `${name}: lost of ${sent} pings`);
  t.same(
    product.all.map((program) => (program.isRunning() ? program.pid() : "ended")),
    pids,
    "every program is the one that it was",
  );
  // Which one is up to the packets: on a busy machine another may answer sooner.
  const relay = (await gateway.status())?.relay ?? "";
  t.ok(
    cluster.site.nodes.some(({ name }) => name === relay),
    `a relay goes on: ${relay}`,
  );
  await Promise.all(servers.map(unblockApi));
  for (const { name } of cluster.site.nodes) {
    await waitFor(`exec on ${name} works again`, async () => (await execIn(cluster, name)) > 0, {
      timeoutMs: 120_000,
    });
  }
  for (const program of product.all) await program.ready(120_000);
};

const outageTable = ["inet", "lab-outage"] as const;

/** No packet reaches the API server of this machine any more, not even from the machine itself. */
const blockApi = async (machine: Namespace): Promise<void> => {
  const rules = `table ${outageTable.join(" ")} {
  chain input { type filter hook input priority -10; tcp dport 6443 drop; }
}
`;
  await machine.run(["nft", "-f", "-"], { input: rules });
};

const unblockApi = async (machine: Namespace): Promise<void> => {
  await machine.run(["nft", "delete", "table", ...outageTable]);
};

const ends = ({ product }: TunnelCluster) =>
  product.all.filter(({ name }) => name !== "controller");

const runsOf = async (program: ReturnType<typeof ends>[number]): Promise<number> => {
  const lines = (await program.metric("xylem_reconcile_runs_total")).split("\n");
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
};

/** Everything that the product could have written: objects with their versions, and its own counters. */
const writesSoFar = async ({
  cluster,
  product,
}: TunnelCluster): Promise<Record<string, string>> => {
  const versions =
    "jsonpath={range .items[*]}{.kind}/{.metadata.name}={.metadata.resourceVersion} {end}";
  const [seed, shoot] = await Promise.all([
    cluster.seed.kubectl.run([
      "get",
      "tunnels,leases,secrets",
      "-n",
      tunnelNamespace,
      "-o",
      versions,
    ]),
    cluster.shoot.kubectl.run([
      "get",
      "tunnelagents,tunnelgateways",
      "-n",
      "kube-system",
      "-o",
      versions,
    ]),
  ]);
  const counted = await Promise.all(
    product.all
      .filter(({ name }) => name !== "controller")
      .map(
        async (program) =>
          [program.name, await program.metric("xylem_reconcile_writes_total")] as const,
      ),
  );
  return { seed: seed.stdout, shoot: shoot.stdout, ...Object.fromEntries(counted) };
};

/** What the start set off is over: the first handshake is told with the Lease, and the status follows. */
const writesSettled = async (site: TunnelCluster): Promise<Record<string, string>> => {
  let last = "";
  return await waitFor(
    "nothing is written for ten seconds",
    async () => {
      const now = await writesSoFar(site);
      const text = JSON.stringify(now);
      if (text === last) return now;
      last = text;
      throw new Error(text);
    },
    { timeoutMs: 120_000, intervalMs: 10_000 },
  );
};
