/** The nodes of one of a lab's clusters: their machines, their start and their restart. */

import { join } from "node:path";
import type { Lab } from "#netsim/lab/lab.ts";
import { startMachine } from "#netsim/lab/machine.ts";
import type { Machine } from "#netsim/lab/machine.ts";
import { prepareNode } from "./node.ts";
import type { PreparedNode } from "./node.ts";
import type { ClusterKeys } from "./pki.ts";
import type { Programs } from "./programs.ts";
import type { NodeSite, ShootRanges } from "./site.ts";
import { pauseImage } from "./workloads.ts";

export interface NodesSpec {
  readonly lab: Lab;
  readonly nodes: readonly NodeSite[];
  readonly ranges: ShootRanges;
  /** Only in a dual-stack cluster. */
  readonly ranges6?: ShootRanges | undefined;
  readonly dnsAddress: string;
  /** https://address:port of the API server as nodes reach it. */
  readonly server: string;
  readonly programs: Programs;
  readonly folder: string;
  readonly logs: string;
  readonly keys: ClusterKeys;
  /** Resolves to OCI archives. */
  readonly images: Promise<readonly string[]>;
}

/** All nodes of one cluster. */
export class Nodes {
  readonly #spec: NodesSpec;
  readonly #machines = new Map<string, Machine>();
  readonly #prepared = new Map<string, PreparedNode>();

  constructor(spec: NodesSpec) {
    this.#spec = spec;
  }

  /** Boots the machines, with containerd and the images; needs no API server. */
  async bootAll(): Promise<void> {
    await Promise.all(this.#spec.nodes.map((node) => this.#boot(node)));
  }

  /** Starts what needs the API server and the Node objects. */
  startAll(): void {
    for (const node of this.#prepared.values()) node.start();
  }

  machine(name: string): Machine {
    const machine = this.#machines.get(name);
    if (machine === undefined) throw new Error(`there is no machine ${name} in the lab`);
    return machine;
  }

  /** Pulls the plug if the node runs, and boots it again on its old disks. */
  async restart(name: string): Promise<void> {
    const node = this.#spec.nodes.find((each) => each.name === name);
    if (node === undefined) throw new Error(`there is no node ${name} in the lab`);
    await this.machine(name).kill();
    (await this.#boot(node)).start();
  }

  async kill(): Promise<void> {
    await Promise.all([...this.#machines.values()].map((machine) => machine.kill()));
  }

  async #boot(node: NodeSite): Promise<PreparedNode> {
    const { lab, programs, folder, logs, keys } = this.#spec;
    const wasBooted = this.#machines.has(node.name);
    const machine = await startMachine(lab, node.name);
    this.#machines.set(node.name, machine);
    if (wasBooted) await forgetOldCgroups(machine);
    const prepared = await prepareNode({
      site: node,
      ranges: this.#spec.ranges,
      ranges6: this.#spec.ranges6,
      programs,
      machine,
      keys,
      server: this.#spec.server,
      folder: join(folder, node.name),
      logs,
      images: await this.#spec.images,
      pauseImage,
      clusterDns: this.#spec.dnsAddress,
    });
    this.#prepared.set(node.name, prepared);
    return prepared;
  }
}

/**
 * A reboot of a real machine empties its cgroups; here they outlive it, and the kubelet's cAdvisor would ask
 * containerd in vain for each old container, three seconds apiece.
 */
async function forgetOldCgroups(machine: Machine): Promise<void> {
  const remove =
    "find /sys/fs/cgroup/*/kubepods -depth -type d -exec rmdir {} \\; 2>/dev/null || true";
  await machine.run(["sh", "-c", remove]);
}
