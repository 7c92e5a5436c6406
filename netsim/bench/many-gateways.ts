/** Ten gateways of one tunnel on one machine: what each adds when the program's pages are shared. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { nodeFlags } from "#src/host/node-flags.ts";
import type { Running } from "#netsim/lab/process.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import { tunnelName, tunnelNamespace } from "#netsim/cluster/product.ts";
import { type BenchCluster, silence, spareMachines } from "./bench-cluster.ts";
import { memoryOf, programPid } from "./process-cost.ts";
import { type Row, rowOf } from "./report.ts";

const readyTimeoutMs = 60_000;
const settleMs = 30_000;
const stopGraceMs = 10_000;
const statusPort = 9446;
const root = join(import.meta.dirname, "../..");

/** The product's other programs are stopped before the look: they share pages too, and would flatter the figure. */
export const measureManyGateways = async (bench: BenchCluster): Promise<Row[]> => {
  const { cluster, product, say } = bench;
  await silence(bench);
  await product.gateways.apiserver.stop();
  await product.gateways.prometheus.stop();
  const argv = await commandLine(bench);
  say(`starting ${spareMachines.length} gateways`);
  const gateways: Running[] = [];
  try {
    for (const machine of spareMachines) {
      const state = join(cluster.folder, `gateway-${machine}`);
      await mkdir(state, { recursive: true });
      const own = ["--identity", machine, "--state-dir", state];
      const log = `gateway-${machine}.log`;
      gateways.push(cluster.lab.namespace(machine).spawn([...argv, ...own], { log, cwd: root }));
    }
    await Promise.all(spareMachines.map((machine) => isReady(bench, machine)));
    say(`all are ready; they rest for ${settleMs / 1000} s`);
    await after(settleMs);
    await product.stop();
    const memories = gateways.map(({ pid }) => memoryOf(programPid(pid)));
    return [
      rowOf({
        figure: `${gateways.length} gateways on one machine: PSS of each`,
        unit: "MB",
        values: memories.map(({ pss }) => pss),
        goal: 30,
      }),
      rowOf({
        figure: `${gateways.length} gateways on one machine: USS of each`,
        unit: "MB",
        values: memories.map(({ uss }) => uss),
        goal: 30,
      }),
    ];
  } finally {
    await Promise.all(gateways.map((gateway) => gateway.stop(stopGraceMs)));
    await product.start();
  }
};

const commandLine = async ({ cluster }: BenchCluster): Promise<string[]> => {
  const { seed, shoot } = cluster;
  const name = "xylem-gateway-bench";
  const tokenOf = async (where: typeof seed, namespace: string): Promise<string> => {
    const args = ["create", "token", "xylem-gateway", "-n", namespace, "--duration", "24h"];
    return (await where.kubectl.run(args)).stdout.trim();
  };
  const configOf = async (where: typeof seed, namespace: string): Promise<string> => {
    const token = await tokenOf(where, namespace);
    const user = { kind: "token", token } as const;
    return where.keys.kubeconfig({ name, server: where.servers.private, user });
  };
  return [
    process.execPath,
    ...nodeFlags,
    join(root, "dist/gateway.js"),
    ...["--seed-kubeconfig", await configOf(seed, tunnelNamespace)],
    ...["--shoot-kubeconfig", await configOf(shoot, "kube-system")],
    ...["--namespace", tunnelNamespace, "--tunnel", tunnelName],
  ];
};

const isReady = async ({ cluster }: BenchCluster, machine: string): Promise<void> => {
  const url = `http://127.0.0.1:${statusPort}/readyz`;
  await waitFor(
    `the gateway on ${machine} is ready`,
    async () => {
      const get = [cluster.programs.labpod, "get", "-timeout", "1s", url];
      const { code, stdout, stderr } = await cluster.lab
        .namespace(machine)
        .run(get, { check: false });
      if (code !== 0) throw new Error((stdout + stderr).trim());
      return true;
    },
    { timeoutMs: readyTimeoutMs, intervalMs: 500 },
  );
};
