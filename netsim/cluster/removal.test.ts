/** A Tunnel is deleted on real Kubernetes: nothing of it is left in either cluster or on any machine, and a new one works. */

import { join } from "node:path";
import t, { type Test } from "tap";
import { skipUnlessRoot } from "#netsim/lab/tunnel-test.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import { tunnelName, tunnelNamespace } from "./product.ts";
import { execIn, type TunnelCluster, withTunnelCluster } from "./tunnel-cluster.ts";

void t.test("removal of a Tunnel", { skip: skipUnlessRoot, timeout: 300_000 }, (t) =>
  withTunnelCluster(t, "removal", async (site) => {
    await site.product.start();
    t.ok((await execIn(site.cluster, "node1")) > 0);
    await t.test("the status tells the last handshake", (t) => handshakeIsTold(t, site));
    await t.test("xylem status tells what the seed knows", (t) => statusIsPrinted(t, site, 0));
    const key = await publishedKey(site);
    const spec = JSON.stringify(JSON.parse(await seedGet(site, ["-o", "json", ...TUNNEL])).spec);
    await t.test("a deleted Tunnel leaves nothing in the seed and in the shoot", (t) =>
      objectsGo(t, site),
    );
    await t.test("gateways and agents go on, hold nothing, and say why", (t) =>
      endsAreEmpty(t, site),
    );
    await t.test("a Tunnel made anew works, with new keys", async (t) => {
      await worksAnew(t, site, spec);
      t.not(await publishedKey(site), key);
    });
    await t.test("force-delete leaves the shoot as it is", (t) => forceLeavesShoot(t, site));
  }),
);

const TUNNEL = ["tunnel", tunnelName];
const GATEWAYS = ["tunnelgateways", "xylem", "-n", "kube-system", "--ignore-not-found"];

/** `kubectl get` in the tunnel's namespace of the seed. */
const seedGet = async ({ cluster }: TunnelCluster, args: readonly string[]): Promise<string> =>
  (await cluster.seed.kubectl.run(["get", "-n", tunnelNamespace, ...args])).stdout;

const isAbsent = async (site: TunnelCluster, args: readonly string[]): Promise<boolean> =>
  (await seedGet(site, ["--ignore-not-found", "-o", "name", ...args])).trim() === "";

const ourLeases = ["leases", "-l", `xylem.dev/tunnel=${tunnelName}`];

const handshakeIsTold = async (t: Test, site: TunnelCluster): Promise<void> => {
  const told = await waitFor("the Tunnel's status has a last handshake", async () => {
    const text = await seedGet(site, [...TUNNEL, "-o", "jsonpath={.status.lastHandshake}"]);
    return text === "" ? null : text;
  });
  const ageMs = Date.now() - Date.parse(told);
  t.ok(ageMs > -2_000 && ageMs < 60_000, `${told} is ${ageMs} ms ago`);
};

/** Runs the command line tool as an operator of the seed does. */
const statusIsPrinted = async (
  t: Test,
  { cluster }: TunnelCluster,
  want: number,
): Promise<void> => {
  const { kubeconfig } = cluster.seed.kubectl;
  const script = join(import.meta.dirname, "../../dist/xylem.js");
  const { code, stdout, stderr } = await cluster.lab
    .namespace(cluster.site.seed.machine)
    .run([process.execPath, script, "status", "--kubeconfig", kubeconfig], { check: false });
  t.equal(code, want, stdout + stderr);
  if (want !== 0) return;
  t.match(stdout, /shoot--lab--alpha\s+alpha\s+True\s+Paired\s+2\s+3\/3\s+20\d\d-/);
  t.match(stdout, /slot \d+: apiserver-0 at 198\.18\./);
};

/** The public key of slot 0, as agents are told it. */
const publishedKey = async ({ cluster }: TunnelCluster): Promise<string> => {
  const where = ["-o", "jsonpath={.spec.slots[0].publicKey}"];
  const { stdout } = await cluster.shoot.kubectl.run(["get", ...GATEWAYS, ...where]);
  return stdout;
};

const deleteTunnel = async ({ cluster }: TunnelCluster): Promise<void> => {
  await cluster.seed.kubectl.run(["delete", ...TUNNEL, "-n", tunnelNamespace, "--timeout=20s"]);
};

const objectsGo = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster } = site;
  t.equal((await seedGet(site, [...ourLeases, "-o", "name"])).trim().split("\n").length, 2);
  await deleteTunnel(site);
  const { stdout } = await cluster.shoot.kubectl.run(["get", ...GATEWAYS, "-o", "name"]);
  t.equal(stdout.trim(), "", "TunnelGateways went before the Tunnel did");
  await waitFor("the slots' Leases are gone", () => isAbsent(site, ourLeases));
  await waitFor(
    "the Secret is collected",
    () => isAbsent(site, ["secret", `${tunnelName}-xylem`]),
    // The garbage collector learns of new kinds every half a minute.
    { timeoutMs: 60_000 },
  );
  await statusIsPrinted(t, site, 1);
  const agents = await cluster.shoot.kubectl.run(["get", "tunnelagents", "-A", "-o", "name"]);
  t.equal(agents.stdout.trim().split("\n").length, 3, "the agents' registrations stay");
};

const endsAreEmpty = async (t: Test, { cluster, product }: TunnelCluster): Promise<void> => {
  const ends = [
    ...Object.entries(product.gateways).map(([name, program]) => ({
      machine: name,
      program,
      want: new RegExp(`Tunnel ${tunnelNamespace}/${tunnelName} does not exist in the seed`),
    })),
    ...[...product.agents].map(([machine, program]) => ({
      machine,
      program,
      want: /TunnelGateways kube-system\/xylem does not exist: nothing of a tunnel is left/,
    })),
  ];
  for (const { machine, program, want } of ends) {
    const said = await waitFor(`${program.name} says why`, async () => {
      const problem = (await program.status())?.problem ?? "";
      if (!want.test(problem)) throw new Error(problem);
      return problem;
    });
    t.match(said, want);
    t.ok(program.isRunning());
    const namespace = cluster.lab.namespace(machine);
    const run = async (...argv: readonly string[]): Promise<string> =>
      (await namespace.run(argv, { check: false })).stdout;
    t.notMatch(await run("ip", "-brief", "link"), /xylem0/, `${machine}: no interface`);
    t.equal((await run("ip", "route", "show", "table", "all", "proto", "158")).trim(), "");
    t.notMatch(await run("nft", "list", "tables"), /inet xylem/, `${machine}: no filter`);
  }
};

const worksAnew = async (t: Test, site: TunnelCluster, spec: string): Promise<void> => {
  const metadata = { namespace: tunnelNamespace, name: tunnelName };
  const object = { apiVersion: "xylem.dev/v1alpha1", kind: "Tunnel", metadata };
  const input = JSON.stringify({ ...object, spec: JSON.parse(spec) });
  await site.cluster.seed.kubectl.run(["apply", "-f", "-"], { input });
  await Promise.all(site.product.all.map((program) => program.ready()));
  t.ok((await execIn(site.cluster, "node2")) > 0, "exec works");
};

const forceLeavesShoot = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { seed, shoot } = site.cluster;
  const where = [...TUNNEL, "-n", tunnelNamespace];
  await seed.kubectl.run(["annotate", ...where, "xylem.dev/force-delete=true"]);
  await deleteTunnel(site);
  const { stdout } = await shoot.kubectl.run(["get", ...GATEWAYS, "-o", "name"]);
  t.match(stdout, /tunnelgateways/, "TunnelGateways is still there");
  await waitFor("the slots' Leases are gone", () => isAbsent(site, ourLeases));
};
