/** Keeps the one object that this node's agent writes: written when it is missing or differs, else never. */

import { tunnelAgentObject } from "#src/codec/tunnel-agent-codec.ts";
import { TUNNEL_AGENTS } from "#src/ports/kube-resource.ts";
import type { AgentId } from "#src/model/agent-id.ts";
import type { PublicKey } from "#src/model/key.ts";
import type { AgentClaim, NodeFacts } from "#src/model/tunnel.ts";
import { chooseAgentId } from "#src/plan/agent-id-plan.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube } from "#src/ports/kube.ts";
import type { Log } from "#src/ports/log.ts";

export interface RegistrationFacts {
  readonly node: NodeFacts;
  readonly claims: readonly AgentClaim[];
  readonly publicKey: PublicKey;
  readonly port: number;
  readonly version: string;
}

/**
 * Returns the agent id that this node has, after writing the claim if that was needed. A write that is refused
 * while an older claim of ours stands does not stop the tunnel (catalogue S3): it is logged and tried again later.
 */
export const register = async (
  parts: { readonly kube: Kube; readonly log: Log },
  facts: RegistrationFacts,
): Promise<AgentId> => {
  const { node, claims, publicKey, port } = facts;
  const agentId = chooseAgentId({ node: node.name, claims });
  const own = claims.find((claim) => claim.node === node.name);
  if (
    own !== undefined &&
    own.agentId === agentId &&
    own.publicKey === publicKey &&
    own.port === port
  ) {
    return agentId;
  }
  const object = tunnelAgentObject({
    node,
    claim: { publicKey, agentId, port },
    version: facts.version,
  });
  try {
    if (own === undefined) await parts.kube.create(TUNNEL_AGENTS, object);
    else {
      const { namespace, name, ownerReferences } = object.metadata;
      const patch = { metadata: { ownerReferences }, spec: object.spec };
      await parts.kube.patch(TUNNEL_AGENTS, { namespace, name }, patch);
    }
    parts.log.info(
      { agentId, publicKey },
      own === undefined ? "registered" : "registration updated",
    );
    return agentId;
  } catch (error) {
    if (own === undefined || own.publicKey !== publicKey || !isHostError(error)) throw error;
    parts.log.warn(
      { code: error.code },
      `the registration could not be updated, the old one stands: ${error.message}`,
    );
    return own.agentId;
  }
};
