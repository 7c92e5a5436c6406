/** `TunnelAgent` of xylem.dev/v1alpha1: one node's claim of a key, an agent id and a port (docs/objects.md). */

import { parseAgentId, type AgentId } from "#src/model/agent-id.ts";
import { parsePort } from "#src/model/endpoint.ts";
import { parsePublicKey, type PublicKey } from "#src/model/key.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { parseTimestamp } from "#src/model/timestamp.ts";
import type { AgentClaim } from "#src/model/tunnel.ts";
import { fieldAt, fieldOf, parseName, parseUid, reading, take } from "./fields.ts";

/** Reads a TunnelAgent; whatever its agent wrote gives a claim or a problem. */
export const parseTunnelAgent = (object: unknown): Parsed<AgentClaim> =>
  reading({ kind: "TunnelAgent", object }, (root) => {
    const metadata = fieldOf(root, "metadata");
    const spec = fieldOf(root, "spec");
    return {
      node: take(fieldOf(metadata, "name"), parseName),
      uid: take(fieldOf(metadata, "uid"), parseUid),
      createdMs: take(fieldAt(metadata, "creationTimestamp"), parseTimestamp),
      publicKey: take(fieldOf(spec, "publicKey"), parsePublicKey),
      agentId: take(fieldOf(spec, "agentId"), parseAgentId),
      port: take(fieldOf(spec, "port"), parsePort),
    };
  });

/** Prints the object that an agent writes for its node; owned by the Node, so that it goes with it. */
export const tunnelAgentObject = (facts: {
  readonly node: string;
  readonly nodeUid: string;
  readonly publicKey: PublicKey;
  readonly agentId: AgentId;
  readonly port: number;
  readonly version: string;
}) => ({
  apiVersion: "xylem.dev/v1alpha1",
  kind: "TunnelAgent",
  metadata: {
    namespace: "kube-system",
    name: facts.node,
    labels: { "app.kubernetes.io/managed-by": "xylem" },
    ownerReferences: [{ apiVersion: "v1", kind: "Node", name: facts.node, uid: facts.nodeUid }],
  },
  spec: {
    publicKey: facts.publicKey,
    agentId: facts.agentId,
    port: facts.port,
    version: facts.version,
  },
});
