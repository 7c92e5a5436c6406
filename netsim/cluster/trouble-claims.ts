/** TunnelAgents in dispute: two claims of one id, a stolen id, a lost claim, another key under the same name. */

import { randomBytes } from "node:crypto";
import type { Test } from "tap";
import { waitFor } from "#netsim/lab/wait.ts";
import type { ProductProgram } from "./product.ts";
import { gatherSecrets, type Secret } from "./secret-search.ts";
import { execIn, type TunnelCluster } from "./tunnel-cluster.ts";

/** What `/status` of a gateway or agent reports, one message a line. */
export const findingsOf = async (program: ProductProgram): Promise<string> =>
  ((await program.status())?.findings ?? []).map(({ message }) => message).join("\n");

/** The agent of a node that has one. */
export const agentOf = ({ product }: TunnelCluster, node: string): ProductProgram => {
  const agent = product.agents.get(node);
  if (agent === undefined) throw new Error(`there is no agent on ${node}`);
  return agent;
};

/** Makes a TunnelAgent of a node that does not exist, as an administrator could. */
const claimAs = async (site: TunnelCluster, name: string, agentId: number): Promise<void> => {
  const object = {
    apiVersion: "xylem.dev/v1alpha1",
    kind: "TunnelAgent",
    metadata: { namespace: "kube-system", name },
    spec: { publicKey: randomBytes(32).toString("base64"), agentId, port: 51_820 },
  };
  await site.cluster.shoot.kubectl.run(["create", "-f", "-"], { input: JSON.stringify(object) });
};

const unclaim = async (site: TunnelCluster, name: string): Promise<void> => {
  await site.cluster.shoot.kubectl.run(["delete", "tunnelagent", name, "-n", "kube-system"]);
};

/** A second claim of an id is ignored and reported; an agent that comes later takes another id. */
export const wantOlderClaimStanding = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster, product } = site;
  const gateway = product.gateways.apiserver;
  const messages = (): Promise<string> => findingsOf(gateway);
  const id = (await agentOf(site, "node1").status())?.agentId ?? 0;
  await claimAs(site, "ghost", id);
  const said = await waitFor("the gateway reports the second claim", async () => {
    const text = await messages();
    return text.includes("TunnelAgent ghost") ? text : null;
  });
  t.match(said, `TunnelAgent ghost claims agent id ${id}, which the older TunnelAgent node1 holds`);
  t.ok((await execIn(cluster, "node1")) > 0, "the older claim's node works");
  await unclaim(site, "ghost");
  await waitFor(
    "the report goes with its object",
    async () => !(await messages()).includes("ghost"),
  );

  const agent = agentOf(site, "node3");
  const theirs = (await agent.status())?.agentId ?? 0;
  await agent.stop();
  await unclaim(site, "node3");
  await claimAs(site, "elder", theirs);
  agent.start();
  await agent.ready();
  const now = (await agent.status())?.agentId;
  t.not(now, theirs, `the younger claim took another id: ${now} instead of ${theirs}`);
  await waitFor(
    "the node works under its new id",
    async () => (await execIn(cluster, "node3")) > 0,
  );
  await unclaim(site, "elder");
};

/** A node loses its key, as one that is made anew does; the gateways follow without a restart. */
export const wantNewKeyWorking = async (
  t: Test,
  site: TunnelCluster,
  secrets: Secret[],
): Promise<void> => {
  const { cluster, product } = site;
  const node = "node2";
  const gateways = Object.values(product.gateways);
  const pids = gateways.map((gateway) => gateway.pid());
  const keyOf = async (gateway: ProductProgram): Promise<string | undefined> => {
    const nodes = Object.entries((await gateway.status())?.nodes ?? {});
    return nodes.find(([, name]) => name === node)?.[0];
  };
  const peersOf = async (gateway: ProductProgram): Promise<readonly string[]> =>
    (await gateway.status())?.device?.peers.map(({ publicKey }) => publicKey) ?? [];
  const [gateway] = gateways;
  if (gateway === undefined) throw new Error("there is no gateway");
  const old = await keyOf(gateway);
  const agent = agentOf(site, node);
  await agent.stop();
  await cluster.machine(node).run(["rm", "/var/lib/xylem/agent.key"]);
  agent.start();
  await agent.ready();
  for (const each of gateways) {
    const peers = await waitFor(`${each.name} has the new peer and not the old one`, async () => {
      const [key, peers] = await Promise.all([keyOf(each), peersOf(each)]);
      const isNew = key !== undefined && key !== old && peers.includes(key);
      return isNew && !peers.includes(old ?? "") ? peers : null;
    });
    t.equal(peers.length, cluster.site.nodes.length, `${each.name} has one peer a node`);
  }
  await waitFor("exec works", async () => (await execIn(cluster, node)) > 0);
  t.same(
    gateways.map((each) => each.pid()),
    pids,
    "no gateway was restarted",
  );
  secrets.push(...(await gatherSecrets(cluster)));
};

const where = ["-n", "kube-system"];

/** The name of the oldest TunnelAgent, as everybody orders them: by age, then by UID. */
const oldestOf = async ({ cluster }: TunnelCluster): Promise<string> => {
  const { stdout } = await cluster.shoot.kubectl.run([
    "get",
    "tunnelagents",
    ...where,
    "-o",
    "json",
  ]);
  const { items } = JSON.parse(stdout) as {
    items: { metadata: { name: string; creationTimestamp: string; uid: string } }[];
  };
  const age = ({ metadata }: (typeof items)[number]) => metadata.creationTimestamp + metadata.uid;
  const [oldest] = items.toSorted((a, b) => (age(a) < age(b) ? -1 : 1));
  return oldest?.metadata.name ?? "";
};

/** Root on the oldest node claims another's id, as its token allows: that agent steps aside while it runs. */
export const wantStolenIdReplaced = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster } = site;
  const thief = await oldestOf(site);
  const [victim = ""] = cluster.site.nodes.map(({ name }) => name).filter((name) => name !== thief);
  const agent = agentOf(site, victim);
  const stolen = (await agent.status())?.agentId ?? 0;
  await agentOf(site, thief).stop();
  const patch = JSON.stringify({ spec: { agentId: stolen } });
  await cluster.shoot.kubectl.run([
    ...["--kubeconfig", cluster.shoot.keys.file(`xylem-agent-${thief}.conf`)],
    ...["--server", cluster.shoot.servers.private],
    ...["patch", "tunnelagent", thief, ...where, "--type=merge", "-p", patch],
  ]);
  const now = await waitFor(`the agent of ${victim} has another id`, async () => {
    const status = await agent.status();
    return status?.agentId !== stolen && status?.problem === null ? status.agentId : null;
  });
  await waitFor("exec works under the new id", async () => (await execIn(cluster, victim)) > 0);
  t.pass(`${victim} has id ${now} instead of ${stolen}, which ${thief} took`);
  agentOf(site, thief).start();
  await agentOf(site, thief).ready();
  await waitFor("exec works on the other too", async () => (await execIn(cluster, thief)) > 0);
};

/** The object is the agent's claim: while it runs, it makes it anew. */
export const wantDeletedClaimBack = async (t: Test, site: TunnelCluster): Promise<void> => {
  const node = "node1";
  const { publicKey } = (await agentOf(site, node).status()) as unknown as { publicKey: string };
  await unclaim(site, node);
  const path = "jsonpath={.spec.publicKey}";
  const { stdout } = await waitFor("the claim is back", () =>
    site.cluster.shoot.kubectl.run(["get", "tunnelagent", node, ...where, "-o", path]),
  );
  t.equal(stdout, publicKey, "with the same key");
  await waitFor("exec works", async () => (await execIn(site.cluster, node)) > 0);
};
