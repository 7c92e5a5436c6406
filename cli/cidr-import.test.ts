/** `xylem cidr import`: Gardener's and kubeadm's objects, Nodes, what is guessed, what collides, a cluster, bad input. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { parseAllDocuments } from "yaml";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import type { KubeObject } from "#src/ports/kube.ts";
import { CONFIG_MAPS, NODES } from "#src/ports/kube-resource.ts";
import { claimObject, runCidr, seedObject, yamlOf } from "./cidr-samples.ts";

const folder = await mkdtemp(join(tmpdir(), "xylem-cidr-import-"));
t.teardown(() => rm(folder, { recursive: true }));

const write = async (name: string, ...objects: readonly object[]): Promise<string> => {
  const file = join(folder, name);
  await writeFile(file, yamlOf(...objects));
  return file;
};

const GARDENER = { apiVersion: "core.gardener.cloud/v1beta1" } as const;

const seed = {
  ...GARDENER,
  kind: "Seed",
  metadata: { name: "eu-1" },
  spec: {
    networks: {
      nodes: "10.240.0.0/16",
      pods: "10.241.128.0/17",
      services: "10.241.0.0/17",
      blockCIDRs: ["169.254.169.254/32"],
      shootDefaults: { pods: "100.96.0.0/11", services: "100.64.0.0/13" },
    },
  },
};

const shoot = (
  name: string,
  networking: object,
  more: { spec?: object; status?: object } = {},
) => ({
  ...GARDENER,
  kind: "Shoot",
  metadata: { namespace: "garden-lab", name },
  spec: { seedName: "eu-1", networking: { type: "calico", ...networking }, ...more.spec },
  ...(more.status === undefined ? {} : { status: more.status }),
});

const node = (name: string, addresses: readonly string[], podCIDRs: readonly string[]) => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: { name },
  spec: { podCIDRs },
  status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
});

const serviceCidr = (name: string, ...cidrs: readonly string[]) => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "ServiceCIDR",
  metadata: { name },
  spec: { cidrs },
});

const kubeadm = (networking: object) => ({
  apiVersion: "kubeadm.k8s.io/v1beta4",
  kind: "ClusterConfiguration",
  networking,
});

const documentsOf = (text: string): unknown[] => {
  const documents = parseAllDocuments(text);
  return Array.isArray(documents) ? documents.map((one) => one.toJS() as unknown) : [];
};

void t.test(
  "A23 Seeds and Shoots become objects; a Shoot without ranges gets its seed's defaults",
  async (t) => {
    const file = await write("garden.yaml", seed, shoot("alpha", { nodes: "10.250.0.0/16" }));
    const said = await runCidr(["import", "-f", file]);
    t.same(documentsOf(said.out), [
      {
        apiVersion: "xylem.dev/v1alpha1",
        kind: "SeedNetwork",
        metadata: { name: "eu-1" },
        spec: {
          nodes: ["10.240.0.0/16"],
          pods: ["10.241.128.0/17"],
          services: ["10.241.0.0/17"],
          reserved: ["169.254.169.254/32"],
        },
      },
      {
        apiVersion: "xylem.dev/v1alpha1",
        kind: "NetworkClaim",
        metadata: { namespace: "shoot--lab--alpha", name: "alpha" },
        spec: {
          vpc: "shoot--lab--alpha",
          seeds: ["eu-1"],
          adopt: true,
          nodes: { ipv4: { cidr: "10.250.0.0/16" } },
          pods: { ipv4: { cidr: "100.96.0.0/11" } },
          services: { ipv4: { cidr: "100.64.0.0/13" } },
        },
      },
    ]);
    t.match(said, {
      code: 0,
      error: /names no pods, so the default of Seed eu-1 is taken: 100\.96\.0\.0\/11/,
    });
    const again = await write("again.yaml", ...(documentsOf(said.out) as object[]));
    t.match(await runCidr(["plan", "-f", again]), { code: 0, out: /1 claim: 1 granted/ });
  },
);

void t.test(
  "a Shoot's status says more: its namespace, its seed, ranges of a second family",
  async (t) => {
    const beta = shoot(
      "beta",
      { nodes: "10.250.0.0/16", pods: "100.96.0.1/11", services: "100.64.0.0/13" },
      {
        spec: {
          seedName: "eu-9",
          provider: { infrastructureConfig: { networks: { vpc: { id: "vpc-0AB_1" } } } },
        },
        status: {
          technicalID: "shoot--lab--b",
          seedName: "eu-1",
          networking: { nodes: ["10.250.0.0/16"], pods: ["100.96.0.0/11", "2001:db8::/56"] },
        },
      },
    );
    const said = await runCidr(["import", "-f", await write("beta.yaml", beta), "--seed", "eu-2"]);
    t.match(documentsOf(said.out), [
      {
        metadata: { namespace: "shoot--lab--b", name: "beta" },
        spec: {
          vpc: "vpc-0ab-1",
          seeds: ["eu-1", "eu-2"],
          pods: { ipv4: { cidr: "100.96.0.0/11" }, ipv6: { cidr: "2001:db8::/56" } },
        },
      },
    ]);
    t.match(
      said.error,
      /spec\.networking\.pods: "100\.96\.0\.1\/11" is not a canonical CIDR: .*; 100\.96\.0\.0\/11 is taken/,
    );
    t.match(said.error, /SeedNetwork eu-2 is not known/);
  },
);

void t.test("collisions are sentences and end with 1: with the seed, and in one VPC", async (t) => {
  const file = await write(
    "collide.yaml",
    seed,
    shoot("one", { nodes: "10.240.16.0/20", pods: "10.1.0.0/16", services: "10.2.0.0/16" }),
    shoot("two", { nodes: "10.3.0.0/16", pods: "10.1.0.0/16", services: "10.4.0.0/16" }),
  );
  const said = await runCidr(["import", "-f", file, "--vpc", "shared", "-o", "json"]);
  t.equal(said.code, 1);
  t.match(JSON.parse(said.out), {
    objects: [{ kind: "SeedNetwork" }, { kind: "NetworkClaim" }, { kind: "NetworkClaim" }],
    collisions: [
      /^nodes 10\.240\.16\.0\/20 of NetworkClaim shoot--lab--one\/one lies inside nodes 10\.240\.0\.0\/16 of SeedNetwork eu-1; .* with an address map or in proxy mode$/,
      /^pods 10\.1\.0\.0\/16 of NetworkClaim shoot--lab--two\/two is the same range as pods 10\.1\.0\.0\/16 of NetworkClaim shoot--lab--one\/one; clusters of one VPC \(shared\) must be apart/,
    ],
  });
});

const clusterFiles = () =>
  write(
    "cluster.yaml",
    node("n1", ["192.168.7.11", "fd00:7::11"], ["10.244.1.0/24"]),
    node("n2", ["192.168.8.13"], ["10.244.6.0/24"]),
    serviceCidr("kubernetes", "10.96.0.0/16", "fd00:96::/112"),
    serviceCidr("more", "10.98.0.0/16"),
  );

void t.test(
  "Nodes and ServiceCIDRs become a claim, one more for a second range, guesses are said",
  async (t) => {
    const args = [
      "import",
      "-f",
      await clusterFiles(),
      "--as-claim",
      "shoot--x/net",
      "--seed",
      "eu-1",
    ];
    const said = await runCidr(args);
    t.match(documentsOf(said.out), [
      {
        metadata: { namespace: "shoot--x", name: "net" },
        spec: {
          vpc: "shoot--x",
          nodes: { ipv4: { cidr: "192.168.0.0/20" }, ipv6: { cidr: "fd00:7::/64" } },
          pods: { ipv4: { cidr: "10.244.0.0/21" } },
          services: { ipv4: { cidr: "10.96.0.0/16" }, ipv6: { cidr: "fd00:96::/112" } },
        },
      },
      { metadata: { name: "net-2" }, spec: { services: { ipv4: { cidr: "10.98.0.0/16" } } } },
    ]);
    t.match(
      said.error,
      /nodes 192\.168\.0\.0\/20 is guessed from the addresses of Nodes: .* give --nodes CIDR/,
    );
    const told = await runCidr([...args, "--nodes", "192.168.0.0/16", "--pods", "10.244.0.0/16"]);
    t.match(documentsOf(told.out), [{ spec: { nodes: { ipv4: { cidr: "192.168.0.0/16" } } } }, {}]);
    t.notMatch(told.error, /guessed/);
  },
);

void t.test(
  "kubeadm's configuration tells pods and services, with its default, of both families",
  async (t) => {
    const file = await write(
      "kubeadm.yaml",
      kubeadm({ podSubnet: "10.244.0.0/16,2001:db8:42::/56" }),
      node("n1", ["10.250.0.4"], ["10.244.1.0/24"]),
    );
    const said = await runCidr(["import", "-f", file, "--as-seed", "eu-1"]);
    t.match(documentsOf(said.out), [
      {
        kind: "SeedNetwork",
        spec: {
          nodes: ["10.250.0.0/24"],
          pods: ["10.244.0.0/16", "2001:db8:42::/56"],
          services: ["10.96.0.0/12"],
        },
      },
    ]);
  },
);

void t.test(
  "a running cluster is read with its kubeadm ConfigMap, and nothing is written",
  async (t) => {
    const kube = new FakeKube({ clock: new FakeClock(), log: new FakeLog() });
    kube.seed(NODES, node("n1", ["10.250.0.4"], []) as KubeObject);
    kube.seed(CONFIG_MAPS, {
      metadata: { namespace: "kube-system", name: "kubeadm-config" },
      data: {
        ClusterConfiguration: yamlOf(
          kubeadm({ podSubnet: "10.244.0.0/16", serviceSubnet: "10.97.0.0/16" }),
        ),
      },
    });
    const said = await runCidr(["import", "--kubeconfig", "x", "--as-seed", "eu-1"], { kube });
    t.match(documentsOf(said.out), [
      { spec: { pods: ["10.244.0.0/16"], services: ["10.97.0.0/16"] } },
    ]);
    t.same(kube.writes, []);
  },
);

void t.test("what is there already is passed over, and compared", async (t) => {
  const file = await write(
    "there.yaml",
    seed,
    seedObject("eu-1"),
    claimObject("y", { nodes: { ipv4: { cidr: "10.240.0.0/24" } } }),
  );
  const said = await runCidr(["import", "-f", file]);
  t.match(said, {
    out: "",
    code: 1,
    error: /SeedNetwork eu-1 is there already: it is passed over/,
  });
  t.match(
    said.error,
    /collision: nodes 10\.240\.0\.0\/24 of NetworkClaim shoot--y\/net lies inside/,
  );
});

void t.test(
  "bad input is a sentence with file, document, field and fix, and ends with 2",
  async (t) => {
    const cluster = await clusterFiles();
    const bad = await write("bad.yaml", seed, shoot("bad", { nodes: "10.250.0.0" }));
    const list = await write("list.yaml", {
      ...seed,
      spec: { networks: { blockCIDRs: "10.0.0.0/8" } },
    });
    const lost = await write("lost.yaml", {
      ...shoot("lost", { nodes: "10.0.0.0/8" }),
      spec: { networking: { nodes: "10.0.0.0/8" } },
    });
    const none = await write("none.yaml", {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "p" },
    });
    const cases: readonly { readonly args: readonly string[]; readonly error: RegExp }[] = [
      { args: [], error: /^xylem: say what to read/ },
      {
        args: ["-f", cluster],
        error: /say what the cluster of these Nodes and ServiceCIDRs is: --as-seed NAME/,
      },
      { args: ["-f", cluster, "--as-seed", "a", "--as-claim", "b/c"], error: /exclude each other/ },
      { args: ["-f", cluster, "--as-claim", "b"], error: /--as-claim must be NAMESPACE\/NAME/ },
      { args: ["-f", cluster, "--as-claim", "b/c"], error: /may run: --seed NAME/ },
      {
        args: ["-f", cluster, "--as-seed", "a", "--nodes", "10.0.0.1/8"],
        error: /--nodes: .*; write "10\.0\.0\.0\/8"/,
      },
      { args: ["-f", cluster, "--vpc", "A"], error: /--vpc: a VPC is a DNS label/ },
      {
        args: ["-f", bad],
        error:
          /bad\.yaml, document 2: Shoot garden-lab\/bad: spec\.networking\.nodes: "10\.250\.0\.0" is not a canonical CIDR: the prefix length is missing/,
      },
      {
        args: ["-f", list],
        error: /list\.yaml, document 1: Seed eu-1: spec\.networks\.blockCIDRs must be a list/,
      },
      {
        args: ["-f", lost],
        error: /it runs on no seed yet: say where it may run with --seed NAME/,
      },
      {
        args: ["-f", none],
        error: /there is no Seed, Shoot, Node, ServiceCIDR or ClusterConfiguration to import/,
      },
    ];
    for (const { args, error } of cases) {
      t.match(await runCidr(["import", ...args]), { out: "", error, code: 2 }, String(error));
    }
  },
);

void t.test("Nodes of all the world are not guessed to be one network", async (t) => {
  const file = await write(
    "far.yaml",
    node("n1", ["10.0.0.1"], []),
    node("n2", ["192.168.0.1"], []),
  );
  t.match(
    await runCidr([
      "import",
      "-f",
      file,
      "--as-seed",
      "eu-1",
      "--pods",
      "10.1.0.0/16",
      "--services",
      "10.2.0.0/16",
    ]),
    {
      error: /too far apart for one range \(0\.0\.0\.0\/0\): give --nodes CIDR/,
      out: /pods:\n    - 10\.1\.0\.0\/16/,
    },
  );
});
