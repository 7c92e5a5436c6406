/** `xylem status`: what it prints, and its exit code. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import type { KubeObject } from "#src/ports/kube.ts";
import { TUNNELS } from "#src/ports/kube-resource.ts";
import { EXIT_NOT_READY, EXIT_READY, EXIT_UNKNOWN, showStatus } from "./status.ts";

const condition = (type: string, status: string, more: object = {}) => ({
  type,
  status,
  reason: status === "True" ? "Paired" : "NoGateway",
  message: status === "True" ? "as it should be" : "no gateway holds a slot",
  ...more,
});

const tunnel = (namespace: string, status: object | null, metadata: object = {}): KubeObject => ({
  metadata: { namespace, name: "alpha", ...metadata },
  spec: {},
  ...(status === null ? {} : { status }),
});

const GOOD = {
  observedGeneration: 1,
  conditions: ["Accepted", "Published", "Ready"].map((type) => condition(type, "True")),
  gateways: [
    { slot: 7, holder: "prometheus-0", address: "198.18.0.8" },
    { slot: 2, holder: "kube-apiserver-0", address: "198.18.0.3" },
  ],
  agents: { ready: 3, total: 4 },
  lastHandshake: "2026-01-01T00:00:00Z",
};

const BAD = {
  observedGeneration: 1,
  conditions: [condition("Accepted", "True"), condition("Ready", "False")],
  agents: { ready: 0, total: 0 },
};

const opened = (...objects: readonly KubeObject[]) => {
  const kube = new FakeKube({ clock: new FakeClock(), log: new FakeLog() });
  kube.seed(TUNNELS, ...objects);
  const said = { out: "", err: "" };
  const world = {
    connect: () => kube,
    print: (text: string) => (said.out += text),
    complain: (text: string) => (said.err += text),
  };
  const show = (flags: { namespace?: string; output?: "json" | "table" } = {}) =>
    showStatus(world, { kubeconfig: "seed.kubeconfig", output: "table", ...flags });
  return { kube, said, show };
};

void t.test("a Ready tunnel is a line, its gateways by slot, and exit code 0", async (t) => {
  const { said, show } = opened(tunnel("shoot--a", GOOD));
  t.equal(await show(), EXIT_READY);
  t.equal(
    said.out,
    [
      "NAMESPACE  NAME   READY  REASON  GATEWAYS  AGENTS  LAST HANDSHAKE",
      "shoot--a   alpha  True   Paired  2         3/4     2026-01-01T00:00:00Z",
      "  slot 2: kube-apiserver-0 at 198.18.0.3",
      "  slot 7: prometheus-0 at 198.18.0.8",
      "",
    ].join("\n"),
  );
  t.equal(said.err, "");
});

void t.test("one that is not Ready says why, and the exit code is 1", async (t) => {
  const { said, show } = opened(tunnel("shoot--a", GOOD), tunnel("shoot--b", BAD));
  t.equal(await show(), EXIT_NOT_READY);
  t.match(said.out, /shoot--b {3}alpha {2}False {2}NoGateway {2}0/u);
  t.match(said.out, / {2}Ready is False \(NoGateway\): no gateway holds a slot/u);
  t.equal(
    await opened(tunnel("shoot--a", GOOD), tunnel("b", BAD)).show({ namespace: "shoot--a" }),
    0,
  );
});

const NOTES: readonly { name: string; object: KubeObject; want: RegExp }[] = [
  {
    name: "no controller has seen it",
    object: tunnel("a", null),
    want: /Unknown {2}NotSeen.*\n {2}note: no controller has looked at it yet/u,
  },
  {
    name: "the spec is newer than the status",
    object: tunnel("a", GOOD, { generation: 5 }),
    want: /the status is about generation 1, the spec is generation 5/u,
  },
  {
    name: "it is being deleted",
    object: tunnel("a", GOOD, { deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: ["x/y"] }),
    want: /note: being deleted since 2026-01-01T00:00:00Z/u,
  },
];

for (const { name, object, want } of NOTES) {
  void t.test(`a Tunnel is not taken for Ready when ${name}`, async (t) => {
    const { said, show } = opened(object);
    t.equal(await show(), EXIT_NOT_READY);
    t.match(said.out, want);
  });
}

void t.test("no Tunnel at all is said, and is not Ready", async (t) => {
  const { said, show } = opened();
  t.equal(await show({ namespace: "a" }), EXIT_NOT_READY);
  t.strictSame(said, { out: "", err: "xylem: there is no Tunnel in namespace a\n" });
});

void t.test("JSON holds the same for programs", async (t) => {
  const { said, show } = opened(tunnel("shoot--a", GOOD), tunnel("shoot--b", BAD));
  t.equal(await show({ output: "json" }), EXIT_NOT_READY);
  t.match(JSON.parse(said.out), {
    tunnels: [
      { namespace: "shoot--a", isReady: true, agents: { ready: 3, total: 4 }, note: null },
      { namespace: "shoot--b", isReady: false, gateways: [], lastHandshake: null },
    ],
  });
});

void t.test("a seed that can't be asked is one sentence and exit code 2", async (t) => {
  const { kube, said, show } = opened(tunnel("shoot--a", GOOD));
  kube.breakDown("forbidden");
  t.equal(await show(), EXIT_UNKNOWN);
  t.strictSame(said, { out: "", err: "xylem: fake: list Tunnel: outage\n" });
});

void t.test(
  "a status of any shape is printed without a crash or a terminal's escapes",
  async (t) => {
    const escape = "\u001b]0;owned\u0007\nREADY";
    const odd = [
      { conditions: "none", gateways: {}, agents: 3, observedGeneration: "x" },
      { observedGeneration: 1, conditions: [condition("Ready", "False", { message: escape })] },
      { observedGeneration: 1, conditions: [null, 1], gateways: [null, { slot: "x" }] },
    ];
    for (const status of odd) {
      const { said, show } = opened(tunnel("a", status));
      t.equal(await show(), EXIT_NOT_READY);
      t.notOk(said.out.includes("\u001b") || said.out.includes("\u0007"));
      t.notMatch(said.out, /^READY/mu);
    }
  },
);

const run = (...args: readonly string[]) =>
  new Promise<{ code: number; text: string }>((resolve) => {
    const { KUBECONFIG: _, ...env } = process.env;
    const argv = [join(import.meta.dirname, "main.ts"), ...args];
    execFile(process.execPath, argv, { env }, (error, stdout, stderr) => {
      const code = typeof error?.code === "number" ? error.code : 0;
      resolve({ code, text: stdout + stderr });
    });
  });

const LINES: readonly { args: readonly string[]; code: number; want: RegExp }[] = [
  { args: ["--version"], code: 0, want: /^\d+\.\d+\.\d+\n$/u },
  { args: ["--help"], code: 0, want: /status .*prints the Tunnels of a seed/u },
  { args: ["status", "--help"], code: 0, want: /Exit codes: 0 every Tunnel is Ready/u },
  { args: ["status"], code: 1, want: /required option '--kubeconfig <file>' not specified/u },
  { args: ["states"], code: 1, want: /unknown command 'states'.*\n.*Did you mean status/u },
  {
    args: ["status", "--kubeconfig", "/nowhere/kubeconfig"],
    code: 2,
    want: /^xylem: Kubeconfig \/nowhere\/kubeconfig can't be read \(ENOENT\); check the path/u,
  },
];

for (const { args, code, want } of LINES) {
  void t.test(`xylem ${args.join(" ")} ends with ${code} and says what it must`, async (t) => {
    const ended = await run(...args);
    t.equal(ended.code, code);
    t.match(ended.text, want);
  });
}
