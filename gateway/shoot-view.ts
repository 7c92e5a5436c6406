/** What the shoot's API server says that a gateway needs, read into the model; unreadable objects become findings. */

import { parseNode } from "#src/codec/node-codec.ts";
import { parseAgentService } from "#src/codec/service-codec.ts";
import { parseTunnelAgent } from "#src/codec/tunnel-agent-codec.ts";
import { NODES, SERVICES, TUNNEL_AGENTS } from "#src/ports/kube-resource.ts";
import { Readings, whatIsMissing, whatIsStale } from "#src/host/kube/readings.ts";
import type { Endpoint } from "#src/model/endpoint.ts";
import type { Finding } from "#src/model/finding.ts";
import type { AgentClaim, NodeFacts } from "#src/model/tunnel.ts";
import type { Kube, Reflector } from "#src/ports/kube.ts";

const AGENT_NAMESPACE = "kube-system";
const AGENT_SERVICE = "xylem-agent";

export class ShootView {
  readonly nodes = new Readings<NodeFacts>("Node", parseNode);
  readonly claims = new Readings<AgentClaim>("TunnelAgent", parseTunnelAgent);
  readonly #nodes: Reflector;
  readonly #claims: Reflector;
  readonly #services: Reflector;

  /** `onChange` hears of facts that changed, and of the first list of each kind. */
  constructor(kube: Kube, onChange: (what: string) => void) {
    this.#nodes = kube.reflect(NODES, {
      onChange: () => {
        if (this.nodes.update(this.#nodes.items)) onChange("nodes");
      },
      prune: this.nodes.prune,
    });
    this.#claims = kube.reflect(TUNNEL_AGENTS, {
      namespace: AGENT_NAMESPACE,
      onChange: () => {
        if (this.claims.update(this.#claims.items)) onChange("agents");
      },
      prune: this.claims.prune,
    });
    this.#services = kube.reflect(SERVICES, {
      namespace: AGENT_NAMESPACE,
      fieldSelector: `metadata.name=${AGENT_SERVICE}`,
      onChange: () => onChange("service"),
    });
  }

  /** Null once everything was listed; else the sentence that says what is missing. */
  missing(): string | null {
    return whatIsMissing("the shoot's API server", [this.#nodes, this.#claims, this.#services]);
  }

  /** Says when the shoot can't be heard any more. */
  stale(): readonly Finding[] {
    const reflectors = [this.#nodes, this.#claims, this.#services];
    return whatIsStale("the shoot's API server", reflectors);
  }

  /** The balancer's first address; null while there is none. */
  endpoint(): Endpoint | null {
    const service = this.#services.items?.get(`${AGENT_NAMESPACE}/${AGENT_SERVICE}`);
    if (service === undefined) return null;
    const read = parseAgentService(service);
    if (!read.ok) return null;
    const [address] = read.value.addresses;
    return address === undefined ? null : { address, port: read.value.port };
  }

  stop(): void {
    for (const reflector of [this.#nodes, this.#claims, this.#services]) reflector.stop();
  }
}
