/** Wrong kubeconfigs for each program of the product: what they say, that they live, and that a mended file is enough. */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Test } from "tap";
import { parse, stringify } from "yaml";
import { waitFor } from "#netsim/lab/wait.ts";
import type { ControlPlane } from "./control-plane.ts";
import { startTroubled, type TroubledProgram } from "./troubled-program.ts";
import { tunnelName, tunnelNamespace } from "./product.ts";
import type { TunnelCluster } from "./tunnel-cluster.ts";

interface Kubeconfig {
  readonly clusters: readonly [{ readonly cluster: Record<string, string> }];
  readonly users: readonly [{ readonly user: Record<string, string> }];
}

interface Flaw {
  readonly name: string;
  /** The text of the wrong file; null: there is none. */
  readonly text: (good: Kubeconfig) => string | null;
  readonly says: RegExp;
}

const unknownPort = 7443;

/** What can be wrong with a kubeconfig; `otherAuthority` is a certificate, in base64, of somebody else. */
const flawsOf = (otherAuthority: string): readonly Flaw[] => [
  {
    name: "missing",
    text: () => null,
    says: /Kubeconfig \S+missing\S* can't be read \(ENOENT\); check/,
  },
  {
    name: "broken",
    text: () => "clusters: [}{",
    says: /Kubeconfig \S+broken\S* is neither YAML nor JSON; write it again/,
  },
  {
    name: "unknown-server",
    text: (good) => withCluster(good, { server: `https://127.0.0.1:${unknownPort}` }),
    says: /https:\/\/127\.0\.0\.1:7443: .*the connection was refused; is the API server running/,
  },
  {
    name: "no-way",
    text: (good) => withCluster(good, { server: "https://172.20.9.99:6443" }),
    says: /https:\/\/172\.20\.9\.99:6443: .*there is no route to the server; check its address/,
  },
  {
    name: "wrong-authority",
    text: (good) => withCluster(good, { "certificate-authority-data": otherAuthority }),
    says: /https:\S+: .*certificate is not signed by the certificate-authority of the kubeconfig/,
  },
  {
    name: "bad-token",
    text: (good) => {
      const [{ user }] = good.users;
      return stringify({
        ...good,
        users: [{ ...good.users[0], user: { ...user, token: "stale" } }],
      });
    },
    says: /the credentials of kubeconfig \S+bad-token\S* are refused \(Unauthorized\): renew/,
  },
];

const withCluster = (good: Kubeconfig, change: Record<string, string>): string =>
  stringify({
    ...good,
    clusters: [{ ...good.clusters[0], cluster: { ...good.clusters[0].cluster, ...change } }],
  });

interface Victim {
  readonly flaw: Flaw;
  readonly program: TroubledProgram;
  readonly file: string;
  readonly good: string;
  /** What it says once its file is right. */
  readonly thenSays: RegExp;
}

interface Kind {
  readonly script: "gateway" | "agent" | "controller";
  readonly good: Kubeconfig;
  /** The certificate, in base64, of an authority that signed nothing of its server. */
  readonly otherAuthority: string;
  readonly args: (file: string) => readonly string[];
  readonly thenSays: RegExp;
}

/** Every flaw with every program at once: they share nothing but the machine of the seed. */
export const wantKubeconfigSentences = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster } = site;
  const kinds = await kindsOf(site);
  let statusPort = 19_500;
  const victims = await Promise.all(
    kinds.flatMap((kind) =>
      flawsOf(kind.otherAuthority).map(async (flaw): Promise<Victim> => {
        statusPort += 1;
        const port = statusPort;
        const name = `${kind.script}-${flaw.name}`;
        const file = join(cluster.folder, `${name}.conf`);
        const text = flaw.text(kind.good);
        if (text !== null) await writeFile(file, text, { mode: 0o600 });
        const program = startTroubled(cluster, {
          name,
          place: cluster.lab.namespace(cluster.site.seed.machine),
          script: kind.script,
          args: kind.args(file),
          statusPort: port,
        });
        return { flaw, program, file, good: stringify(kind.good), thenSays: kind.thenSays };
      }),
    ),
  );
  await Promise.all(
    victims.map(async ({ flaw, program }) => {
      const said = await program.says(flaw.says);
      t.pass(`${program.name}: ${said}`);
      t.equal(said.split("\n").length, 1, `${program.name} says it in one line`);
    }),
  );
  await Promise.all(victims.map(({ file, good }) => writeFile(file, good, { mode: 0o600 })));
  await Promise.all(
    victims.map(async ({ program, thenSays }) => {
      t.pass(`${program.name} mended: ${await program.says(thenSays, 45_000)}`);
      t.ok(program.isRunning(), `${program.name} is the process that it was`);
      await program.stop();
      t.equal((await program.exited).code, 0, `${program.name} stops cleanly`);
    }),
  );
};

/** The controller can reach the seed but not the shoot: the Tunnel says so, and says otherwise once it can. */
export const wantShootSentence = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster, product } = site;
  const file = cluster.shoot.keys.file("xylem-controller.conf");
  const good = await readFile(file, "utf8");
  const published = (status: string, pattern: RegExp) =>
    waitFor(
      `the condition Published is ${status}`,
      async () => {
        const args = ["get", "tunnel", tunnelName, "-n", tunnelNamespace, "-o"];
        const path = `jsonpath={.status.conditions[?(@.type=="Published")]}`;
        const { stdout } = await cluster.seed.kubectl.run([...args, path]);
        const condition = JSON.parse(stdout) as { status: string; message: string };
        if (condition.status !== status || !pattern.test(condition.message))
          throw new Error(stdout);
        return condition.message;
      },
      { timeoutMs: 30_000 },
    );
  await product.controller.stop();
  await writeFile(file, good.replace(/token: .*/, "token: stale"));
  product.controller.start();
  const refused =
    /[Ss]hoot can't be told of its gateways: .*credentials of kubeconfig \S+ are refused \(Unauthorized\): renew/;
  t.pass(await published("False", refused));
  t.equal((await product.gateways.apiserver.status())?.problem, null, "the tunnel works on");
  await writeFile(file, good);
  t.pass(await published("True", /the shoot knows its gateways/));
  await product.controller.ready();
};

const kindsOf = async ({ cluster }: TunnelCluster): Promise<readonly Kind[]> => {
  const { seed, shoot, folder } = cluster;
  const read = async (file: string): Promise<Kubeconfig> =>
    parse(await readFile(file, "utf8")) as Kubeconfig;
  const agent = await read(shoot.keys.file("xylem-agent-node1.conf"));
  // Agents take the public address, which is no way for a machine of the seed.
  const inSeed = parse(withCluster(agent, { server: shoot.servers.private })) as Kubeconfig;
  const tunnel = ["--namespace", tunnelNamespace, "--tunnel", tunnelName];
  const absent = join(folder, "shoot-absent.conf");
  const authorityOf = ({ keys }: ControlPlane): string =>
    Buffer.from(keys.authority.certificate).toString("base64");
  return [
    {
      script: "gateway",
      good: await read(seed.keys.file("xylem-gateway-apiserver.conf")),
      otherAuthority: authorityOf(shoot),
      // Without its second kubeconfig it opens no device once the first is right.
      args: (file) => [
        ...["--seed-kubeconfig", file, "--shoot-kubeconfig", absent, ...tunnel],
        ...["--identity", `stranger-${file.replaceAll(/\W/g, "-").slice(-40)}`],
      ],
      thenSays: /Kubeconfig \S+shoot-absent\.conf can't be read \(ENOENT\)/,
    },
    {
      script: "agent",
      good: inSeed,
      otherAuthority: authorityOf(seed),
      args: (file) => [
        ...["--kubeconfig", file, "--node", "nowhere"],
        ...["--key-file", `${file}.key`],
      ],
      thenSays:
        /there is no readable Node nowhere: give the name of this machine's Node with --node/,
    },
    {
      script: "controller",
      good: await read(seed.keys.file("xylem-controller.conf")),
      otherAuthority: authorityOf(shoot),
      args: (file) => [
        ...["--seed-kubeconfig", file, "--shoot-kubeconfig", absent],
        ...["--namespace", tunnelNamespace, "--tunnel", "nothing"],
      ],
      thenSays: /^ok$/,
    },
  ];
};
