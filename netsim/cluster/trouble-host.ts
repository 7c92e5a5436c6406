/** Machines that lack what an agent needs: what it says, that nothing of ours is left open, and that it recovers. */

import { readFile } from "node:fs/promises";
import type { Test } from "tap";
import type { Namespace } from "#netsim/lab/namespace.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import type { Cluster } from "./cluster.ts";
import { tunnelName, tunnelNamespace } from "./product.ts";
import { execIn, type TunnelCluster } from "./tunnel-cluster.ts";
import { startTroubled, type TroubledProgram } from "./troubled-program.ts";

const agentStatusPort = 9447;
const tunnelPort = 51_820;
/** The mark of our routes; docs/objects.md. */
const routeProtocol = "158";

interface Lack {
  readonly node: string;
  readonly name: string;
  readonly wrapper: readonly string[];
  readonly says: RegExp;
}

const lacks: readonly Lack[] = [
  {
    node: "node1",
    name: "no-tun",
    wrapper: [
      ...["unshare", "--mount", "sh", "-c"],
      ...['mount -t tmpfs tmpfs /dev/net && exec "$@"', "sh"],
    ],
    says: /Device xylem0 can't be opened: \/dev\/net\/tun is missing.*Mount it/,
  },
  {
    node: "node2",
    name: "no-capability",
    wrapper: ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", "--"],
    says: /give the container the capability NET_ADMIN/,
  },
  {
    node: "node3",
    name: "no-nft",
    wrapper: ["env", "PATH=/nonexistent"],
    says: /The program nft is missing: install the package nftables/,
  },
];

const startAgent = (
  cluster: Cluster,
  options: {
    readonly node: string;
    readonly name: string;
    readonly wrapper?: readonly string[];
    readonly statusPort?: number;
  },
): TroubledProgram =>
  startTroubled(cluster, {
    name: `agent-${options.node}-${options.name}`,
    place: cluster.machine(options.node),
    script: "agent",
    args: [
      ...["--kubeconfig", cluster.shoot.keys.file(`xylem-agent-${options.node}.conf`)],
      ...["--node", options.node, "--log-level", "debug"],
    ],
    statusPort: options.statusPort ?? agentStatusPort,
    ...(options.wrapper === undefined ? {} : { wrapper: options.wrapper }),
  });

/** What of ours is on a machine, as a list of words; empty: nothing. An interface without an address carries nothing. */
const ourThings = async (machine: Pick<Namespace, "run">): Promise<readonly string[]> => {
  const routes = ["ip", "route", "show", "table", "all", "proto", routeProtocol];
  const [routes4, routes6, addresses, tables] = await Promise.all([
    machine.run(routes),
    machine.run(["ip", "-6", ...routes.slice(1)]),
    machine.run(["ip", "-brief", "addr", "show", "dev", "xylem0"], { check: false }),
    machine.run(["nft", "list", "tables"]),
  ]);
  const table = tables.stdout.includes("inet xylem") ? ["table inet xylem"] : [];
  const [, , ...carried] = addresses.stdout.trim().split(/\s+/);
  const routed = (routes4.stdout + routes6.stdout).split("\n").filter((line) => line !== "");
  const global = carried.filter((address) => !address.startsWith("fe80:"));
  return [...routed, ...global, ...table];
};

/** No tun, no capability and no nft, each on a node of its own. */
export const wantLackSentences = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster, product } = site;
  await Promise.all([...product.agents.values()].map((agent) => agent.stop()));
  for (const { node } of lacks)
    t.same(
      await ourThings(cluster.machine(node)),
      [],
      `${node} has nothing of ours after a clean stop`,
    );
  await Promise.all(
    lacks.map(async ({ node, name, wrapper, says }) => {
      const agent = startAgent(cluster, { node, name, wrapper });
      t.pass(`${name}: ${await agent.says(says)}`);
      t.same(
        await ourThings(cluster.machine(node)),
        [],
        `${name}: nothing is half applied on ${node}`,
      );
      t.ok(agent.isRunning(), `${name}: the agent goes on trying`);
      await agent.stop();
      t.same((await agent.exited).code, 0, `${name}: it still stops cleanly`);
    }),
  );
  for (const agent of product.agents.values()) agent.start();
  await Promise.all([...product.agents.values()].map((agent) => agent.ready()));
};

/** A gateway without NET_ADMIN, in the pod of Prometheus. */
export const wantGatewaySentence = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster, product } = site;
  const { seed, shoot, lab } = cluster;
  const gateway = product.gateways.prometheus;
  await gateway.stop();
  const namespace = lab.namespace(cluster.site.prometheus.machine);
  const program = startTroubled(cluster, {
    name: "gateway-no-capability",
    place: namespace,
    script: "gateway",
    wrapper: ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", "--"],
    args: [
      ...["--seed-kubeconfig", seed.keys.file("xylem-gateway-prometheus.conf")],
      ...["--shoot-kubeconfig", shoot.keys.file("xylem-gateway-prometheus.conf")],
      ...["--namespace", tunnelNamespace, "--tunnel", tunnelName, "--identity", "prometheus-0"],
    ],
    statusPort: 9446,
  });
  t.pass(await program.says(/give the container the capability NET_ADMIN/));
  t.same(await ourThings(namespace), [], "nothing is half applied");
  await program.stop();
  t.equal((await program.exited).code, 0, "it still stops cleanly");
  gateway.start();
  await gateway.ready();
};

/** The UDP port is held by socat, and then it is not. */
export const wantPortSentence = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster, product } = site;
  const node = "node3";
  const agent = product.agents.get(node);
  if (agent === undefined) throw new Error(`there is no agent on ${node}`);
  await agent.stop();
  const machine = cluster.machine(node);
  const holder = machine.spawn(
    ["socat", "-u", `UDP4-RECVFROM:${tunnelPort},fork`, "OPEN:/dev/null"],
    {
      log: "socat.log",
    },
  );
  await waitFor("socat holds the port", async () => {
    const { stdout } = await machine.run(["ss", "-Hlun", "sport", "=", `:${tunnelPort}`]);
    return stdout !== "";
  });
  agent.start();
  const said = await waitFor(
    "the agent says who has its port",
    async () => {
      const problem = (await agent.status())?.problem ?? "";
      if (!/^UDP port 51820 is taken by process socat \(pid \d+\): stop it/.test(problem))
        throw new Error(problem);
      return problem;
    },
    { timeoutMs: 20_000 },
  );
  t.pass(said);
  t.same(await ourThings(cluster.machine(node)), [], "nothing is half applied");
  const startMs = performance.now();
  holder.kill("SIGKILL");
  await holder.exited;
  await agent.ready(20_000);
  t.pass(`ready ${(performance.now() - startMs).toFixed(0)} ms after the port was free`);
  await waitFor("exec works again", async () => (await execIn(cluster, node)) > 0);
};

/** A second agent beside a running one: it says what it lacks, and the first does not notice. */
export const wantSecondInstanceHarmless = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster, product } = site;
  const node = "node1";
  const first = product.agents.get(node);
  const before = await ourThings(cluster.machine(node));
  const twin = startAgent(cluster, { node, name: "same-status-port" });
  const { code } = await twin.exited;
  t.equal(code, 1, "a taken status port ends it with 1");
  const log = await readFile(twin.log, "utf8");
  t.match(log, /status port 127\.0\.0\.1:9447 is taken by another process: choose another/);
  const second = startAgent(cluster, { node, name: "second", statusPort: 19_447 });
  t.pass(await second.says(/(UDP port 51820 is taken by|Interface xylem0 is in use by)/));
  await second.stop();
  t.same(await ourThings(cluster.machine(node)), before, "what the first agent made is all there");
  t.equal((await first?.status())?.problem, null, "the first agent is ready");
  t.ok((await execIn(cluster, node)) > 0, "exec works");
};
