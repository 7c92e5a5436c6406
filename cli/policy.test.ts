/** `xylem policy`: answers, exit codes, manifests of all shapes, and a sentence for each bad input. */

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { stringify } from "yaml";
import { policyCommand } from "./policy.ts";
import { parseObjects } from "./policy-manifests.ts";

const folder = await mkdtemp(join(tmpdir(), "xylem-policy-"));
t.teardown(() => rm(folder, { recursive: true }));

const pod = (namespace: string, name: string) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { namespace, name, labels: { app: name } },
  spec: { containers: [{ ports: [{ name: "http", containerPort: 8080 }] }] },
});

const policy = (name: string, spec: object, labels: object = {}) => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { namespace: "a", name, labels },
  spec: { podSelector: {}, ...spec },
});

const DENY = policy("deny", {});
const FROM_B = {
  from: [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "b" } } }],
  ports: [{ port: "http" }],
};

const write = async (name: string, ...objects: object[]): Promise<string> => {
  const file = join(folder, name);
  await writeFile(file, objects.map((object) => stringify(object)).join("---\n"));
  return file;
};

const pods = await write("pods.yaml", pod("a", "web"), pod("b", "client"));
const closed = await write("closed.yaml", DENY);
const open = await write("open.yaml", DENY, policy("in", { ingress: [FROM_B] }));

/** Runs `xylem policy` in this process. */
const run = async (...args: readonly string[]) => {
  const said = { out: "", error: "", code: 0 };
  await policyCommand({
    out: (text) => void (said.out += `${text}\n`),
    error: (text) => void (said.error += `${text}\n`),
    exit: (code) => void (said.code = code),
  }).parseAsync(args, { from: "user" });
  return said;
};

void t.test(
  "explain says allowed or denied with policy and rule, and ends with 0 or 1",
  async (t) => {
    const question = ["explain", "b/client", "a/app=web", "http", "-f", pods];
    t.same(await run(...question, "-f", open), {
      out: [
        "allowed: b/client -> a/web 8080/TCP",
        "  egress of b/client: allowed, no policy selects the pod",
        "  ingress of a/web: allowed by NetworkPolicy a/in ingress[0]",
        "",
      ].join("\n"),
      error: "",
      code: 0,
    });
    t.match(await run(...question, "-f", closed), {
      out: /denied, selected by a\/deny, and no rule/,
      code: 1,
    });
    const json = await run(...question, "-f", closed, "-o", "json");
    t.match(JSON.parse(json.out), { verdict: "denied", flows: [{ ingress: { by: "isolation" } }] });
  },
);

void t.test("N50 a policy of a declared flow is explained by the flow's reason", async (t) => {
  const file = await write(
    "flow.yaml",
    policy("xylem.scraper-to-gateway.ingress.alpha", { ingress: [FROM_B] }),
  );
  t.match(await run("explain", "b/client", "a/web", "http", "-f", pods, "-f", file), {
    out: /ingress\[0\] \(metrics of gateways\)/,
    code: 0,
  });
});

void t.test("diff names whose traffic changes, and ends with 0 where none does", async (t) => {
  await mkdir(join(folder, "want"), { recursive: true });
  await write("want/1.yaml", pod("a", "web"), pod("b", "client"));
  await write("want/2.yml", DENY, policy("in", { ingress: [FROM_B] }));
  await mkdir(join(folder, "have"), { recursive: true });
  await write("have/1.yaml", DENY);
  const want = join(folder, "want");
  const have = join(folder, "have");
  t.same(await run("diff", "-f", want, "-f", have), {
    out: [
      "policy added: a/in",
      "denied -> allowed: b/client -> a/web 8080/TCP",
      "  ingress so far: denied, selected by a/deny, and no rule there matches",
      "1 change of verdicts",
      "",
    ].join("\n"),
    error: "",
    code: 1,
  });
  t.same(await run("diff", "-f", want, "-f", want), {
    out: "no verdict changes\n",
    error: "",
    code: 0,
  });
  const json = await run("diff", "-f", have, "-f", want, "-o", "json");
  t.match(JSON.parse(json.out), {
    policies: { added: [], changed: [], removed: ["a/in"] },
    changes: [{ from: ["b/client"], to: ["a/web"], becomes: "denied" }],
  });
});

void t.test("diff without any pods speaks of the pods that policies speak of", async (t) => {
  const said = await run("diff", "-f", closed);
  t.match(said, {
    code: 1,
    out: /allowed -> denied: 0\.0\.0\.0\/0 -> a\/\(other pods\) all ports/,
  });
});

void t.test("a long comparison is cut for people, and says so", async (t) => {
  const many = Array.from({ length: 30 }, (_, at) => pod("a", `p${at}`));
  const crowd = await write("crowd.yaml", ...many, DENY);
  const said = await run("diff", "-f", crowd);
  t.match(said.out, /\n\.\.\. and [0-9]+ more; -o json prints all\n[0-9]+ changes of verdicts\n$/);
  const { changes } = JSON.parse((await run("diff", "-f", crowd, "-o", "json")).out) as {
    changes: unknown[];
  };
  t.match(said.out, `${changes.length} changes of verdicts`);
});

void t.test("flows are listed with their reasons", async (t) => {
  t.match(await run("flows"), {
    out: /gateway-to-endpoint: gateway .* 51820\/UDP\n  the tunnel/,
    code: 0,
  });
  t.match(JSON.parse((await run("flows", "--json")).out), [{ id: "gateway-to-endpoint" }]);
});

void t.test("bad input is a sentence with file, document and field, and ends with 2", async (t) => {
  const bad = await write("bad.yaml", DENY, policy("typo", { ingres: [] }));
  const broken = join(folder, "broken.yaml");
  await writeFile(broken, "a: [1\n---\nb: 2\n");
  await mkdir(join(folder, "empty"), { recursive: true });
  const ask = ["explain", "b/client", "a/web", "80"];
  const cases: readonly { args: readonly string[]; error: RegExp }[] = [
    { args: ask, error: /^xylem: say what to look at: -f FILE/ },
    { args: [...ask, "-f", pods, "--kubeconfig", "x"], error: /^xylem: say what to look at/ },
    {
      args: [...ask, "-f", bad],
      error: /bad\.yaml, document 2: NetworkPolicy a\/typo: spec has an unknown field "ingres"/,
    },
    { args: [...ask, "-f", broken], error: /broken\.yaml, document 1, line 2: it is no YAML/ },
    { args: [...ask, "-f", join(folder, "nix")], error: /nix: it can't be read \(ENOENT\)/ },
    {
      args: [...ask, "-f", join(folder, "empty")],
      error: /there is no \.yaml, \.yml or \.json file/,
    },
    { args: [...ask, "--kubeconfig", join(folder, "nix")], error: /nix/ },
    {
      args: ["explain", "web", "a/web", "80", "-f", pods],
      error: /^xylem: FROM "web" names nobody/,
    },
    { args: ["explain", "b/client", "a/web", "x/y", "-f", pods], error: /^xylem: PORT "x\/y"/ },
    {
      args: ["explain", "b/nobody", "a/web", "80", "-f", pods],
      error: /^xylem: FROM b\/nobody: there is no/,
    },
    { args: ["diff"], error: /^xylem: say what is wanted/ },
    { args: ["diff", "-f", pods, "-f", pods, "-f", pods], error: /more than twice/ },
    { args: ["diff", "-f", pods, "-f", pods, "--kubeconfig", "x"], error: /not with both/ },
  ];
  for (const { args, error } of cases) {
    t.match(await run(...args), { out: "", error, code: 2 }, String(error));
  }
});

void t.test(
  "lists are taken apart, empty documents passed over, anything else refused with its place",
  (t) => {
    const parse = (text: string) => parseObjects({ file: "f", text });
    const list = { apiVersion: "v1", kind: "PodList", items: [{ metadata: { name: "x" } }] };
    t.same(parse(`---\n# nothing\n---\n${stringify(list)}`), {
      ok: true,
      value: [
        {
          object: { apiVersion: "v1", kind: "Pod", metadata: { name: "x" } },
          place: "f, document 2, items[0]",
        },
      ],
    });
    t.same(parse(""), { ok: true, value: [] });
    t.match(parse("a: 1"), { ok: false, problem: /^f, document 1: apiVersion or kind is missing/ });
    t.match(parse("- 1"), { ok: false, problem: "f, document 1: it is no Kubernetes object" });
    t.match(parse("{apiVersion: v1, kind: List, items: 1}"), {
      ok: false,
      problem: /items must be/,
    });
    const bomb = `apiVersion: v1\nkind: Pod\na: &a [1]\nb: [${"*a,".repeat(101)}]`;
    t.match(parse(bomb), { ok: false, problem: /more than 100 aliases/ });
    t.match(parse("a: 1\na: 2"), { ok: false, problem: /line 2: it is no YAML \(DUPLICATE_KEY\)/ });
    t.end();
  },
);

void t.test(
  "the program ends with the answer's code, and with 2 on arguments that it does not know",
  async (t) => {
    const main = join(import.meta.dirname, "main.ts");
    const end = (...args: readonly string[]) =>
      new Promise((resolve) => {
        execFile(process.execPath, [main, "policy", ...args], (error) => {
          resolve(error === null ? 0 : error.code);
        });
      });
    const ask = ["explain", "b/client", "a/web", "81", "-f", pods];
    const codes = [end(...ask), end(...ask, "-f", closed), end("explain", "a"), end("nix")];
    t.same(await Promise.all(codes), [0, 1, 2, 2]);
  },
);
