/** `xylem cidr` plan, free and explain: on files, on a cluster, on both, and on bad input. */

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import type { KubeObject, KubeResource } from "#src/ports/kube.ts";
import {
  NETWORK_BLOCKS,
  NETWORK_CLAIMS,
  NETWORK_POOLS,
  SEED_NETWORKS,
} from "#src/ports/kube-resource.ts";
import { cidrCommand } from "./cidr.ts";
import {
  blockObject,
  claimObject,
  fewObjects,
  poolObject,
  runCidr,
  seedObject,
  yamlOf,
} from "./cidr-samples.ts";

const folder = await mkdtemp(join(tmpdir(), "xylem-cidr-"));
t.teardown(() => rm(folder, { recursive: true }));

const write = async (name: string, ...objects: readonly object[]): Promise<string> => {
  const file = join(folder, name);
  await writeFile(file, yamlOf(...objects));
  return file;
};

const few = await write("few.yaml", ...fewObjects);
const base = await write("base.yaml", seedObject("eu-1"), poolObject("main", ["10.0.0.0/16"]));

void t.test(
  "plan shows what each claim would get, and ends with 1 when one gets nothing",
  async (t) => {
    t.same(await runCidr(["plan", "-f", few]), {
      out: [
        "granted: NetworkClaim shoot--a/net (VPC vpc-a)",
        "  services 10.97.0.0/22 (new)",
        "refused: NetworkClaim shoot--b/net (VPC vpc-a)",
        "  nodes 10.97.2.0/24 of NetworkClaim shoot--b/net lies inside services 10.97.0.0/22 of NetworkClaim shoot--a/net; clusters of one VPC (vpc-a) must be apart: choose another range, e.g. 10.0.0.0/24, the first free /24",
        "2 claims: 1 granted, 0 waiting, 1 refused",
        "",
      ].join("\n"),
      error: "",
      code: 1,
    });
  },
);

void t.test("plan serves claims one after the other, and says what would fit", async (t) => {
  const claims = await write(
    "claims.yaml",
    claimObject("c", {
      nodes: { ipv4: { prefixLength: 17 } },
      pods: { ipv4: { prefixLength: 18 } },
    }),
    claimObject("d", { nodes: { ipv4: { prefixLength: 17 } } }),
  );
  const said = await runCidr(["plan", "-f", base, "-f", claims, "-o", "json"]);
  t.equal(said.code, 1);
  t.match(JSON.parse(said.out), {
    claims: [
      {
        name: "net",
        verdict: "granted",
        create: [
          { kind: "nodes", cidr: "10.0.0.0/17" },
          { kind: "pods", cidr: "10.0.128.0/18" },
        ],
      },
      { verdict: "waiting", whatWouldFit: "10.0.192.0/18", reason: /the largest free block/ },
    ],
    seeds: [],
  });
});

void t.test("plan says where an adopted cluster needs a bridge", async (t) => {
  const adopted = await write(
    "adopted.yaml",
    claimObject("e", { adopt: true, nodes: { ipv4: { cidr: "10.240.8.0/21" } } }),
  );
  t.match(await runCidr(["plan", "-f", base, "-f", adopted]), {
    out: /10\.240\.8\.0\/21 overlaps nodes 10\.240\.0\.0\/16 of SeedNetwork eu-1: it needs an address map or proxy mode/,
    code: 0,
  });
});

void t.test(
  "plan compares files with a cluster: what it holds, and what a new seed would hit",
  async (t) => {
    const kube = cluster();
    const claim = await write(
      "new.yaml",
      claimObject("new", { nodes: { ipv4: { prefixLength: 17 } } }),
    );
    t.same(await runCidr(["plan", "-f", claim, "--kubeconfig", "x"], { kube }), {
      out: "granted: NetworkClaim shoot--new/net (VPC vpc-a)\n  nodes    10.0.128.0/17 (new)\n1 claim: 1 granted, 0 waiting, 0 refused\n",
      error: "",
      code: 0,
    });
    t.same(kube.writes, []);
    const seed = await write("seed.yaml", seedObject("eu-1", { nodes: ["10.0.64.0/18"] }));
    t.match(await runCidr(["plan", "-f", seed, "--kubeconfig", "x"], { kube: cluster() }), {
      out: /^conflict: nodes 10\.0\.64\.0\/18 of SeedNetwork eu-1 lies inside nodes 10\.0\.0\.0\/17 of NetworkClaim shoot--old\/net; a shoot must be apart/,
      code: 1,
    });
  },
);

void t.test("A3 plan keeps what an existing claim has, and refuses a change of it", async (t) => {
  const same = await write(
    "old.yaml",
    claimObject("old", { nodes: { ipv4: { prefixLength: 17 } } }),
  );
  t.match(await runCidr(["plan", "-f", same, "--kubeconfig", "x"], { kube: cluster() }), {
    out: /nodes {4}10\.0\.0\.0\/17 \(has it\)/,
    code: 0,
  });
  const other = await write(
    "other.yaml",
    claimObject("old", { nodes: { ipv4: { prefixLength: 18 } } }),
  );
  t.match(await runCidr(["plan", "-f", other, "--kubeconfig", "x"], { kube: cluster() }), {
    out: /what a claim has never changes while it exists/,
    code: 1,
  });
});

void t.test("free measures each pool for each VPC, with the seeds in the way", async (t) => {
  const pool = await write(
    "pool.yaml",
    seedObject("eu-1"),
    poolObject("main", ["10.240.0.0/14"]),
    blockObject({ name: "10.243.0.0-24.vpc-a", cidr: "10.243.0.0/24", owner: "a" }),
  );
  t.same(await runCidr(["free", "-f", pool]), {
    out: [
      "NetworkPool main 10.240.0.0/14 for VPC vpc-a: 56.1 % free (147,200 of 262,144 addresses)",
      "  largest free block: 10.241.128.0/17",
      "  length    whole          fit",
      "     /17        3            3",
      "     /18        2            8",
      "     /19        1           17",
      "     /20        1           35",
      "     /21        1           71",
      "     /22        1          143",
      "     /23        1          287",
      "     /24        1          575",
      "",
    ].join("\n"),
    error: "",
    code: 0,
  });
  const other = await runCidr(["free", "-f", pool, "--vpc", "vpc-b", "-o", "json"]);
  t.match(JSON.parse(other.out), {
    pools: [{ vpc: "vpc-b", free: "147456", largest: "10.243.0.0/16" }],
  });
  t.match(await runCidr(["free", "--kubeconfig", "x"], { kube: cluster() }), {
    out: /^NetworkPool main 10\.0\.0\.0\/16 for VPC vpc-a: 50\.0 % free/,
    code: 0,
  });
});

const explained: readonly {
  readonly args: readonly string[];
  readonly out: RegExp;
  readonly code: number;
}[] = [
  {
    args: ["10.0.0.0/8", "11.0.0.0/8"],
    out: /^10\.0\.0\.0\/8 and 11\.0\.0\.0\/8 are disjoint\n$/,
    code: 0,
  },
  { args: ["10.0.0.0/8", "fd00::/8"], out: /are disjoint: one has IPv4, the other IPv6/, code: 0 },
  {
    args: ["10.0.0.0/8", "10.1.0.0/16"],
    out: /^10\.0\.0\.0\/8 contains 10\.1\.0\.0\/16\n  depends: /,
    code: 1,
  },
  { args: ["fd00::1", "fd00::/64"], out: /^fd00::1\/128 lies inside fd00::\/64/, code: 1 },
  { args: ["10.0.0.0/8", "10.0.0.0/8"], out: /is equal to/, code: 1 },
  {
    args: ["127.0.0.0/24", "10.0.0.0/8"],
    out: /disjoint\n  forbidden: .*reserved \(loopback\)/,
    code: 1,
  },
  {
    args: ["claim/shoot--a/net", "claim/shoot--b/net", "-f", few],
    out: /contains NetworkClaim shoot--b\/net\n  forbidden: .*clusters of one VPC \(vpc-a\) must be apart/,
    code: 1,
  },
  {
    args: ["seed/eu-1", "pool/main", "-f", few],
    out: /overlaps NetworkPool main\n  both have 10\.240\.0\.0\/16, 10\.241\.0\.0\/17, 10\.242\.0\.0\/18\n  allowed: /,
    code: 0,
  },
  {
    args: ["10.240.1.0/24", "claim/shoot--a/net", "-f", few],
    out: /about 10\.240\.1\.0\/24: it overlaps nodes 10\.240\.0\.0\/16 of SeedNetwork eu-1/,
    code: 0,
  },
];

for (const { args, out, code } of explained) {
  void t.test(
    `explain ${args.slice(0, 2).join(" ")} says the relation, the rule, and ends with ${code}`,
    async (t) => {
      t.match(await runCidr(["explain", ...args]), { out, error: "", code });
    },
  );
}

void t.test("explain works on a cluster too, and as JSON", async (t) => {
  const args = [
    "explain",
    "claim/shoot--old/net",
    "10.0.0.0/24",
    "--kubeconfig",
    "x",
    "-o",
    "json",
  ];
  const said = await runCidr(args, { kube: cluster() });
  t.match(JSON.parse(said.out), {
    a: {
      title: "NetworkClaim shoot--old/net",
      ranges: ["nodes 10.0.0.0/17 of NetworkClaim shoot--old/net"],
    },
    relation: "contains",
    common: ["10.0.0.0/24"],
    verdict: "depends",
  });
});

void t.test(
  "bad input is a sentence with file, document, field and fix, and ends with 2",
  async (t) => {
    await mkdir(join(folder, "empty"), { recursive: true });
    const broken = join(folder, "broken.yaml");
    await writeFile(broken, "a: [1\n---\nb: 2\n");
    const twice = await write("twice.yaml", seedObject("eu-1"), seedObject("eu-1"));
    const bad = await write(
      "bad.yaml",
      seedObject("eu-1"),
      claimObject("a", { nodes: { ipv4: {} } }),
    );
    const many = await write(
      "many.yaml",
      seedObject("eu-1", { nodes: Array(100_000).fill("10.0.0.0/8") }),
    );
    const cases: readonly { readonly args: readonly string[]; readonly error: RegExp }[] = [
      { args: ["plan"], error: /^xylem: say what to look at: -f FILE/ },
      { args: ["plan", "-f", base], error: /there is no NetworkClaim to plan/ },
      { args: ["plan", "-f", join(folder, "nix")], error: /nix: it can't be read \(ENOENT\)/ },
      {
        args: ["plan", "-f", join(folder, "empty")],
        error: /there is no \.yaml, \.yml or \.json file/,
      },
      { args: ["plan", "-f", broken], error: /broken\.yaml, document 1, line 2: it is no YAML/ },
      {
        args: ["plan", "-f", twice],
        error: /twice\.yaml, document 2: SeedNetwork eu-1 is in .*twice\.yaml, document 1 already/,
      },
      {
        args: ["plan", "-f", bad],
        error:
          /bad\.yaml, document 2: NetworkClaim shoot--a\/net: spec\.nodes\.ipv4 must have either a cidr or a prefixLength/,
      },
      {
        args: ["plan", "-f", many],
        error: /spec\.nodes has 100000 items: at most 256 are allowed/,
      },
      {
        args: ["free", "-f", few, "--seed", "nix"],
        error: /--seed nix: there is no SeedNetwork of that name/,
      },
      { args: ["free", "-f", bad.replace("bad", "seed")], error: /there is no NetworkPool/ },
      { args: ["explain", "nix", "::/0"], error: /^xylem: A "nix" is neither a CIDR nor/ },
      {
        args: ["explain", "::/0", "10.0.0.5/24"],
        error: /^xylem: B "10\.0\.0\.5\/24" is not a canonical CIDR: .*; write "10\.0\.0\.0\/24"/,
      },
      { args: ["explain", "::/0", "seed/nix"], error: /B SeedNetwork nix is not there/ },
      { args: ["explain", "::/0", "claim/a"], error: /write claim\/NAMESPACE\/NAME/ },
      {
        args: ["explain", "::/0", "claim/a/b", "-f", few],
        error: /B NetworkClaim a\/b is not there/,
      },
    ];
    for (const { args, error } of cases) {
      t.match(await runCidr(args), { out: "", error, code: 2 }, String(error));
    }
  },
);

void t.test(
  "a cluster that does not answer, or has none of our kinds, is a sentence",
  async (t) => {
    const down = cluster();
    down.breakDown();
    t.match(await runCidr(["free", "--kubeconfig", "x"], { kube: down }), {
      error: /outage/,
      code: 2,
    });
    const bare = cluster();
    for (let at = 0; at < 5; at += 1) bare.failNext("list", "not-found");
    t.match(await runCidr(["free", "--kubeconfig", "x"], { kube: bare }), {
      error: /the cluster has none of Xylem's kinds: install the seed's CRDs/,
      code: 2,
    });
  },
);

void t.test("every subcommand has help with examples and exit codes", async (t) => {
  const { commands } = cidrCommand();
  t.same(commands.map((command) => command.name()).toSorted(), [
    "check",
    "explain",
    "free",
    "import",
    "map",
    "plan",
    "translate",
  ]);
  for (const command of commands) {
    let help = "";
    command.configureOutput({ writeOut: (text) => void (help += text) }).outputHelp();
    t.match(help, /Examples:\n  .*xylem cidr.*\n[^]*Exit code: 0/, command.name());
  }
});

void t.test("the program ends with 1 on what a check finds, and with 2 on bad usage", async (t) => {
  const main = join(import.meta.dirname, "main.ts");
  const end = (...args: readonly string[]) =>
    new Promise((resolve) => {
      execFile(process.execPath, [main, "cidr", ...args], (error) => {
        resolve(error === null ? 0 : error.code);
      });
    });
  t.same([await end("check", "10.0.0.1/8"), await end("plan", "--nix")], [1, 2]);
});

/** A seed with one pool, and one claim that has half of it. */
function cluster(): FakeKube {
  const kube = new FakeKube({ clock: new FakeClock(), log: new FakeLog() });
  const put = (resource: KubeResource, object: object) => {
    kube.seed(resource, object as KubeObject);
  };
  put(SEED_NETWORKS, seedObject("eu-1"));
  put(NETWORK_POOLS, poolObject("main", ["10.0.0.0/16"]));
  put(
    NETWORK_CLAIMS,
    claimObject(
      "old",
      { nodes: { ipv4: { prefixLength: 17 } } },
      { uid: "uid-old", creationTimestamp: "2026-01-01T00:00:00Z" },
    ),
  );
  put(
    NETWORK_BLOCKS,
    blockObject({ name: "10.0.0.0-17.vpc-a", cidr: "10.0.0.0/17", owner: "old" }),
  );
  return kube;
}
