/** Both charts on one real API server (a seed is often a shoot of another seed): install, upgrade, rollback, uninstall. */

import { spawn } from "node:child_process";
import { openSync } from "node:fs";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import t from "tap";
import { parse } from "yaml";
import { runCommand } from "#netsim/lab/process.ts";
import { skipUnlessRoot } from "#netsim/lab/tunnel-test.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import { openHelm, whyNoHelm } from "../../scripts/helm.ts";
import { withApiServer } from "./api-server.ts";
import { openPrograms } from "./programs.ts";

const charts = join(import.meta.dirname, "../../charts");
const NAMESPACE = "xylem-system";
/** Everything that a chart makes, and what a controller makes for itself. */
const KINDS = [
  ...["crd", "clusterrole", "clusterrolebinding", "role", "rolebinding", "serviceaccount"],
  ...["service", "secret", "deployment", "daemonset", "poddisruptionbudget"],
  ...["mutatingwebhookconfiguration", "validatingwebhookconfiguration"],
  ...["validatingadmissionpolicy", "validatingadmissionpolicybinding"],
].join(",");

const tunnel = {
  apiVersion: "xylem.dev/v1alpha1",
  kind: "Tunnel",
  metadata: { namespace: NAMESPACE, name: "alpha" },
  spec: { ranges: { nodes: ["10.0.0.0/24"], pods: ["10.1.0.0/16"], services: ["10.2.0.0/20"] } },
};

const pod = (name: string, labels: object) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { namespace: "default", name, labels },
  spec: { containers: [{ name: "main", image: "none" }], automountServiceAccountToken: false },
});

interface Said {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface Tools {
  readonly helm: (...args: readonly string[]) => Promise<Said>;
  readonly kubectl: (args: readonly string[], input?: object) => Promise<Said>;
  readonly tryKubectl: (args: readonly string[], input?: object) => Promise<Said>;
}

/** The seed's chart as an older version of it: one printer column of the Tunnel less. */
const olderChart = async (folder: string): Promise<string> => {
  const chart = join(folder, "xylem-seed");
  await cp(join(charts, "seed"), chart, { recursive: true });
  const file = join(chart, "schemas/tunnels.yaml");
  const text = await readFile(file, "utf8");
  const column = /        - name: Reason\n          type: string\n          jsonPath: .*\n/u;
  if (!column.test(text)) throw new Error(`${file} has no column Reason any more`);
  await writeFile(file, text.replace(column, ""));
  return chart;
};

const openTools = async (options: {
  readonly inside: readonly string[];
  readonly kubeconfig: string;
  readonly home: string;
}): Promise<Tools> => {
  const { inside, kubeconfig, home } = options;
  const [program, programs] = [await openHelm(), await openPrograms()];
  const env = { HOME: home, KUBECONFIG: kubeconfig, KUBECACHEDIR: join(home, "cache") };
  const kube = [...inside, programs.hyperkube, "kubectl"];
  const run = (argv: readonly string[], input: object | undefined, check: boolean): Promise<Said> =>
    runCommand(argv, {
      env,
      check,
      timeoutMs: 60_000,
      ...(input === undefined ? {} : { input: JSON.stringify(input) }),
    });
  return {
    helm: (...args) =>
      run([...inside, program, ...args, "--namespace", NAMESPACE], undefined, true),
    kubectl: (args, input) => run([...kube, ...args], input, true),
    tryKubectl: (args, input) => run([...kube, ...args], input, false),
  };
};

const skip = skipUnlessRoot === false ? (whyNoHelm() ?? false) : skipUnlessRoot;

void t.test("both charts on a real API server", { skip, timeout: 180_000 }, async (t) => {
  const home = t.testdir({});
  await withApiServer(
    "charts",
    async ({ inside, kubeconfig }) => {
      const tools = await openTools({ inside, kubeconfig, home });
      const { helm, kubectl, tryKubectl } = tools;
      const names = async (): Promise<readonly string[]> => {
        const { stdout } = await kubectl(["get", KINDS, "-A", "-o", "name"]);
        return stdout.split("\n").toSorted();
      };
      const field = async (what: string, path: string): Promise<string> =>
        (await kubectl(["get", ...what.split(" "), "-o", `jsonpath=${path}`])).stdout;
      const columns = (): Promise<string> =>
        field("crd tunnels.xylem.dev", "{.spec.versions[0].additionalPrinterColumns[*].name}");
      const replicas = (): Promise<string> =>
        field(`deployment xylem-controller -n ${NAMESPACE}`, "{.spec.replicas}");
      const bundle = (): Promise<string> =>
        field(
          "mutatingwebhookconfiguration xylem-injector",
          "{.webhooks[0].clientConfig.caBundle}",
        );

      await kubectl(["create", "namespace", NAMESPACE]);
      await waitFor("the namespaces have their service accounts", async () => {
        const { code } = await tryKubectl(["get", "sa", "default", "-n", NAMESPACE]);
        return code === 0 && (await tryKubectl(["get", "sa", "default"])).code === 0;
      });
      const before = await names();
      await mkdir(join(home, "older"));
      const older = await olderChart(join(home, "older"));

      await t.test("an older chart and the shoot's chart install side by side", async (t) => {
        await helm("install", "seed", older);
        await helm("install", "shoot", join(charts, "shoot"));
        const crds = ["tunnels", "networkclaims", "tunnelagents", "tunnelgateways"];
        await kubectl([
          ...["wait", "--for=condition=Established", "--timeout=20s"],
          ...crds.map((name) => `crd/${name}.xylem.dev`),
        ]);
        t.notMatch(await columns(), "Reason");
        await kubectl(["apply", "--server-side", "-f", "-"], tunnel);
        t.equal(
          await field("daemonset xylem-agent -n kube-system", "{.spec.template.spec.hostNetwork}"),
          "true",
        );
      });

      await t.test("only pods that ask for a tunnel wait for the webhook", async (t) => {
        const asked = ["create", "--dry-run=server", "-f", "-"];
        const plain = await tryKubectl(asked, pod("plain", {}));
        t.equal(plain.code, 0, plain.stderr);
        const labelled = await tryKubectl(asked, pod("labelled", { "xylem.dev/tunnel": "alpha" }));
        t.not(labelled.code, 0);
        t.match(labelled.stderr, /inject\.xylem\.dev/u);
      });

      await t.test(
        "an upgrade brings new definitions and keeps what the controller wrote",
        async (t) => {
          const webhook = { name: "inject.xylem.dev", clientConfig: { caBundle: "Cg==" } };
          const patch = JSON.stringify({ webhooks: [webhook] });
          await kubectl([
            ...["patch", "mutatingwebhookconfiguration", "xylem-injector"],
            ...["--type=strategic", "-p", patch],
          ]);
          const written = await bundle();
          const data = JSON.stringify({ data: { rotation: "Cg==" } });
          const secret = `secret xylem-webhook-certificates -n ${NAMESPACE}`;
          await kubectl(["patch", ...secret.split(" "), "--type=merge", "-p", data]);
          t.not(written, "");
          await helm("upgrade", "seed", join(charts, "seed"), "--set", "controller.replicas=3");
          t.match(await columns(), "Reason");
          t.equal(await replicas(), "3");
          t.equal(await bundle(), written);
          t.equal(await field(secret, "{.data.rotation}"), "Cg==");
          t.equal(await field(`tunnel alpha -n ${NAMESPACE}`, "{.spec.slots}"), "32");
        },
      );

      await t.test("the controller gets ready with the chart's rights and arguments", async (t) => {
        const account = ["create", "token", "xylem-seed-controller", "-n", NAMESPACE];
        const token = (await kubectl(account)).stdout.trim();
        const config: unknown = parse(await readFile(kubeconfig, "utf8"));
        const file = join(home, "controller.kubeconfig");
        const users = Object(config).users.map(({ name }: object & { name: string }) => ({
          name,
          user: { token },
        }));
        await writeFile(file, JSON.stringify({ ...Object(config), users }), { mode: 0o600 });
        const where = `deployment xylem-controller -n ${NAMESPACE}`;
        const args = await field(where, "{.spec.template.spec.containers[0].args}");
        const argv: string[] = JSON.parse(args.replaceAll("$(POD_IP)", "127.0.0.1"));
        const log = join(home, "controller.log");
        const [command = "", ...rest] = inside;
        const script = join(charts, "../controller/main.ts");
        const out = openSync(log, "w");
        const flags = [...argv, "--seed-kubeconfig", file];
        const child = spawn(command, [...rest, process.execPath, script, ...flags], {
          env: { POD_NAMESPACE: NAMESPACE, PATH: process.env["PATH"] },
          stdio: ["ignore", out, out],
        });
        const ended = new Promise((resolve) => child.once("exit", resolve));
        const get = [...inside, (await openPrograms()).labpod, "get", "-timeout", "1s"];
        try {
          await waitFor("the controller is ready", async () => {
            const url = "http://127.0.0.1:9448/readyz";
            const said = await runCommand([...get, url], { check: false });
            if (said.code !== 0) throw new Error(said.stdout + said.stderr);
            return true;
          });
        } finally {
          child.kill("SIGTERM");
          await ended;
        }
        t.notMatch(await readFile(log, "utf8"), /forbidden/iu);
        t.match(Buffer.from(await bundle(), "base64").toString(), "BEGIN CERTIFICATE");
      });

      await t.test("a rollback takes the values back and no Tunnel away", async (t) => {
        await helm("rollback", "seed", "1");
        t.equal(await replicas(), "2");
        t.equal(await field(`tunnel alpha -n ${NAMESPACE}`, "{.metadata.name}"), "alpha");
      });

      await t.test(
        "an uninstall keeps the definitions and Tunnels, and a new install takes them up",
        async (t) => {
          await helm("uninstall", "seed");
          t.not(
            (await tryKubectl(["get", "deployment", "xylem-controller", "-n", NAMESPACE])).code,
            0,
          );
          t.not(
            (await tryKubectl(["get", "mutatingwebhookconfiguration", "xylem-injector"])).code,
            0,
          );
          t.equal(await field(`tunnel alpha -n ${NAMESPACE}`, "{.metadata.name}"), "alpha");
          await helm("install", "seed", join(charts, "seed"));
          t.equal(await field(`tunnel alpha -n ${NAMESPACE}`, "{.metadata.name}"), "alpha");
        },
      );

      await t.test("an uninstall without keeping leaves nothing (W48)", async (t) => {
        // No controller runs any more that would remove its finalizer, without which no definition goes.
        const patch = JSON.stringify({ metadata: { finalizers: null } });
        await kubectl(["patch", "tunnel", "alpha", "-n", NAMESPACE, "--type=merge", "-p", patch]);
        await kubectl(["delete", "tunnel", "alpha", "-n", NAMESPACE]);
        // The garbage collector looks for new kinds every 30 s, and for an owner only while its kind is defined.
        await waitFor(
          "the Tunnel's Secret went with it",
          async () =>
            (await tryKubectl(["get", "secret", "alpha-xylem", "-n", NAMESPACE])).code !== 0,
          { timeoutMs: 60_000 },
        );
        await helm("upgrade", "seed", join(charts, "seed"), "--set", "schemas.keep=false");
        await helm("uninstall", "seed");
        await helm("uninstall", "shoot");
        // Not Helm's own --wait: Helm 4.1 was once still waiting after a minute for what had long been gone.
        await waitFor("the definitions are gone", async () => {
          const { stdout } = await kubectl(["get", "crd", "-o", "name"]);
          return !stdout.includes("xylem.dev");
        });
        t.strictSame(await names(), before);
      });
    },
    (path) => t.comment(`evidence: ${path}`),
  );
});
