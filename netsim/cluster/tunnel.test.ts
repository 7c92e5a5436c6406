/** The product on real Kubernetes: the main job, and the faults that a tunnel must outlive. */

import t, { type Test } from "tap";
import { cutCable, restoreCable } from "#netsim/lab/cable.ts";
import { watchLag } from "#netsim/lab/lag.ts";
import { skipUnlessRoot } from "#netsim/lab/tunnel-test.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import { longestGap } from "./longest-gap.ts";
import { tunnelName, tunnelNamespace } from "./product.ts";
import {
  execIn,
  touchTunnel,
  type TunnelCluster,
  wantMainJob,
  wantNoWay,
  withTunnelCluster,
} from "./tunnel-cluster.ts";
import { webPort } from "./workloads.ts";

void t.test("the tunnel on real Kubernetes", { skip: skipUnlessRoot, timeout: 600_000 }, (t) =>
  withTunnelCluster(t, "tunnel", async (site) => {
    const before = await machinesNow(site);
    for (const program of site.product.all) {
      if (!program.name.startsWith("gateway")) program.start();
    }
    await t.test("without gateways every line of the main job fails", (t) =>
      wantNoWay(t, site.cluster),
    );
    await site.product.start();
    await t.test("with gateways every line of the main job passes", (t) =>
      wantMainJob(t, site.cluster),
    );
    await t.test("the Tunnel's status tells the truth", (t) => statusIsTrue(t, site));
    await t.test(
      "N51 a pod sees its own node as the source, and the node's peer carried the bytes",
      (t) => pathIsProven(t, site),
    );
    await t.test("N51 a route that leads around the tunnel makes the gateway not ready", (t) =>
      shadowIsSeen(t, site),
    );
    await t.test(
      "T18 the relay is cut off: services are reachable again within a second, streams elsewhere live",
      (t) => relayDies(t, site),
    );
    await t.test("T5 an aggregated API whose backend is silent: exec and logs are as before", (t) =>
      silentBackendHurtsNobody(t, site),
    );
    await t.test("T43 a gateway is killed and starts over what it left behind", (t) =>
      gatewayIsKilled(t, site),
    );
    await t.test("W48 everything is stopped: the machines are as before", async (t) => {
      await site.product.stop();
      t.same(await machinesNow(site), before);
    });
  }),
);

interface TunnelStatus {
  readonly conditions: readonly { readonly type: string; readonly status: string }[];
  readonly gateways: readonly {
    readonly slot: number;
    readonly holder: string;
    readonly address: string;
  }[];
  readonly agents: { readonly ready: number; readonly total: number };
}

const statusIsTrue = async (t: Test, { cluster }: TunnelCluster): Promise<void> => {
  const args = ["get", "tunnel", tunnelName, "-n", tunnelNamespace, "-o", "json"];
  const status = await waitFor(
    "the Tunnel's status names both gateways and three agents",
    async () => {
      const { stdout } = await cluster.seed.kubectl.run(args);
      const { status } = JSON.parse(stdout) as { status?: TunnelStatus };
      if (status?.gateways?.length !== 2 || status.agents?.ready !== 3)
        throw new Error(JSON.stringify(status));
      return status;
    },
    { timeoutMs: 60_000 },
  );
  const isTrue = (type: string) => status.conditions.find((c) => c.type === type)?.status;
  for (const type of ["Accepted", "Published", "Ready"])
    t.equal(isTrue(type), "True", `condition ${type}`);
  t.same(status.gateways.map(({ holder }) => holder).toSorted(), ["apiserver-0", "prometheus-0"]);
  t.same(status.agents, { ready: 3, total: 3 });
};

/** The address of a pod, from its status. */
const podAddress = async ({ cluster }: TunnelCluster, pod: string): Promise<string> => {
  const { stdout } = await cluster.shoot.kubectl.run([
    "get",
    "pod",
    pod,
    "-o",
    "jsonpath={.status.podIP}",
  ]);
  return stdout;
};

const pathIsProven = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster, product } = site;
  const received = async (): Promise<Map<string, number>> => {
    const status = await product.gateways.apiserver.status();
    return new Map(
      status?.device?.peers.map((p) => [status.nodes?.[p.publicKey] ?? "", p.rxBytes]),
    );
  };
  for (const { name, podRange } of cluster.site.nodes) {
    const address = await podAddress(site, `web-${name}`);
    const before = await received();
    const url = `http://${address}:${webPort}/`;
    const { stdout } = await cluster.lab
      .namespace("apiserver")
      .run([cluster.programs.labpod, "get", url]);
    const source = /to (\S+):\d+/.exec(stdout)?.[1] ?? "";
    // A node's own address towards its pods is that of their bridge: the first of the node's pod range.
    const own = podRange.replace(/(\d+)\/\d+$/, (_, last: string) => String(Number(last) + 1));
    t.equal(source, own, `the pod on ${name} was asked by its own node: ${stdout.trim()}`);
    const grew = ((await received()).get(name) ?? 0) - (before.get(name) ?? 0);
    t.ok(grew > 100, `${grew} bytes came from the peer of ${name}`);
  }
};

const shadowIsSeen = async (t: Test, { cluster, product }: TunnelCluster): Promise<void> => {
  const gateway = product.gateways.apiserver;
  const relay = (await gateway.status())?.relay;
  const address = cluster.site.nodes.find(({ name }) => name === relay)?.address ?? "";
  const namespace = cluster.lab.namespace("apiserver");
  const route = (verb: string) =>
    namespace.run(["ip", "route", verb, `${address}/32`, "via", "172.20.8.1"]);
  await route("add");
  await touchTunnel(cluster);
  const problem = await waitFor(
    "the gateway says that the way leads around the tunnel",
    async () => {
      const status = await gateway.status();
      if (status?.problem === null) throw new Error("it says it is ready");
      return status?.problem;
    },
  );
  t.match(problem, /does not lead through the tunnel/);
  t.match(problem, cluster.site.apiserver.address, "it names the wrong source");
  await route("del");
  await touchTunnel(cluster);
  await gateway.ready();
};

/** A Service with the one web pod of a node behind it, so that only the relay can be at fault. */
const serviceOn = async ({ cluster }: TunnelCluster, node: string): Promise<string> => {
  const { kubectl } = cluster.shoot;
  await kubectl.run(["label", "--overwrite", "pod", `web-${node}`, "alone=yes"]);
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "alone" },
    spec: { selector: { alone: "yes" }, ports: [{ port: 80, targetPort: webPort }] },
  };
  await kubectl.run(["apply", "-f", "-"], { input: JSON.stringify(service) });
  const { stdout } = await kubectl.run([
    "get",
    "service",
    "alone",
    "-o",
    "jsonpath={.spec.clusterIP}",
  ]);
  return stdout;
};

const relayDies = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster, product } = site;
  const relay = (await product.gateways.apiserver.status())?.relay ?? "";
  const [other = ""] = cluster.site.nodes.map(({ name }) => name).filter((name) => name !== relay);
  const address = await serviceOn(site, other);
  const get = [cluster.programs.labpod, "get", "-until", "30s", `http://${address}/`];
  await cluster.lab.namespace("apiserver").run(get, { timeoutMs: 35_000 });
  const ticks = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo tick $i; sleep 0.2; done";
  const stream = cluster.shoot.kubectl.run(["exec", `web-${other}`, "--", "sh", "-c", ticks]);
  const lag = watchLag();
  const from = cluster.lab.namespace("apiserver");
  const { gapMs, answers } = await longestGap(from, `http://${address}/`, () =>
    cutCable(cluster.lab, relay),
  );
  t.ok(answers > 10, `${answers} answers`);
  t.ok(
    gapMs < 1_000 + lag.allowanceMs(),
    `the service was silent for ${gapMs.toFixed(0)} ms at most after its relay ${relay} was cut off`,
  );
  t.match((await stream).stdout, /tick 40/, `the exec stream on ${other} saw its end`);
  t.not((await product.gateways.apiserver.status())?.relay, relay, "another node is the relay");
  await restoreCable(cluster.lab, relay);
  await waitFor("the node works again", async () => (await execIn(cluster, relay)) > 0, {
    timeoutMs: 30_000,
  });
};

/** The API server asks it for its health all the time, and each time in vain. */
const silentApi = [
  {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "silent", namespace: "default" },
    spec: { ports: [{ port: 443, targetPort: 443 }] },
  },
  {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name: "silent",
      namespace: "default",
      labels: { "kubernetes.io/service-name": "silent" },
    },
    addressType: "IPv4",
    ports: [{ port: 443, protocol: "TCP" }],
    endpoints: [{ addresses: ["10.128.1.200"], conditions: { ready: true } }],
  },
  {
    apiVersion: "apiregistration.k8s.io/v1",
    kind: "APIService",
    metadata: { name: "v1.silent.example" },
    spec: {
      group: "silent.example",
      version: "v1",
      groupPriorityMinimum: 1000,
      versionPriority: 10,
      insecureSkipTLSVerify: true,
      service: { name: "silent", namespace: "default" },
    },
  },
];

const silentBackendHurtsNobody = async (t: Test, { cluster }: TunnelCluster): Promise<void> => {
  const { kubectl } = cluster.shoot;
  const node1 = cluster.lab.namespace("node1");
  await node1.run(["ip", "route", "add", "blackhole", "10.128.1.200/32"]);
  const input = silentApi.map((object) => JSON.stringify(object)).join("\n");
  await kubectl.run(["apply", "-f", "-"], { input });
  const message = "jsonpath={.status.conditions[?(@.type=='Available')].message}";
  await waitFor(
    "the API server has waited for the backend in vain",
    async () => {
      const { stdout } = await kubectl.run([
        "get",
        "apiservice",
        "v1.silent.example",
        "-o",
        message,
      ]);
      if (/deadline|timeout|timed out/i.test(stdout)) return true;
      throw new Error(stdout);
    },
    { timeoutMs: 90_000, intervalMs: 500 },
  );
  for (let round = 1; round <= 3; round += 1) {
    for (const { name } of cluster.site.nodes) {
      const ms = await execIn(cluster, name);
      t.ok(ms > 0, `exec on ${name} took ${ms.toFixed(0)} ms`);
      const { code } = await kubectl.run(["logs", `web-${name}`], { check: false });
      t.equal(code, 0, `logs on ${name}`);
    }
  }
  await kubectl.run(["delete", "-f", "-"], { input });
  await node1.run(["ip", "route", "del", "blackhole", "10.128.1.200/32"]);
};

const gatewayIsKilled = async (t: Test, { cluster, product }: TunnelCluster): Promise<void> => {
  const gateway = product.gateways.apiserver;
  const slot = (await gateway.status())?.slot;
  for (let crash = 1; crash <= 3; crash += 1) {
    await gateway.stop("SIGKILL");
    gateway.start();
    await gateway.ready();
    const ms = await execIn(cluster, "node2");
    t.ok(ms > 0, `exec after crash ${crash} took ${ms.toFixed(0)} ms`);
  }
  t.equal((await gateway.status())?.slot, slot, "it has its old slot again");
};

/** Addresses, routes, rules and our nft table of every machine that has a program of ours. */
const machinesNow = async ({ cluster }: TunnelCluster): Promise<Record<string, string>> => {
  const machines = [
    "seed",
    "apiserver",
    "prometheus",
    ...cluster.site.nodes.map(({ name }) => name),
  ];
  const looks = [
    ["ip", "rule"],
    ["ip", "route", "show", "table", "all"],
    ["ip", "-6", "route", "show", "table", "all"],
    ["ip", "-brief", "link"],
    ["ip", "-brief", "addr"],
    ["nft", "list", "tables"],
  ];
  const seen = machines.map(async (machine) => {
    const parts = await Promise.all(looks.map((argv) => cluster.lab.namespace(machine).run(argv)));
    return [
      machine,
      parts.map(({ stdout }) => stdout.replaceAll(/expires \d+sec/g, "")).join("\n"),
    ] as const;
  });
  return Object.fromEntries(await Promise.all(seen));
};
