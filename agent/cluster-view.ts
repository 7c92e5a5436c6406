/** What the shoot's API server says that an agent needs, read into the model; unreadable objects become findings. */

import { parseNode } from "#src/codec/node-codec.ts";
import { parseTunnelAgent } from "#src/codec/tunnel-agent-codec.ts";
import { parseTunnelGateways } from "#src/codec/tunnel-gateways-codec.ts";
import { pruneNode } from "#src/host/kube/object-store.ts";
import { Readings, whatIsMissing, whatIsStale } from "#src/host/kube/readings.ts";
import { NODES, TUNNEL_AGENTS, TUNNEL_GATEWAYS } from "#src/ports/kube-resource.ts";
import type { Finding } from "#src/model/finding.ts";
import { type Parsed, problem } from "#src/model/parsed.ts";
import type { AgentClaim, NodeFacts, TunnelGateways } from "#src/model/tunnel.ts";
import type { Kube, KubeObject, Reflector } from "#src/ports/kube.ts";

const NAMESPACE = "kube-system";
const GATEWAYS = "xylem";

export class ClusterView {
  readonly nodes = new Readings<NodeFacts>("Node", parseNode);
  readonly claims = new Readings<AgentClaim>("TunnelAgent", parseTunnelAgent);
  readonly #nodes: Reflector;
  readonly #claims: Reflector;
  readonly #gateways: Reflector;

  /** `onChange` hears of facts that changed, and of the first list of each kind. */
  constructor(kube: Kube, onChange: (what: string) => void) {
    this.#nodes = kube.reflect(NODES, {
      onChange: () => {
        if (this.nodes.update(this.#nodes.items)) onChange("nodes");
      },
      prune: pruneNode,
    });
    this.#claims = kube.reflect(TUNNEL_AGENTS, {
      namespace: NAMESPACE,
      onChange: () => {
        if (this.claims.update(this.#claims.items)) onChange("agents");
      },
    });
    this.#gateways = kube.reflect(TUNNEL_GATEWAYS, {
      namespace: NAMESPACE,
      fieldSelector: `metadata.name=${GATEWAYS}`,
      onChange: () => onChange("gateways"),
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

  #object(): KubeObject | undefined {
    return this.#gateways.items?.get(`${NAMESPACE}/${GATEWAYS}`);
  }

  stop(): void {
    for (const reflector of [this.#nodes, this.#claims, this.#gateways]) reflector.stop();
  }
}
