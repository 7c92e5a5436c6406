/** What goes wrong around a tunnel on real Kubernetes: a locking webhook, bad input, lacking machines, strangers. */

import { randomBytes } from "node:crypto";
import t, { type Test } from "tap";
import { skipUnlessRoot } from "#netsim/lab/tunnel-test.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import { tunnelName, tunnelNamespace } from "./product.ts";
import { findSecrets, gatherSecrets, readLogsAndArguments, type Secret } from "./secret-search.ts";
import {
  agentOf,
  findingsOf,
  wantDeletedClaimBack,
  wantNewKeyWorking,
  wantOlderClaimStanding,
  wantStolenIdReplaced,
} from "./trouble-claims.ts";
import {
  wantGatewaySentence,
  wantLackSentences,
  wantPortSentence,
  wantSecondInstanceHarmless,
} from "./trouble-host.ts";
import { wantKubeconfigSentences, wantShootSentence } from "./trouble-kubeconfig.ts";
import { wantRefusedTunnels, wantLastGoodKept, wantDuplicateRefused } from "./trouble-tunnel.ts";
import { execIn, touchTunnel, type TunnelCluster, withTunnelCluster } from "./tunnel-cluster.ts";
import { asList, catchAllWebhook, guardedNamespace, webhookRefusal } from "./workloads.ts";

void t.test("trouble around a tunnel", { skip: skipUnlessRoot, timeout: 400_000 }, (t) =>
  withTunnelCluster(
    t,
    "trouble",
    async (site) => {
      await site.product.start();
      const secrets = [...(await gatherSecrets(site.cluster))];
      await t.test("S3 a webhook that refuses every write locks nobody out", (t) =>
        webhookLocksNothing(t, site),
      );
      await t.test(
        "S3 a deleted TunnelGateways comes back though a webhook in the shoot must allow it",
        (t) => lostGatewaysComeBack(t, site),
      );
      await t.test("T30 an agent's token writes its own node's TunnelAgent and no other", (t) =>
        strangersAreRefused(t, site),
      );
      await t.test("a bad Tunnel is refused with the field and the fix", (t) =>
        wantRefusedTunnels(t, site),
      );
      await t.test("a Tunnel that turns bad keeps working as it was, and says why", (t) =>
        wantLastGoodKept(t, site),
      );
      await t.test("a deleted master secret is made anew, and the tunnel follows", (t) =>
        masterIsMadeAnew(t, site, secrets),
      );
      await t.test("an API server that is away is a finding, and the tunnel works on", (t) =>
        awayIsAFinding(t, site),
      );
      await t.test("a duplicate transit address is refused", (t) => wantDuplicateRefused(t, site));
      await t.test("a wrong kubeconfig is a sentence, and a right one is enough", (t) =>
        wantKubeconfigSentences(t, site),
      );
      await t.test("a shoot that refuses the controller is a condition of the Tunnel", (t) =>
        wantShootSentence(t, site),
      );
      await t.test("W26 of two claims of an agent id the older stands", (t) =>
        wantOlderClaimStanding(t, site),
      );
      await t.test("W26 an agent whose id an older claim takes picks another and works on", (t) =>
        wantStolenIdReplaced(t, site),
      );
      await t.test("a TunnelAgent that somebody deletes comes back by itself", (t) =>
        wantDeletedClaimBack(t, site),
      );
      await t.test("a second agent on a node harms nobody", (t) =>
        wantSecondInstanceHarmless(t, site),
      );
      await t.test("W27 a node made anew with another key works, and its old peer is gone", (t) =>
        wantNewKeyWorking(t, site, secrets),
      );
      await t.test("a taken UDP port is a sentence that names its holder", (t) =>
        wantPortSentence(t, site),
      );
      await t.test(
        "a machine that lacks something is a sentence, and nothing is half applied",
        (t) => wantLackSentences(t, site),
      );
      await t.test("a gateway without NET_ADMIN says so, and nothing is half applied", (t) =>
        wantGatewaySentence(t, site),
      );
      await t.test(
        "S4 no key and no token is in a log, a status, a metric or a command line",
        (t) => nothingLeaks(t, site, secrets),
      );
    },
    { logLevel: "debug" },
  ),
);

const ourObjects = async ({ cluster }: TunnelCluster): Promise<string> => {
  const path = "jsonpath={range .items[*]}{.metadata.name}={.metadata.resourceVersion} {end}";
  const what = ["get", "tunnelagents,tunnelgateways", "-n", "kube-system", "-o", path];
  return (await cluster.shoot.kubectl.run(what)).stdout;
};

const configMap = (
  labels: Readonly<Record<string, string>>,
  namespace = guardedNamespace,
): string => {
  const metadata = { generateName: "trouble-", namespace, labels };
  return JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata });
};

const webhookLocksNothing = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster, product } = site;
  const { kubectl } = cluster.shoot;
  const before = await ourObjects(site);
  await kubectl.run(["create", "-f", "-"], { input: asList(catchAllWebhook(cluster.shoot.keys)) });
  await Promise.all(product.all.map((program) => program.stop("SIGKILL")));
  const write = (labels: Readonly<Record<string, string>>) =>
    kubectl.run(["create", "-f", "-"], { input: configMap(labels), check: false });
  await Promise.all([cluster.shoot.restartApiServer(), cluster.seed.restartApiServer()]);
  const locked = await waitFor("the webhook locks the cluster", async () => {
    // Not in the guarded namespace, which has a webhook of its own.
    const input = configMap({}, "default");
    const { stderr } = await kubectl.run(["create", "-f", "-"], { input, check: false });
    return stderr.includes("failed calling webhook") ? stderr : null;
  });
  t.match(locked, /all\.example\.com/, "nothing can be written while there is no tunnel");
  // As after a power cut: the API server and its gateway start at the same time.
  const restarted = cluster.shoot.restartApiServer().then(() => performance.now());
  await product.start();
  const readyMs = performance.now();
  t.pass(`ready ${(readyMs - (await restarted)).toFixed(0)} ms after the API server`);
  const { stdout } = await waitFor(
    "the webhook's pod lets a write in",
    async () => {
      const result = await write({});
      if (result.code !== 0) throw new Error(result.stderr);
      return result;
    },
    { timeoutMs: 15_000 },
  );
  t.match(stdout, /created/);
  t.match((await write({ deny: "yes" })).stderr, webhookRefusal, "and keeps another one out");
  t.equal(await ourObjects(site), before, "nothing of ours was written in the shoot");
  await kubectl.run(["delete", "validatingwebhookconfiguration", "catch-all"]);
};

const lostGatewaysComeBack = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster } = site;
  const { kubectl } = cluster.shoot;
  const object = ["tunnelgateways", "xylem", "-n", "kube-system"];
  await kubectl.run(["create", "-f", "-"], { input: asList(catchAllWebhook(cluster.shoot.keys)) });
  try {
    await kubectl.run(["delete", ...object]);
    const said = await waitFor("the agent says what it misses", async () => {
      const text = await findingsOf(agentOf(site, "node1"));
      return text.includes("TunnelGateways") ? text : null;
    });
    t.pass(said);
    t.ok((await execIn(cluster, "node1")) > 0, "the tunnel works on");
    await touchTunnel(cluster);
    await waitFor("the controller made it anew", () => kubectl.run(["get", ...object]));
    for (const { name } of cluster.site.nodes)
      await waitFor(`exec works on ${name}`, async () => (await execIn(cluster, name)) > 0);
    t.equal((await agentOf(site, "node1").status())?.problem, null, "the agent is ready");
  } finally {
    await kubectl.run(["delete", "validatingwebhookconfiguration", "catch-all"]);
  }
};

const strangersAreRefused = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { shoot } = site.cluster;
  const before = await ourObjects(site);
  const unbound = await shoot.kubectl.run(["create", "token", "xylem-agent", "-n", "kube-system"]);
  const anyone = await shoot.kubectl.run(["create", "token", "default", "-n", "default"]);
  const kubeconfigOf = (name: string, token: string): Promise<string> =>
    shoot.keys.kubeconfig({
      name,
      server: shoot.servers.private,
      user: { kind: "token", token: token.trim() },
    });
  const [agentless, stranger] = await Promise.all([
    kubeconfigOf("agent-without-node", unbound.stdout),
    kubeconfigOf("stranger", anyone.stdout),
  ]);
  const patch = (kubeconfig: string, node: string, change: object) =>
    shoot.kubectl.run(
      [
        ...["--kubeconfig", kubeconfig, "--server", shoot.servers.private],
        ...["patch", "tunnelagent", node, "-n", "kube-system", "--type=merge"],
        ...["-p", JSON.stringify(change)],
      ],
      { check: false },
    );
  const newKey = { spec: { publicKey: randomBytes(32).toString("base64") } };
  const node1 = shoot.keys.file("xylem-agent-node1.conf");
  const refusals = [
    {
      name: "another node's",
      result: await patch(node1, "node2", newKey),
      want: /the agent of node node1 may not write TunnelAgent node2/,
    },
    {
      name: "without a node",
      result: await patch(agentless, "node1", newKey),
      want: /the token names no node: agents need a service account token that is bound/,
    },
    {
      name: "any pod's token",
      result: await patch(stranger, "node1", newKey),
      want: /system:serviceaccount:default:default" cannot (get|patch) resource "tunnelagents"/,
    },
    {
      name: "another owner",
      result: await patch(node1, "node1", {
        metadata: {
          ownerReferences: [{ apiVersion: "v1", kind: "Node", name: "node2", uid: "1" }],
        },
      }),
      want: /a TunnelAgent is owned by its own Node and nothing else/,
    },
  ];
  for (const { name, result, want } of refusals) {
    t.not(result.code, 0, `${name}: refused`);
    t.match(result.stderr, want, name);
  }
  t.equal(await ourObjects(site), before, "nothing was written");
};

const masterIsMadeAnew = async (t: Test, site: TunnelCluster, secrets: Secret[]): Promise<void> => {
  const { cluster, product } = site;
  const gateway = product.gateways.apiserver;
  const before = await ourObjects(site);
  await product.controller.stop();
  const secret = ["secret", `${tunnelName}-xylem`, "-n", tunnelNamespace];
  await cluster.seed.kubectl.run(["delete", ...secret]);
  const said = await waitFor("the gateway says that its Secret is gone", async () => {
    const text = await findingsOf(gateway);
    return text.includes("does not exist yet") ? text : null;
  });
  t.match(
    said,
    /Secret shoot--lab--alpha\/alpha-xylem does not exist yet: the controller makes it/,
  );
  t.equal((await gateway.status())?.problem, null, "the gateway is ready with the key that it has");
  t.ok((await execIn(cluster, "node1")) > 0, "exec works");
  product.controller.start();
  await waitFor("the shoot is told of new keys", async () => (await ourObjects(site)) !== before);
  await waitFor("exec works with the new keys", async () => (await execIn(cluster, "node1")) > 0, {
    timeoutMs: 20_000,
  });
  await Promise.all(Object.values(product.gateways).map((each) => each.ready()));
  t.notMatch(await findingsOf(gateway), /Secret/);
  secrets.push(...(await gatherSecrets(cluster)));
};

const awayIsAFinding = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster, product } = site;
  const gateway = product.gateways.apiserver;
  const agent = agentOf(site, "node1");
  const restarted = cluster.shoot.restartApiServer();
  const want = /what is known of the (shoot's )?API server may be old, .*: https:\/\/\S+: watch/;
  for (const program of [gateway, agent]) {
    const said = await waitFor(`${program.name} says that the API server is away`, async () => {
      const text = await findingsOf(program);
      return want.test(text) ? text : null;
    });
    t.pass(`${program.name}: ${said}`);
    t.equal((await program.status())?.problem, null, `${program.name} is ready`);
  }
  await restarted;
  for (const program of [gateway, agent]) {
    await waitFor(
      `${program.name} hears the API server again`,
      async () => !(await findingsOf(program)).includes("may be old"),
      { timeoutMs: 35_000 },
    );
  }
  t.ok((await execIn(cluster, "node1")) > 0, "exec works");
};

const nothingLeaks = async (
  t: Test,
  site: TunnelCluster,
  secrets: readonly Secret[],
): Promise<void> => {
  const { cluster, product } = site;
  const spoken = await Promise.all(
    product.all.flatMap((program) => [
      program.status().then((status) => ({
        name: `${program.name}'s status`,
        text: JSON.stringify(status),
      })),
      program.metric("").then((text) => ({ name: `${program.name}'s metrics`, text })),
    ]),
  );
  const places = [...spoken, ...(await readLogsAndArguments(cluster))];
  const bytes = places.reduce((sum, { text }) => sum + text.length, 0);
  t.ok(secrets.length > 80, `${secrets.length} secrets are looked for`);
  t.ok(bytes > 100_000, `in ${places.length} places of ${bytes} bytes`);
  const [first] = secrets;
  const decoy = { name: "decoy", text: `key=${first?.texts[0]}=` };
  t.ok(findSecrets(secrets, [decoy]).length > 0, "the search finds what is there");
  t.same(findSecrets(secrets, places), []);
};
