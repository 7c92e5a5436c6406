/** The agent's life: register the node, watch the cluster, keep the tunnel's shoot end as it must be. */

import type { DeviceEvent, DeviceStats } from "#src/model/device.ts";
import type { Finding } from "#src/model/finding.ts";
import type { PrivateKey, PublicKey } from "#src/model/key.ts";
import { planAgent } from "#src/plan/agent-plan.ts";
import { LastPlan } from "#src/plan/last-plan.ts";
import type { Kube } from "#src/ports/kube.ts";
import type { Log } from "#src/ports/log.ts";
import type { HostReport } from "#src/reconcile/host.ts";
import { TunnelEnd, type TunnelEndPorts } from "#src/reconcile/tunnel-end.ts";
import type { ClusterView } from "./cluster-view.ts";
import type { AgentConfig } from "./config.ts";
import { register } from "./registration.ts";

export interface AgentParts {
  readonly config: AgentConfig;
  readonly version: string;
  readonly ports: TunnelEndPorts;
  readonly kube: Kube;
  readonly cluster: ClusterView;
  readonly privateKey: PrivateKey;
  readonly publicKey: PublicKey;
  readonly log: Log;
  /** Asks for another run of the work loop. */
  readonly trigger: (reason: string) => void;
}

/** What `/status` shows; no key in it but public ones. */
export interface AgentStatus {
  readonly node: string;
  readonly agentId: number | null;
  readonly publicKey: PublicKey;
  readonly problem: string | null;
  readonly findings: readonly Finding[];
  readonly device: DeviceStats | null;
}

/** The report of a pass that had nothing to do. */
const NOTHING: HostReport = { writes: 0, operations: [], errors: [] };

export class Agent {
  readonly #parts: AgentParts;
  readonly #end: TunnelEnd;
  readonly #plans = new LastPlan(planAgent);
  #agentId: number | null = null;
  #findings: readonly Finding[] = [];
  #problem: string | null = "starting";

  constructor(parts: AgentParts) {
    this.#parts = parts;
    this.#end = new TunnelEnd(parts.ports, (event) => this.#hear(event));
  }

  stats(): DeviceStats | null {
    return this.#end.stats();
  }

  /** Null: ready; else why not. What keeps the first lists from coming is asked anew: no pass hears of it. */
  problem(): string | null {
    return this.#parts.cluster.missing() ?? this.#problem;
  }

  status(): AgentStatus {
    const { cluster } = this.#parts;
    return {
      node: this.#parts.config.node,
      agentId: this.#agentId,
      publicKey: this.#parts.publicKey,
      problem: this.problem(),
      findings: [...cluster.stale(), ...cluster.lost(), ...this.#findings],
      device: this.stats(),
    };
  }

  /** One pass: reads what is known, registers, plans, applies. Throws HostError for what is worth a retry. */
  async reconcile(): Promise<HostReport> {
    try {
      return await this.#pass();
    } catch (error) {
      this.#problem = error instanceof Error ? error.message : String(error);
      throw error;
    }
  }

  async #pass(): Promise<HostReport> {
    const { cluster, config, privateKey, publicKey, version, kube, log } = this.#parts;
    const missing = cluster.missing();
    if (missing !== null) return this.#wait(missing);
    const { nodes, claims } = cluster;
    const node = nodes.values.find(({ name }) => name === config.node);
    if (node === undefined) {
      return this.#wait(
        `there is no readable Node ${config.node}: give the name of this machine's Node with --node`,
      );
    }
    const gone = cluster.gone();
    const cleared = gone === null ? NOTHING : await this.#clear();
    const facts = { node, claims: claims.values, publicKey, port: config.port, version };
    const agentId = await register({ kube, log }, facts);
    this.#agentId = agentId;
    if (gone !== null) return this.#wait(gone, cleared);
    const gateways = cluster.gateways();
    if (!gateways.ok) return this.#wait(gateways.problem);
    const plan = this.#plans.of({
      node: config.node,
      agentId,
      interface: config.interface,
      gateways: gateways.value,
      nodes: nodes.values,
      claims: claims.values,
    });
    this.#tell([...nodes.findings, ...claims.findings, ...plan.findings]);
    const report = await this.#end.apply({
      options: {
        // Another agent id, after a lost tie, means a new device.
        identity: { kind: "agent", agentId },
        privateKey,
        interface: config.interface,
        mtu: gateways.value.mtu,
        listenPort: config.port,
        paths: 1,
        offload: config.offload,
      },
      device: plan.device,
      network: plan.network,
      firewall: plan.firewall,
    });
    this.#problem = report.errors[0]?.message ?? null;
    return report;
  }

  /** Removes everything of ours from the node but its key. */
  async close(): Promise<void> {
    this.#problem = "stopping";
    await this.#clear();
  }

  #clear(): Promise<HostReport> {
    return this.#end.close({ interface: this.#parts.config.interface });
  }

  #wait(problem: string, report: HostReport = NOTHING): HostReport {
    if (this.#problem !== problem) this.#parts.log.info({ problem }, "waiting");
    this.#problem = problem;
    return report;
  }

  /** Findings are logged when they change, not at every pass. */
  #tell(findings: readonly Finding[]): void {
    if (JSON.stringify(findings) !== JSON.stringify(this.#findings)) {
      for (const { code, object, message } of findings)
        this.#parts.log.warn({ code, object }, message);
    }
    this.#findings = findings;
  }

  #hear(event: DeviceEvent): void {
    this.#parts.log.debug({ event }, "data plane");
    if (event.kind === "failed") this.#parts.trigger(event.kind);
  }
}
