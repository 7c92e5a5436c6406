/** The gateway's life: claim a slot, watch both clusters, keep the tunnel's seed end as it must be. */

import type { DeviceEvent, DeviceStats } from "#src/model/device.ts";
import type { Endpoint } from "#src/model/endpoint.ts";
import type { Finding } from "#src/model/finding.ts";
import type { PrivateKey } from "#src/model/key.ts";
import type { Slot } from "#src/model/slot.ts";
import type { Tunnel } from "#src/model/tunnel.ts";
import { type GatewayPlan, planGateway, type PodFacts } from "#src/plan/gateway-plan.ts";
import { LastPlan } from "#src/plan/last-plan.ts";
import type { PathProver, PathTarget } from "#src/host/path-proof.ts";
import type { Clock } from "#src/ports/clock.ts";
import type { Log } from "#src/ports/log.ts";
import type { HostReport } from "#src/reconcile/host.ts";
import {
  TunnelEnd,
  type TunnelEndDesired,
  type TunnelEndPorts,
} from "#src/reconcile/tunnel-end.ts";
import type { GatewayConfig } from "./config.ts";
import { RelayKeeper } from "./relay-keeper.ts";
import type { ShootView } from "./shoot-view.ts";
import type { TunnelView } from "./tunnel-view.ts";

export interface GatewayParts {
  readonly config: GatewayConfig;
  readonly ports: TunnelEndPorts;
  readonly tunnels: TunnelView;
  readonly shoot: ShootView;
  readonly paths: PathProver;
  /** The pod as it is now. */
  readonly pod: () => Promise<PodFacts>;
  readonly clock: Clock;
  readonly log: Log;
  /** Asks for another run of the work loop. */
  readonly trigger: (reason: string) => void;
}

/** What `/status` shows; no key in it but public ones. */
export interface GatewayStatus {
  readonly tunnel: string;
  readonly slot: number | null;
  readonly endpoint: Endpoint | null;
  readonly relay: string | null;
  readonly standby: string | null;
  readonly problem: string | null;
  readonly findings: readonly Finding[];
  readonly nodes: Readonly<Record<string, string>>;
  readonly device: DeviceStats | null;
}

interface Identity {
  readonly slot: Slot;
  readonly privateKey: PrivateKey;
}

/** Reasons for a pass that must not wait for a look at the kernel. */
const RELAY_REASONS: ReadonlySet<string> = new Set(["unanswered", "answered"]);

/** A node's port that answers or refuses; only the answer matters. */
const KUBELET_PORT = 10_250;
/** Longer than a path's replacement by a fresh source port, shorter than the patience of a readiness probe. */
const PROOF_TIMEOUT_MS = 2_000;
/** Between two tries to prove the path. */
const PROOF_PAUSE_MS = 1_000;
const NO_ENDPOINT =
  "the agents' endpoint is not known yet: Service kube-system/xylem-agent has no load balancer address, and the Tunnel names no endpoint";
const UNPROVEN = "no connection through the tunnel has been answered yet";

export class Gateway {
  readonly #parts: GatewayParts;
  readonly #end: TunnelEnd;
  readonly #relay: RelayKeeper;
  readonly #plans = new LastPlan(planGateway);
  #plan: GatewayPlan | null = null;
  #identity: Identity | null = null;
  #endpoint: Endpoint | null = null;
  #pod: PodFacts = { needed: [], strictInterfaces: [] };
  #problem: string | null = "starting";
  #knownFindings = "";
  /** Proven: a connection through the tunnel was answered, and nothing has spoken against it since. */
  #proof: "none" | "running" | "proven" = "none";
  #proofProblem: string = UNPROVEN;
  /** Counts devices that were given up, so that a late proof is not taken for one of the next. */
  #proofRound = 0;

  constructor(parts: GatewayParts) {
    this.#parts = parts;
    this.#relay = new RelayKeeper(() => parts.clock.nowMs());
    this.#end = new TunnelEnd(parts.ports, (event) => this.#hear(event));
  }

  stats(): DeviceStats | null {
    return this.#end.stats();
  }

  relay(): string | null {
    return this.#relay.relay;
  }

  /** Null: ready; else why not. What keeps the first lists from coming is asked anew: no pass hears of it. */
  problem(): string | null {
    const { tunnels, shoot } = this.#parts;
    const unproven = this.#proof === "proven" ? null : this.#proofProblem;
    return tunnels.missing() ?? shoot.missing() ?? this.#problem ?? unproven;
  }

  status(): GatewayStatus {
    const { config, shoot, tunnels } = this.#parts;
    return {
      tunnel: `${config.namespace}/${config.tunnel}`,
      slot: this.#identity?.slot ?? null,
      endpoint: this.#endpoint,
      relay: this.#relay.relay,
      standby: this.#relay.standby,
      problem: this.problem(),
      findings: [...tunnels.stale(), ...shoot.stale(), ...(this.#plan?.findings ?? [])],
      nodes: Object.fromEntries(shoot.claims.values.map((claim) => [claim.publicKey, claim.node])),
      device: this.stats(),
    };
  }

  /** One pass: reads what is known, plans, applies. Throws HostError for what is worth a retry. */
  async reconcile(reasons: readonly string[]): Promise<HostReport> {
    try {
      return await this.#pass(reasons.every((reason) => RELAY_REASONS.has(reason)));
    } catch (error) {
      this.#problem = error instanceof Error ? error.message : String(error);
      throw error;
    }
  }

  /** `isHurried`: a peer fell silent or came back, and only the choice of the relay can differ. */
  async #pass(isHurried: boolean): Promise<HostReport> {
    const { tunnels, shoot } = this.#parts;
    const gone = tunnels.gone();
    if (gone !== null) return await this.#leaveTunnel(gone);
    const tunnel = tunnels.tunnel();
    if (!tunnel.ok) return this.#wait(tunnel.problem);
    const identity = tunnels.identity(tunnel.value);
    if (!identity.ok) {
      if (this.#identity !== null && !tunnels.holdsSlot()) await this.#leaveSlot();
      return this.#wait(identity.problem);
    }
    this.#identity = identity.value;
    const endpoint = tunnel.value.endpoint ?? shoot.endpoint();
    this.#endpoint = endpoint;
    if (!isHurried) this.#pod = await this.#parts.pod();
    const missing = shoot.missing() ?? (endpoint === null ? NO_ENDPOINT : null);
    if (missing !== null) return await this.#waitWithRoutes(missing, tunnel.value, identity.value);
    const plan = this.#planFor(tunnel.value, identity.value, endpoint);
    this.#plan = plan;
    const desired = this.#desired(plan, tunnel.value, identity.value);
    const report = await (isHurried ? this.#end.applyPeers(desired) : this.#end.apply(desired));
    this.#tell(plan.findings);
    const [failure] = report.errors;
    if (failure !== undefined) {
      this.#problem = failure.message;
      return report;
    }
    this.#problem = await this.#whatIsWrong(plan);
    return report;
  }

  #desired(plan: GatewayPlan, tunnel: Tunnel, identity: Identity): TunnelEndDesired {
    const { config } = this.#parts;
    return {
      options: {
        identity: { kind: "gateway", slot: identity.slot },
        privateKey: identity.privateKey,
        interface: config.interface,
        mtu: tunnel.mtu,
        listenPort: 0,
        paths: config.paths,
        offload: config.offload,
      },
      device: plan.device,
      network: plan.network,
      firewall: plan.firewall,
    };
  }

  /**
   * Routes come before peers: an API server that has just started dials at once. Without them its packets would leave by
   * the pod's own network, with a source to which no answer through the tunnel comes, and hang until the dial's timeout.
   * With them they are dropped here, and sent again a second later.
   */
  async #waitWithRoutes(problem: string, tunnel: Tunnel, identity: Identity): Promise<HostReport> {
    const waiting = this.#wait(problem);
    // What is in use already stays as it is.
    if (this.#plan !== null) return waiting;
    const plan = this.#planFor(tunnel, identity, null);
    const report = await this.#end.apply(this.#desired(plan, tunnel, identity));
    const [failure] = report.errors;
    if (failure !== undefined) this.#problem = failure.message;
    return report;
  }

  /** Removes everything of ours from the pod's namespace; the slot is released by its owner. */
  async close(): Promise<void> {
    this.#problem = "stopping";
    await this.#closeEnd();
  }

  /** A Tunnel that is gone leaves nothing: first the device, then the slot, whose key it uses. */
  async #leaveTunnel(problem: string): Promise<HostReport> {
    const report = await this.#closeEnd();
    await this.#parts.tunnels.leave();
    this.#identity = null;
    this.#endpoint = null;
    this.#plan = null;
    this.#wait(problem);
    return report;
  }

  async #closeEnd(): Promise<HostReport> {
    this.#proof = "none";
    this.#proofProblem = UNPROVEN;
    this.#proofRound += 1;
    return await this.#end.close({ interface: this.#parts.config.interface });
  }

  /** Two gateways with one key would take each other's answers. */
  async #leaveSlot(): Promise<void> {
    this.#parts.log.error(
      { slot: this.#identity?.slot },
      "another gateway holds this slot now: leaving it",
    );
    this.#identity = null;
    await this.#closeEnd();
  }

  #planFor(tunnel: Tunnel, { slot }: Identity, endpoint: Endpoint | null): GatewayPlan {
    const { shoot, config, tunnels } = this.#parts;
    const { nodes, claims } = shoot;
    const measured = this.#end.measured();
    this.#relay.choose({ slot, nodes: nodes.values, claims: claims.values, measured });
    const plan = this.#plans.of({
      tunnel,
      slot,
      interface: config.interface,
      nodes: nodes.values,
      claims: claims.values,
      endpoint,
      relay: this.#relay.relay,
      maps: tunnels.maps(),
      pod: this.#pod,
    });
    const findings = [
      ...this.#parts.tunnels.findings(),
      ...nodes.findings,
      ...claims.findings,
      ...plan.findings,
    ];
    return { ...plan, findings };
  }

  /** Null: the kernel leads packets into the tunnel. Whether they are answered is asked in the background. */
  async #whatIsWrong({ network, agents }: GatewayPlan): Promise<string | null> {
    if (agents.planned === 0) return "no agent has registered yet";
    const relay = this.#parts.shoot.nodes.values.find(({ name }) => name === this.#relay.relay);
    const [address] = relay?.addresses ?? [];
    if (address === undefined) return "no node can be the relay: none is Ready and has an agent";
    const sources = network.addresses.map((cidr) => cidr.replace(/\/\d+$/, ""));
    const target = { address, port: KUBELET_PORT, timeoutMs: PROOF_TIMEOUT_MS, sources };
    const wrongWay = await this.#parts.paths.proveRoute(target);
    if (wrongWay === null && this.#proof === "none") this.#prove(target);
    return wrongWay;
  }

  /** A pass must not wait for the answer: a relay may die meanwhile. */
  #prove(target: PathTarget): void {
    const { paths, clock, trigger } = this.#parts;
    const round = this.#proofRound;
    this.#proof = "running";
    void paths.provePath(target).then((problem) => {
      if (round !== this.#proofRound) return;
      this.#proof = problem === null ? "proven" : "none";
      this.#proofProblem = problem ?? UNPROVEN;
      if (problem !== null) clock.after(PROOF_PAUSE_MS, () => trigger("unproven"));
    });
  }

  #wait(problem: string): HostReport {
    if (this.#problem !== problem) this.#parts.log.info({ problem }, "waiting");
    this.#problem = problem;
    return { writes: 0, operations: [], errors: [] };
  }

  /** Findings are logged when they change, not at every pass. */
  #tell(findings: readonly Finding[]): void {
    const text = JSON.stringify(findings);
    if (text === this.#knownFindings) return;
    this.#knownFindings = text;
    for (const { code, object, message } of findings)
      this.#parts.log.warn({ code, object }, message);
  }

  #hear(event: DeviceEvent): void {
    const { log, trigger, tunnels } = this.#parts;
    log.debug({ event }, "data plane");
    switch (event.kind) {
      case "unanswered":
      case "failed":
        if (this.#proof === "proven") this.#proof = "none";
        trigger(event.kind);
        return;
      case "answered":
        trigger(event.kind);
        return;
      case "path":
        log.info(
          { path: event.path, localPort: event.localPort },
          "path replaced: fresh source port",
        );
        return;
      case "handshake":
        tunnels.heardHandshake();
        return;
      case "endpoint":
        return;
    }
  }
}
