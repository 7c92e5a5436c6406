import t from "tap";
import type { Test } from "tap";
import { openLab } from "#netsim/lab/lab.ts";
import { runCommand } from "#netsim/lab/process.ts";
import { twoNetworks } from "#netsim/lab/two-networks.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import { openCluster } from "./cluster.ts";
import type { Cluster } from "./cluster.ts";
import { mainJob, runMainJob, say, settleApis } from "./main-job.ts";
import type { CheckResult } from "./main-job.ts";
import { openPrograms } from "./programs.ts";
import { asList, catchAllWebhook, webPod } from "./workloads.ts";

const isRoot = process.getuid?.() === 0;
const timeoutMs = 240_000;
t.setTimeout(timeoutMs);

t.test(
  "the main job needs a way to the shoot",
  { skip: isRoot ? false : "needs root" },
  async (t) => {
    const programs = await openPrograms({
      onProgress: ({ step }) => t.comment(`building ${step}`),
    });
    const lab = await openLab(twoNetworks({ name: "cluster-test" }));
    try {
      const onProgress = (step: string, ms: number): void =>
        t.comment(`${Math.round(ms)} ms: ${step}`);
      const cluster = await openCluster(lab, { programs, onProgress });
      try {
        await t.test("the built programs are found again", (t) => nothingToBuild(t, cluster));
        await t.test("kubectl is at hand in any shell of the machine", (t) => scripts(t, cluster));
        await t.test("the seed has no route to nodes, pods or services", (t) =>
          noRoute(t, cluster),
        );
        await t.test("without a route every check fails as networks fail", (t) =>
          wantFailure(t, cluster),
        );
        await cluster.plainRoutes.open();
        await settleApis(cluster);
        await t.test("with a plain route every check passes", (t) => wantSuccess(t, cluster));
        await t.test("a node's token carries the node's name", (t) => tokenNamesNode(t, cluster));
        await t.test("a node comes back after the plug was pulled", (t) =>
          nodeComesBack(t, cluster),
        );
        await t.test("the API server comes back with its data", (t) =>
          apiServerComesBack(t, cluster),
        );
        await catchAll(cluster, "create");
        await t.test("a catch-all webhook lets writes pass while it is reached", (t) =>
          write(t, cluster, true),
        );
        await cluster.plainRoutes.close();
        await t.test("a catch-all webhook stops all writes without a route", (t) =>
          write(t, cluster, false),
        );
        await catchAll(cluster, "delete");
        await t.test("when the route goes every check fails again", (t) => wantFailure(t, cluster));
      } finally {
        await cluster.close();
      }
    } catch (error) {
      t.comment(`evidence is in ${await lab.evidence()}`);
      throw error;
    } finally {
      if (!t.passing()) t.comment(`evidence is in ${await lab.evidence()}`);
      await lab.close();
    }
  },
);

async function nothingToBuild(t: Test, { programs }: Cluster): Promise<void> {
  const steps: string[] = [];
  const again = await openPrograms({ onProgress: ({ step }) => steps.push(step) });
  t.strictSame(again, programs);
  t.strictSame(steps, []);
}

async function scripts(t: Test, cluster: Cluster): Promise<void> {
  const nodes = await runCommand([cluster.scripts.shoot, "get", "node", "-o", "name"]);
  t.equal(nodes.stdout, "node/node1\nnode/node2\nnode/node3\n");
  const seed = await runCommand([
    cluster.scripts.seed,
    "get",
    "namespace",
    "default",
    "-o",
    "name",
  ]);
  t.equal(seed.stdout, "namespace/default\n");
}

async function noRoute(t: Test, cluster: Cluster): Promise<void> {
  const [node] = cluster.site.nodes;
  const jsonpath = "jsonpath={.items[0].status.podIP}";
  const web = await cluster.shoot.kubectl.run(["get", "pod", "-l", "app=web", "-o", jsonpath]);
  const places = [
    `${node?.address}:10250`,
    `${web.stdout}:8080`,
    `${cluster.site.serviceAddress}:443`,
  ];
  for (const machine of ["seed", "apiserver", "prometheus"]) {
    for (const place of places) {
      const argv = [cluster.programs.labpod, "get", "-timeout", "3s", `https://${place}/`];
      const { code, stderr } = await cluster.lab.namespace(machine).run(argv, { check: false });
      t.not(code, 0);
      t.match(stderr, /network is unreachable|no route to host/, `${machine} to ${place}`);
    }
  }
}

async function wantFailure(t: Test, cluster: Cluster): Promise<void> {
  const results = await runMainJob(mainJob(cluster), { inParallel: true });
  for (const result of results) {
    t.comment(describe(result));
    t.equal(result.outcome.kind, "network-failure", describe(result));
  }
}

async function wantSuccess(t: Test, cluster: Cluster): Promise<void> {
  const results = await runMainJob(mainJob(cluster), { inParallel: false });
  for (const result of results) {
    t.comment(describe(result));
    t.equal(result.outcome.kind, "passed", describe(result));
  }
}

async function nodeComesBack(t: Test, cluster: Cluster): Promise<void> {
  const { kubectl } = cluster.shoot;
  const pod = webPod("node3");
  const started = [
    "get",
    "pod",
    pod,
    "-o",
    "jsonpath={.status.containerStatuses[0].state.running.startedAt}",
  ];
  const before = (await kubectl.run(started)).stdout;
  await cluster.restartNode("node3");
  const look = async (): Promise<boolean> => {
    const now = (await kubectl.run(started)).stdout;
    if (now === before || now === "") throw new Error(`its container was started at ${now}`);
    return (await kubectl.run(["exec", pod, "--", "hostname"])).stdout.trim() === pod;
  };
  await waitFor("the node's pod runs again", look, { timeoutMs: 60_000, intervalMs: 500 });
  await say(cluster, { node: "node3", line: "I am back" });
  const log = await kubectl.run(["logs", pod, "--tail=1"]);
  t.equal(log.stdout.trim(), "I am back");
}

async function apiServerComesBack(t: Test, cluster: Cluster): Promise<void> {
  await cluster.shoot.restartApiServer();
  const nodes = await cluster.shoot.kubectl.run(["get", "node", "-o", "name"]);
  t.equal(nodes.stdout.trim().split("\n").length, cluster.site.nodes.length);
  const exec = await cluster.shoot.kubectl.run(["exec", webPod("node1"), "--", "hostname"]);
  t.equal(exec.stdout.trim(), webPod("node1"));
}

async function catchAll(cluster: Cluster, verb: "create" | "delete"): Promise<void> {
  const input = asList(catchAllWebhook(cluster.shoot.keys));
  await cluster.shoot.kubectl.run([verb, "-f", "-"], { input });
}

async function write(t: Test, cluster: Cluster, isWanted: boolean): Promise<void> {
  const args = ["create", "configmap", `write-${isWanted}`];
  const { code, stderr } = await cluster.shoot.kubectl.run(args, { check: false });
  if (isWanted) t.equal(code, 0, stderr);
  else t.match(stderr, /failed calling webhook "all.example.com"/);
}

async function tokenNamesNode(t: Test, cluster: Cluster): Promise<void> {
  await cluster.installAgentsIdentity();
  await cluster.installAgentsIdentity();
  const token = await cluster.nodeToken("node2");
  const claims = Buffer.from(token.split(".")[1] ?? "", "base64url").toString();
  t.match(JSON.parse(claims), { "kubernetes.io": { node: { name: "node2" } } });
  const server = cluster.shoot.servers.public;
  const kubeconfig = await cluster.shoot.keys.kubeconfig({
    name: "agent-node2",
    server,
    user: { kind: "token", token },
  });
  const whoAmI = ["auth", "whoami", "-o", "json", "--kubeconfig", kubeconfig];
  const argv = [cluster.programs.hyperkube, "kubectl", ...whoAmI];
  const { stdout } = await cluster.machine("node2").run(argv);
  t.match(JSON.parse(stdout), {
    status: {
      userInfo: {
        username: "system:serviceaccount:kube-system:xylem-agent",
        extra: { "authentication.kubernetes.io/node-name": ["node2"] },
      },
    },
  });
}

function describe({ name, durationMs, outcome }: CheckResult): string {
  const text = outcome.kind === "passed" ? outcome.evidence : outcome.error;
  const [first = ""] = text.trim().split("\n").slice(-1);
  return `${name}: ${outcome.kind} after ${Math.round(durationMs)} ms: ${first.slice(0, 300)}`;
}
