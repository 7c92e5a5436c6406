/** What the shoot's API server says that an agent needs, read into the model; unreadable objects become findings. */

import { parseNode } from "#src/codec/node-codec.ts";
import { parseTunnelAgent } from "#src/codec/tunnel-agent-codec.ts";
import { parseTunnelGateways, WITHDRAWN } from "#src/codec/tunnel-gateways-codec.ts";
import { Readings, whatIsMissing, whatIsStale } from "#src/host/kube/readings.ts";
import { NODES, TUNNEL_AGENTS, TUNNEL_GATEWAYS } from "#src/ports/kube-resource.ts";
import type { Finding } from "#src/model/finding.ts";
import { type Parsed, problem } from "#src/model/parsed.ts";
import type { AgentClaim, NodeFacts, TunnelGateways } from "#src/model/tunnel.ts";
import type { Kube, KubeObject, Reflector } from "#src/ports/kube.ts";

const NAMESPACE = "kube-system";
const GATEWAYS = "xylem";
/**
 * How long a node holds on to TunnelGateways that went without being withdrawn: whoever deleted it may need the tunnel
 * to bring it back, and the controller looks once a minute.
 */
const HOLD_MS = 10 * 60_000;

export class ClusterView {
  readonly nodes = new Readings<NodeFacts>("Node", parseNode);
  readonly claims = new Readings<AgentClaim>("TunnelAgent", parseTunnelAgent);
  readonly #nodes: Reflector;
  readonly #claims: Reflector;
  readonly #gateways: Reflector;
  readonly #nowMs: () => number;
  /** TunnelGateways as it was last seen. */
  #seen: KubeObject | undefined = undefined;
  #lostSinceMs: number | null = null;

  /** `onChange` hears of facts that changed, and of the first list of each kind. */
  constructor(kube: Kube, nowMs: () => number, onChange: (what: string) => void) {
    this.#nowMs = nowMs;
    this.#nodes = kube.reflect(NODES, {
      onChange: () => {
        if (this.nodes.update(this.#nodes.items)) onChange("nodes");
      },
      prune: this.nodes.prune,
    });
    this.#claims = kube.reflect(TUNNEL_AGENTS, {
      namespace: NAMESPACE,
      onChange: () => {
        if (this.claims.update(this.#claims.items)) onChange("agents");
      },
      prune: this.claims.prune,
    });
    this.#gateways = kube.reflect(TUNNEL_GATEWAYS, {
      namespace: NAMESPACE,
      fieldSelector: `metadata.name=${GATEWAYS}`,
      onChange: () => {
        this.#look();
        onChange("gateways");
      },
      // The mark and the removal may come at once.
      onRemove: (object) => {
        this.#seen = object;
      },
    });
  }

  /** Null once everything was listed; else the sentence that says what is missing. */
  missing(): string | null {
    return whatIsMissing("the API server", [this.#nodes, this.#claims, this.#gateways]);
  }

  /** Says when the API server can't be heard any more. */
  stale(): readonly Finding[] {
    return whatIsStale("the API server", [this.#nodes, this.#claims, this.#gateways]);
  }

  /** Null while the object is there or not known yet; else the sentence that says why this node holds no tunnel. */
  gone(): string | null {
    if (this.#gateways.items === null || this.#object() !== undefined) return null;
    return `TunnelGateways ${NAMESPACE}/${GATEWAYS} does not exist: nothing of a tunnel is left on this node until the controller in the seed makes it`;
  }

  gateways(): Parsed<TunnelGateways> {
    const object = this.#object();
    return object === undefined
      ? problem(this.gone() ?? "TunnelGateways are not listed yet")
      : parseTunnelGateways(object);
  }

  /** Says that the object was deleted, but the tunnel is held for a while. */
  lost(): readonly Finding[] {
    if (this.#lostSinceMs === null || this.#object() === undefined) return [];
    const object = `TunnelGateways ${NAMESPACE}/${GATEWAYS}`;
    const message = `${object} was deleted, and not by the controller: this node keeps its tunnel for ${HOLD_MS / 60_000} minutes, in which the controller makes it anew`;
    return [{ code: "gateways-lost", object, message }];
  }

  /** The object, or for a while what it was. */
  #object(): KubeObject | undefined {
    this.#look();
    if (this.#lostSinceMs === null) return this.#seen;
    return this.#nowMs() - this.#lostSinceMs < HOLD_MS ? this.#seen : undefined;
  }

  #look(): void {
    const object = this.#gateways.items?.get(`${NAMESPACE}/${GATEWAYS}`);
    if (object !== undefined) {
      this.#seen = object;
      this.#lostSinceMs = null;
      return;
    }
    if (this.#seen?.metadata.annotations?.[WITHDRAWN] === "true") this.#seen = undefined;
    if (this.#seen !== undefined) this.#lostSinceMs ??= this.#nowMs();
    else this.#lostSinceMs = null;
  }

  stop(): void {
    for (const reflector of [this.#nodes, this.#claims, this.#gateways]) reflector.stop();
  }
}
