/** One shoot as the controller sees it: told of its gateways, and asked for its agents. */

import { isDeepStrictEqual } from "node:util";
import { parseNode } from "#src/codec/node-codec.ts";
import { parseTunnelAgent } from "#src/codec/tunnel-agent-codec.ts";
import { tunnelGatewaysObject } from "#src/codec/tunnel-gateways-codec.ts";
import { pruneNode } from "#src/host/kube/object-store.ts";
import { readAll } from "#src/host/kube/readings.ts";
import type { PublicKey } from "#src/model/key.ts";
import type { Tunnel } from "#src/model/tunnel.ts";
import { countAgents } from "#src/plan/tunnel-status.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, Reflector } from "#src/ports/kube.ts";
import { NODES, TUNNEL_AGENTS, TUNNEL_GATEWAYS } from "#src/ports/kube-resource.ts";

const AGENT_NAMESPACE = "kube-system";

export class Shoot {
  readonly #kube: Kube;
  readonly #nodes: Reflector;
  readonly #agents: Reflector;

  constructor(kube: Kube, onChange: (what: string) => void) {
    this.#kube = kube;
    this.#nodes = kube.reflect(NODES, { onChange: () => onChange("nodes"), prune: pruneNode });
    this.#agents = kube.reflect(TUNNEL_AGENTS, {
      namespace: AGENT_NAMESPACE,
      onChange: () => onChange("agents"),
    });
  }

  /** Writes `TunnelGateways` when it is absent or differs; answers whether it wrote. Throws HostError. */
  async publish(tunnel: Tunnel, keys: readonly PublicKey[]): Promise<boolean> {
    const wanted = tunnelGatewaysObject({ tunnel, keys });
    try {
      const held = await this.#kube.get(TUNNEL_GATEWAYS, wanted.metadata);
      if (isDeepStrictEqual(held["spec"], wanted.spec)) return false;
      await this.#kube.replace(TUNNEL_GATEWAYS, { ...held, spec: wanted.spec });
    } catch (error) {
      if (!isHostError(error) || error.code !== "not-found") throw error;
      await this.#kube.create(TUNNEL_GATEWAYS, wanted);
    }
    return true;
  }

  /** Null: not both are listed yet. */
  agents(): { readonly ready: number; readonly total: number } | null {
    if (this.#nodes.items === null || this.#agents.items === null) return null;
    const nodes = readAll(this.#nodes.items, "Node", parseNode).values;
    const claims = readAll(this.#agents.items, "TunnelAgent", parseTunnelAgent).values;
    const { ready, total } = countAgents({ nodes, claims });
    return { ready, total };
  }

  /** Resolves after the first lists. */
  async synced(): Promise<void> {
    await Promise.all([this.#nodes.synced(), this.#agents.synced()]);
  }

  close(): void {
    this.#kube.close();
  }
}
