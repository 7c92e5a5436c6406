/** Xylem itself in the lab: its objects in both clusters, and its programs in the namespaces of their machines. */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Namespace, SpawnInsideOptions } from "#netsim/lab/namespace.ts";
import type { Running } from "#netsim/lab/process.ts";
import { twoNetworksPlan } from "#netsim/lab/two-networks.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import { nodeFlags } from "#src/host/node-flags.ts";
import type { DeviceStats } from "#src/model/device.ts";
import type { Cluster } from "./cluster.ts";
import type { Kubectl } from "./kubectl.ts";

/** Where the shoot's objects live in the seed. */
export const tunnelNamespace = "shoot--lab--alpha";
export const tunnelName = "alpha";

/** Machines of the lab that have a gateway. */
export type GatewayName = "apiserver" | "prometheus";

/** What `/status` of a gateway or an agent answers; see gateway/gateway.ts and agent/agent.ts. */
export interface EndStatus {
  readonly problem: string | null;
  readonly findings: readonly { readonly code: string; readonly message: string }[];
  readonly device: DeviceStats | null;
  readonly relay?: string | null;
  readonly standby?: string | null;
  readonly slot?: number | null;
  readonly agentId?: number | null;
  /** On a gateway: node by public key. */
  readonly nodes?: Readonly<Record<string, string>>;
}

/** One program of the product, which can be stopped and started again where it was. */
export interface ProductProgram {
  readonly name: string;
  readonly start: () => void;
  /** With "SIGKILL" as a crash; the default stops it cleanly. */
  readonly stop: (signal?: NodeJS.Signals) => Promise<void>;
  readonly isRunning: () => boolean;
  readonly pid: () => number | null;
  readonly log: string;
  /** Null while it does not answer. */
  readonly status: () => Promise<EndStatus | null>;
  /** The lines of one metric, labels included. */
  readonly metric: (name: string) => Promise<string>;
  /** Resolves when `/readyz` says yes; the error carries its last answer. */
  readonly ready: (timeoutMs?: number) => Promise<void>;
}

export interface Product {
  readonly controller: ProductProgram;
  readonly gateways: Readonly<Record<GatewayName, ProductProgram>>;
  /** By node. */
  readonly agents: ReadonlyMap<string, ProductProgram>;
  /** Gateways, agents and controller, in that order. */
  readonly all: readonly ProductProgram[];
  /** Starts everything and waits until it is ready. */
  readonly start: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

export interface ProductOptions {
  /** Of gateways and agents; default "info". */
  readonly logLevel?: string;
  /** More flags of every gateway. */
  readonly gatewayArguments?: readonly string[];
  readonly agentArguments?: readonly string[];
  readonly controllerArguments?: readonly string[];
  /** Default: the agents' Service, as an operator would have it. */
  readonly tunnelSpec?: Readonly<Record<string, unknown>>;
}

const gatewayStatusPort = 9446;
const agentStatusPort = 9447;
const controllerStatusPort = 9448;
const stopGraceMs = 10_000;
const readyTimeoutMs = 30_000;
const root = join(import.meta.dirname, "../..");

/** Puts the product's objects into both clusters and prepares its programs; nothing runs yet. */
export async function installProduct(
  cluster: Cluster,
  options: ProductOptions = {},
): Promise<Product> {
  await installObjects(cluster, options);
  const controller = await prepareController(cluster, options);
  const apiserver = await prepareGateway(
    cluster,
    "apiserver",
    cluster.shoot.servers.local,
    options,
  );
  const prometheus = await prepareGateway(
    cluster,
    "prometheus",
    cluster.shoot.servers.private,
    options,
  );
  const agents = await Promise.all(
    cluster.site.nodes.map(
      async ({ name }) => [name, await prepareAgent(cluster, name, options)] as const,
    ),
  );
  const gateways = { apiserver, prometheus };
  const all = [apiserver, prometheus, ...agents.map(([, agent]) => agent), controller];
  return {
    controller,
    gateways,
    agents: new Map(agents),
    all,
    start: async () => {
      for (const program of all.toReversed()) if (!program.isRunning()) program.start();
      await Promise.all(all.map((program) => program.ready()));
    },
    stop: async () => {
      await Promise.all(all.map((program) => program.stop()));
    },
  };
}

/** Applies every YAML file of the folders, in their order. */
async function applyFolders(
  kubectl: Kubectl,
  folders: readonly string[],
  flags: readonly string[] = [],
): Promise<void> {
  for (const folder of folders) {
    const path = join(root, folder);
    const files = (await readdir(path)).filter((file) => file.endsWith(".yaml")).toSorted();
    const texts = await Promise.all(files.map((file) => readFile(join(path, file), "utf8")));
    const input = texts.join("\n---\n");
    await kubectl.run(["apply", "--server-side", ...flags, "-f", "-"], { input });
  }
}

const established = ["wait", "--for=condition=Established", "--timeout=20s"];

async function installObjects(
  { seed, shoot, site }: Cluster,
  options: ProductOptions,
): Promise<void> {
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: tunnelNamespace } };
  await Promise.all([
    applyFolders(seed.kubectl, ["charts/seed/schemas"]),
    applyFolders(shoot.kubectl, ["charts/shoot/schemas", "charts/shoot/manifests"]),
    seed.kubectl.run(["apply", "-f", "-"], { input: JSON.stringify(namespace) }),
  ]);
  await Promise.all([
    seed.kubectl.run([...established, "crd/tunnels.xylem.dev"]),
    shoot.kubectl.run([
      ...established,
      "crd/tunnelagents.xylem.dev",
      "crd/tunnelgateways.xylem.dev",
    ]),
    publishBalancer(shoot.kubectl, twoNetworksPlan.balancerAddress),
  ]);
  await applyFolders(seed.kubectl, ["charts/seed/manifests"]);
  await applyFolders(seed.kubectl, ["charts/seed/tunnel-manifests"], ["-n", tunnelNamespace]);
  const { nodes, pods, services } = site.ranges;
  const tunnel = {
    apiVersion: "xylem.dev/v1alpha1",
    kind: "Tunnel",
    metadata: { namespace: tunnelNamespace, name: tunnelName },
    spec: { ranges: { nodes: [nodes], pods: [pods], services: [services] }, ...options.tunnelSpec },
  };
  await seed.kubectl.run(["apply", "-f", "-"], { input: JSON.stringify(tunnel) });
}

/** What a cloud's controller does: tells the agents' Service its balancer's address. */
export async function publishBalancer(kubectl: Kubectl, address: string): Promise<void> {
  const patch = JSON.stringify({ status: { loadBalancer: { ingress: [{ ip: address }] } } });
  const where = ["service", "xylem-agent", "-n", "kube-system", "--subresource=status"];
  await kubectl.run(["patch", ...where, "--type=merge", "-p", patch]);
}

/** A token of a ServiceAccount, as a projected volume of a pod holds it. */
async function accountToken(kubectl: Kubectl, namespace: string, name: string): Promise<string> {
  const args = ["create", "token", name, "-n", namespace, "--duration", "24h"];
  return (await kubectl.run(args)).stdout.trim();
}

async function prepareController(
  cluster: Cluster,
  options: ProductOptions,
): Promise<ProductProgram> {
  const { seed, shoot, lab } = cluster;
  const token = await accountToken(seed.kubectl, "kube-system", "xylem-seed-controller");
  const [seedConfig, shootConfig] = await Promise.all([
    seed.keys.kubeconfig({
      name: "xylem-controller",
      server: seed.servers.private,
      user: { kind: "token", token },
    }),
    shoot.keys.kubeconfig({
      name: "xylem-controller",
      server: shoot.servers.private,
      user: {
        kind: "token",
        token: await accountToken(shoot.kubectl, "kube-system", "xylem-controller"),
      },
    }),
  ]);
  return prepareProgram(cluster, {
    name: "controller",
    namespace: lab.namespace(cluster.site.seed.machine),
    spawn: (argv, where) => lab.namespace(cluster.site.seed.machine).spawn(argv, where),
    script: "dist/controller.js",
    statusPort: controllerStatusPort,
    args: [
      ...["--seed-kubeconfig", seedConfig, "--shoot-kubeconfig", shootConfig],
      ...["--namespace", tunnelNamespace, "--tunnel", tunnelName],
      ...(options.controllerArguments ?? []),
    ],
  });
}

async function prepareGateway(
  cluster: Cluster,
  name: GatewayName,
  shootServer: string,
  options: ProductOptions,
): Promise<ProductProgram> {
  const { seed, shoot, lab, folder } = cluster;
  const [seedToken, shootToken] = await Promise.all([
    accountToken(seed.kubectl, tunnelNamespace, "xylem-gateway"),
    accountToken(shoot.kubectl, "kube-system", "xylem-gateway"),
  ]);
  const [seedConfig, shootConfig] = await Promise.all([
    seed.keys.kubeconfig({
      name: `xylem-gateway-${name}`,
      server: seed.servers.private,
      user: { kind: "token", token: seedToken },
    }),
    shoot.keys.kubeconfig({
      name: `xylem-gateway-${name}`,
      server: shootServer,
      user: { kind: "token", token: shootToken },
    }),
  ]);
  const namespace = lab.namespace(cluster.site[name].machine);
  return prepareProgram(cluster, {
    name: `gateway-${name}`,
    namespace,
    spawn: (argv, where) => namespace.spawn(argv, where),
    script: "dist/gateway.js",
    statusPort: gatewayStatusPort,
    args: [
      ...["--seed-kubeconfig", seedConfig, "--shoot-kubeconfig", shootConfig],
      ...["--namespace", tunnelNamespace, "--tunnel", tunnelName, "--identity", `${name}-0`],
      ...[
        "--state-dir",
        join(folder, `gateway-${name}`),
        "--log-level",
        options.logLevel ?? "info",
      ],
      ...(options.gatewayArguments ?? []),
    ],
  });
}

async function prepareAgent(
  cluster: Cluster,
  node: string,
  options: ProductOptions,
): Promise<ProductProgram> {
  const { shoot, lab } = cluster;
  const kubeconfig = await shoot.keys.kubeconfig({
    name: `xylem-agent-${node}`,
    server: shoot.servers.public,
    user: { kind: "token", token: await cluster.nodeToken(node) },
  });
  const machine = cluster.machine(node);
  return prepareProgram(cluster, {
    name: `agent-${node}`,
    namespace: lab.namespace(node),
    spawn: (argv, where) => machine.spawn(argv, where),
    script: "dist/agent.js",
    statusPort: agentStatusPort,
    args: [
      ...["--kubeconfig", kubeconfig, "--node", node, "--log-level", options.logLevel ?? "info"],
      ...(options.agentArguments ?? []),
    ],
  });
}

interface ProgramSpec {
  readonly name: string;
  /** Where its status port answers. */
  readonly namespace: Namespace;
  readonly spawn: (argv: readonly string[], where: SpawnInsideOptions) => Running;
  readonly script: string;
  readonly statusPort: number;
  readonly args: readonly string[];
}

function prepareProgram({ lab, programs }: Cluster, spec: ProgramSpec): ProductProgram {
  const log = join(lab.dir, "log", `${spec.name}.log`);
  const argv = [process.execPath, ...nodeFlags, join(root, spec.script), ...spec.args];
  let running: Running | null = null;
  const get = (path: string, flags: readonly string[]) =>
    spec.namespace.run(
      [programs.labpod, "get", ...flags, `http://127.0.0.1:${spec.statusPort}${path}`],
      { check: false },
    );
  return {
    name: spec.name,
    log,
    start: () => {
      running = spec.spawn(argv, { log, cwd: root });
    },
    stop: async (signal) => {
      const ending = running;
      running = null;
      if (ending === null) return;
      if (signal === undefined) return ending.stop(stopGraceMs);
      ending.kill(signal);
      await ending.exited;
    },
    isRunning: () => running?.isRunning() ?? false,
    pid: () => running?.pid ?? null,
    status: async () => {
      const { code, stdout } = await get("/status", ["-timeout", "1s"]);
      return code === 0 ? (JSON.parse(stdout) as EndStatus) : null;
    },
    metric: async (name) => {
      const { stdout } = await get("/metrics", ["-timeout", "2s"]);
      return stdout
        .split("\n")
        .filter((line) => line.startsWith(name))
        .join("\n");
    },
    ready: async (timeoutMs = readyTimeoutMs) => {
      await waitFor(
        `${spec.name} is ready`,
        async () => {
          if (running?.isRunning() !== true)
            throw new Error(`${spec.name} does not run; see ${log}`);
          const { code, stdout, stderr } = await get("/readyz", ["-timeout", "1s"]);
          if (code !== 0) throw new Error((stdout + stderr).trim());
          return true;
        },
        { timeoutMs, intervalMs: 20 },
      );
    },
  };
}
