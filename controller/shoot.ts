/** One shoot as the controller sees it: told of its gateways, and asked for its agents. */

import { isDeepStrictEqual } from "node:util";
import { parseNode } from "#src/codec/node-codec.ts";
import { parseAgentService } from "#src/codec/service-codec.ts";
import { parseTunnelAgent } from "#src/codec/tunnel-agent-codec.ts";
import { tunnelGatewaysObject, WITHDRAWN } from "#src/codec/tunnel-gateways-codec.ts";
import { pruneNode } from "#src/host/kube/object-store.ts";
import { Readings } from "#src/host/kube/readings.ts";
import { parseIpAddressObject } from "#src/codec/ip-address-codec.ts";
import type { AddressMap } from "#src/model/address-map.ts";
import type { Endpoint } from "#src/model/endpoint.ts";
import type { IpAddress } from "#src/model/ip.ts";
import type { PublicKey } from "#src/model/key.ts";
import type { AgentClaim, NodeFacts, Tunnel } from "#src/model/tunnel.ts";
import { countAgents } from "#src/plan/tunnel-status.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject, Reflector } from "#src/ports/kube.ts";
import {
  IP_ADDRESSES,
  NODES,
  SERVICES,
  TUNNEL_AGENTS,
  TUNNEL_GATEWAYS,
} from "#src/ports/kube-resource.ts";

const AGENT_NAMESPACE = "kube-system";
const AGENT_SERVICE = { namespace: "kube-system", name: "xylem-agent" };
const GATEWAYS = { namespace: "kube-system", name: "xylem" };
/** UID of the Tunnel that the object was published for: only that one takes it away again. */
const OWNER = "xylem.dev/tunnel-uid";

export class Shoot {
  readonly #kube: Kube;
  readonly #nodes: Reflector;
  readonly #agents: Reflector;
  readonly #gateways: Reflector;
  readonly #onChange: (what: string) => void;
  /** Only a tunnel whose seed needs an address of a service range asks. */
  #addresses: Reflector | null = null;
  /** Only a controller that keeps NetworkPolicies asks. */
  #services: Reflector | null = null;
  readonly #nodeFacts = new Readings<NodeFacts>("Node", parseNode);
  readonly #claims = new Readings<AgentClaim>("TunnelAgent", parseTunnelAgent);

  constructor(kube: Kube, onChange: (what: string) => void) {
    this.#kube = kube;
    this.#onChange = onChange;
    this.#nodes = kube.reflect(NODES, {
      onChange: () => {
        if (this.#nodeFacts.update(this.#nodes.items)) onChange("nodes");
      },
      prune: pruneNode,
    });
    this.#agents = kube.reflect(TUNNEL_AGENTS, {
      namespace: AGENT_NAMESPACE,
      onChange: () => {
        if (this.#claims.update(this.#agents.items)) onChange("agents");
      },
    });
    // Whoever removes or changes it by hand ends the tunnel: it must be put right at once, not at the next resync.
    this.#gateways = kube.reflect(TUNNEL_GATEWAYS, {
      namespace: GATEWAYS.namespace,
      fieldSelector: `metadata.name=${GATEWAYS.name}`,
      onChange: () => onChange("gateways"),
    });
  }

  /**
   * Writes `TunnelGateways` when it is absent or differs; answers whether it wrote. `owner` is the Tunnel's UID.
   * Throws HostError.
   */
  async publish(
    what: {
      readonly tunnel: Tunnel;
      readonly keys: readonly PublicKey[];
      readonly maps: readonly AddressMap[];
    },
    owner: string,
  ): Promise<boolean> {
    const wanted = tunnelGatewaysObject(what);
    const held = await this.#published();
    const { [WITHDRAWN]: withdrawn, ...kept } = held?.metadata.annotations ?? {};
    const annotations = { ...kept, [OWNER]: owner };
    if (held === null) {
      const metadata = { ...wanted.metadata, annotations };
      await this.#kube.create(TUNNEL_GATEWAYS, { ...wanted, metadata });
      return true;
    }
    const isOurs = held.metadata.annotations?.[OWNER] === owner;
    const isTheSame = isOurs && withdrawn === undefined;
    if (isTheSame && isDeepStrictEqual(held["spec"], wanted.spec)) return false;
    const metadata = { ...held.metadata, annotations };
    await this.#kube.replace(TUNNEL_GATEWAYS, { ...held, metadata, spec: wanted.spec });
    return true;
  }

  /**
   * Marks `TunnelGateways` as withdrawn, so that agents know that it is meant, and removes it, unless it was published for another Tunnel: a shoot that moved to another seed keeps
   * what that seed told it. Answers whether there was anything to remove. Throws HostError.
   */
  async withdraw(owner: string): Promise<boolean> {
    const held = await this.#published();
    if (held === null || (held.metadata.annotations?.[OWNER] ?? owner) !== owner) return false;
    const mark = {
      resourceVersion: held.metadata.resourceVersion,
      annotations: { [WITHDRAWN]: "true" },
    };
    const marked = await this.#kube.patch(TUNNEL_GATEWAYS, GATEWAYS, { metadata: mark });
    const { uid, resourceVersion } = marked.metadata;
    await this.#kube.delete(TUNNEL_GATEWAYS, GATEWAYS, {
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    });
    return true;
  }

  async #published(): Promise<KubeObject | null> {
    try {
      return await this.#kube.get(TUNNEL_GATEWAYS, GATEWAYS);
    } catch (error) {
      if (isHostError(error) && error.code === "not-found") return null;
      throw error;
    }
  }

  /** Null: not both are listed yet. */
  agents(): { readonly ready: number; readonly total: number } | null {
    if (this.#nodes.items === null || this.#agents.items === null) return null;
    // A pass may come between the list and its notice.
    this.#nodeFacts.update(this.#nodes.items);
    this.#claims.update(this.#agents.items);
    const facts = { nodes: this.#nodeFacts.values, claims: this.#claims.values };
    const { ready, total } = countAgents(facts);
    return { ready, total };
  }

  /** The nodes as last heard. */
  nodes(): readonly NodeFacts[] {
    this.#nodeFacts.update(this.#nodes.items);
    return this.#nodeFacts.values;
  }

  /** The shoot's Services by address, from the first call on; null: not listed yet. */
  services(): ReadonlyMap<IpAddress, string> | null {
    this.#addresses ??= this.#kube.reflect(IP_ADDRESSES, {
      onChange: () => this.#onChange("addresses"),
      prune: ({ metadata: { name, uid, resourceVersion }, spec }) => ({
        metadata: { name, ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) },
        spec,
      }),
    });
    const { items } = this.#addresses;
    return items === null ? null : new Map([...items.values()].flatMap(serviceOf));
  }

  /** Where the agents' balancer is, from the first call on; null: not listed, not there yet, or not to be read. */
  endpoints(): readonly Endpoint[] | null {
    const { namespace, name } = AGENT_SERVICE;
    this.#services ??= this.#kube.reflect(SERVICES, {
      namespace,
      fieldSelector: `metadata.name=${name}`,
      onChange: () => this.#onChange("service"),
    });
    const service = this.#services.items?.get(`${namespace}/${name}`);
    const read = service === undefined ? null : parseAgentService(service);
    if (read === null || !read.ok || read.value.addresses.length === 0) return null;
    const { addresses, port } = read.value;
    return addresses.map((address) => ({ address, port }));
  }

  close(): void {
    const reflectors = [this.#nodes, this.#agents, this.#gateways, this.#addresses, this.#services];
    for (const reflector of reflectors) reflector?.stop();
    this.#kube.close();
  }
}

const serviceOf = (object: KubeObject): readonly (readonly [IpAddress, string])[] => {
  const read = parseIpAddressObject(object);
  return read.ok ? [[read.value.address, `Service ${read.value.service}`]] : [];
};
