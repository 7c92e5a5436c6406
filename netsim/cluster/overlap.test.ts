/** A seed and a shoot with the very same ranges on real Kubernetes: mapped addresses for Prometheus, real ones for the API server. */

import { join } from "node:path";
import t, { type Test } from "tap";
import { openLab } from "#netsim/lab/lab.ts";
import { overlappingNetworks, overlappingPlan } from "#netsim/lab/overlapping-networks.ts";
import { ping } from "#netsim/lab/ping.ts";
import { captureTunnel, skipUnlessRoot } from "#netsim/lab/tunnel-test.ts";
import { twoNetworksPlan } from "#netsim/lab/two-networks.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { mainJob, runMainJob, settleApis } from "./main-job.ts";
import { installProduct, type Product, tunnelName, tunnelNamespace } from "./product.ts";
import { openPrograms } from "./programs.ts";
import { type ScrapeTarget, startPrometheus } from "./prometheus.ts";
import { overlappingSite } from "./site.ts";

/** What the seed has, and where address maps come from. */
const seedNetwork = {
  apiVersion: "xylem.dev/v1alpha1",
  kind: "SeedNetwork",
  metadata: { name: "eu-1" },
  spec: {
    nodes: [twoNetworksPlan.nodeRange],
    pods: ["10.128.0.0/16"],
    services: [twoNetworksPlan.serviceRange],
    mapped: ["10.64.0.0/14"],
  },
};
/** A pod range that is added while everything runs; every node answers at one address of it. */
const addedRange = "10.128.128.0/24";
const addedAddress = "10.128.128.7";
const { etcdAddress } = overlappingPlan;

interface Site {
  readonly cluster: Cluster;
  readonly product: Product;
}

interface AddressMap {
  readonly real: string;
  readonly mapped: string;
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

void t.test(
  "a shoot with the ranges of its seed",
  { skip: skipUnlessRoot, timeout: 600_000 },
  async (t) => {
    const programs = await openPrograms({
      onProgress: ({ step }) => t.comment(`building ${step}`),
    });
    const lab = await openLab(overlappingNetworks({ name: "overlap" }));
    try {
      await captureTunnel(lab);
      const cluster = await openCluster(lab, {
        programs,
        site: overlappingSite,
        // A refusing route for the shoot's ranges would take the seed's own.
        noRoute: "silent",
      });
      await cluster.installAgentsIdentity();
      const product = await installProduct(cluster, {
        tunnelSpec: { seedAddresses: [{ name: "etcd", address: etcdAddress }] },
        controllerArguments: ["--seed-network", seedNetwork.metadata.name],
        gatewayArguments: ["--discover-pods", "app=web"],
      });
      await runParts(t, { cluster, product });
      await product.stop();
      await cluster.close();
    } catch (error) {
      t.comment(`evidence: ${await lab.evidence()}`);
      throw error;
    } finally {
      if (!t.passing()) t.comment(`evidence: ${await lab.evidence()}`);
      await lab.close();
    }
  },
);

async function runParts(t: Test, site: Site): Promise<void> {
  const { cluster, product } = site;
  const input = JSON.stringify(seedNetwork);
  await cluster.seed.kubectl.run(["apply", "-f", "-"], { input });
  await product.start();
  await t.test("every range of the tunnel has a map, and its status says so", (t) =>
    mapsArePublished(t, site),
  );
  await t.test("Prometheus finds and scrapes every node and pod at mapped addresses", (t) =>
    prometheusScrapes(t, site),
  );
  await t.test("the main job passes at real addresses", (t) => mainJobPasses(t, site));
  await t.test(
    "what the seed needs is kept out of the tunnel, and nothing else of its range",
    (t) => neededIsKeptOut(t, site),
  );
  await t.test("a range that is added gets a map, and nothing that was there moves", (t) =>
    rangeIsAdded(t, site),
  );
  await t.test("an address that both sides need is named, and the rest still works", (t) =>
    collisionIsNamed(t, site),
  );
  await t.test("a Tunnel that goes leaves no map, no rule, no route and no filter", (t) =>
    nothingIsLeft(t, site),
  );
}

async function mapsArePublished(t: Test, site: Site): Promise<void> {
  const maps = await waitFor("the Tunnel's status has maps", () => mapsOf(site.cluster), {
    timeoutMs: 30_000,
    intervalMs: 200,
  });
  t.same(
    maps.map(({ real }) => real),
    [
      twoNetworksPlan.podRange,
      twoNetworksPlan.nodeRange,
      twoNetworksPlan.serviceRange,
      "198.18.0.0/23",
    ],
  );
  t.match(await bridgedOf(site.cluster), { status: "True", reason: "Mapped" });
}

async function prometheusScrapes(t: Test, { cluster }: Site): Promise<void> {
  const { site, lab, programs, folder } = cluster;
  await cluster.prometheus.stop();
  const prometheus = await startPrometheus({
    namespace: lab.namespace(site.prometheus.machine),
    keys: cluster.shoot.keys,
    folder: join(folder, "prometheus-discovering"),
    logs: join(lab.dir, "log"),
    labpod: programs.labpod,
    kubelets: [],
    pods: [],
    discoveryUrl: "http://127.0.0.1:9446/discovery",
  });
  try {
    const wanted = site.nodes.length;
    const targets = await waitFor(
      "every target is up",
      async () => {
        const found = await prometheus.targets();
        const count = (job: string): number =>
          found.filter((target) => target.job === job && target.isUp).length;
        if (count("kubelet") === wanted && count("pod") === wanted) return found;
        throw new Error(`up: ${found.map(targetLine).join("; ") || "nothing is found"}`);
      },
      { timeoutMs: 60_000, intervalMs: 500 },
    );
    for (const { instance } of targets) t.match(instance, /^10\.6[4-7]\./u, instance);
  } finally {
    await prometheus.stop();
  }
}

const targetLine = ({ job, instance, isUp, lastError }: ScrapeTarget): string =>
  `${job} ${instance} ${isUp ? "up" : lastError}`;

/** All but the lines of the lab's own Prometheus, which was stopped. */
async function mainJobPasses(t: Test, { cluster }: Site): Promise<void> {
  await settleApis(cluster);
  const checks = mainJob(cluster, { copyMegabytes: 5 }).filter(
    ({ name }) => name !== "Prometheus targets",
  );
  for (const { name, outcome } of await runMainJob(checks, { inParallel: false })) {
    t.equal(outcome.kind, "passed", `${name}: ${JSON.stringify(outcome)}`);
  }
}

async function neededIsKeptOut(t: Test, { cluster, product }: Site): Promise<void> {
  const pod = cluster.lab.namespace(cluster.site.apiserver.machine);
  const way = async (address: string): Promise<string> =>
    (await pod.run(["ip", "route", "get", address])).stdout;
  t.match(await way(etcdAddress), /dev eth0/u);
  t.match(await way("172.28.2.8"), /dev xylem0/u);
  t.match(await way(cluster.site.seed.address), /dev eth0/u, "the seed's API, which nobody named");
  const report = await ping(pod, etcdAddress, { count: 3 });
  t.ok(report.received > 0, "the seed's own service answers");
  const filter = await pod.run(["sysctl", "-n", "net.ipv4.conf.eth0.rp_filter"]);
  t.equal(filter.stdout.trim(), "2", "clients of the seed are let in, whatever their address");
  const status = await product.gateways.apiserver.status();
  t.equal(status?.problem, null);
}

async function rangeIsAdded(t: Test, site: Site): Promise<void> {
  const { cluster } = site;
  const before = (await mapsOf(cluster)) ?? [];
  for (const { name } of cluster.site.nodes) {
    const where = ["ip", "address", "add", `${addedAddress}/32`, "dev", "lo"];
    await cluster.lab.namespace(name).run(where);
  }
  await patchTunnel(cluster, { ranges: { pods: [twoNetworksPlan.podRange, addedRange] } });
  const added = await waitFor(
    "the added range has a map",
    async () => (await mapsOf(cluster))?.find(({ real }) => real === addedRange) ?? null,
    { timeoutMs: 30_000, intervalMs: 200 },
  );
  const after = (await mapsOf(cluster)) ?? [];
  t.same(
    after.filter(({ real }) => real !== addedRange),
    before,
  );
  const mapped = added.mapped.replace(/\.0\/24$/u, ".7");
  const prometheus = cluster.lab.namespace(cluster.site.prometheus.machine);
  await waitFor(
    `${mapped} answers`,
    async () => (await ping(prometheus, mapped, { count: 1 })).received === 1 || null,
    { timeoutMs: 30_000, intervalMs: 100 },
  );
}

async function collisionIsNamed(t: Test, site: Site): Promise<void> {
  const { cluster } = site;
  const { kubectl } = cluster.shoot;
  await kubectl.run([
    "create",
    "service",
    "clusterip",
    "clash",
    `--clusterip=${etcdAddress}`,
    "--tcp=80",
  ]);
  const condition = await waitFor(
    "the condition Bridged is False",
    async () => {
      const found = await bridgedOf(cluster);
      return found?.status === "False" ? found : null;
    },
    { timeoutMs: 60_000, intervalMs: 200 },
  );
  t.equal(condition.reason, "AddressIsBoth");
  for (const part of [etcdAddress, "(etcd)", "Service default/clash", "proxy mode"]) {
    t.ok(condition.message.includes(part), condition.message);
  }
  const pod = cluster.lab.namespace(cluster.site.apiserver.machine);
  t.ok((await ping(pod, etcdAddress, { count: 3 })).received > 0, "the seed's is reached");
  await kubectl.run(["exec", "web-node1", "--", "true"], { timeoutMs: 10_000 });
  await kubectl.run(["delete", "service", "clash"]);
  await waitFor(
    "the condition Bridged is True again",
    async () => (await bridgedOf(cluster))?.status === "True" || null,
    { timeoutMs: 60_000, intervalMs: 200 },
  );
}

async function nothingIsLeft(t: Test, { cluster }: Site): Promise<void> {
  const { seed, site, lab } = cluster;
  await seed.kubectl.run(["delete", "tunnel", tunnelName, "-n", tunnelNamespace, "--timeout=60s"], {
    timeoutMs: 70_000,
  });
  const list = await seed.kubectl.run([
    "get",
    "addressmaps",
    seedNetwork.metadata.name,
    "-o",
    "json",
  ]);
  t.same(Object(JSON.parse(list.stdout)).spec.entries, []);
  const machines = [site.apiserver.machine, ...site.nodes.map(({ name }) => name)];
  for (const machine of machines) {
    const found = async (argv: readonly string[]): Promise<string> =>
      (await lab.namespace(machine).run(argv, { check: false })).stdout.trim();
    await waitFor(
      `nothing of the tunnel is on ${machine}`,
      async () => {
        const left = await Promise.all([
          found(["ip", "route", "show", "table", "all", "proto", "158"]),
          found(["nft", "list", "table", "inet", "xylem"]),
          found(["sh", "-c", "ip rule | grep 158"]),
        ]);
        if (left.every((text) => text === "")) return true;
        throw new Error(left.join("; "));
      },
      { timeoutMs: 60_000, intervalMs: 200 },
    );
    t.pass(machine);
  }
}

interface TunnelStatus {
  readonly conditions?: readonly Condition[];
  readonly addressMaps?: readonly AddressMap[];
}

async function statusOf({ seed }: Cluster): Promise<TunnelStatus> {
  const where = ["get", "tunnel", tunnelName, "-n", tunnelNamespace, "-o", "json"];
  const { status } = JSON.parse((await seed.kubectl.run(where)).stdout) as {
    readonly status?: TunnelStatus;
  };
  return status ?? {};
}

async function mapsOf(cluster: Cluster): Promise<readonly AddressMap[] | null> {
  return (await statusOf(cluster)).addressMaps ?? null;
}

async function bridgedOf(cluster: Cluster): Promise<Condition | undefined> {
  return (await statusOf(cluster)).conditions?.find(({ type }) => type === "Bridged");
}

async function patchTunnel({ seed }: Cluster, spec: object): Promise<void> {
  const patch = JSON.stringify({ spec });
  const where = ["patch", "tunnel", tunnelName, "-n", tunnelNamespace, "--type=merge", "-p", patch];
  await seed.kubectl.run(where);
}
