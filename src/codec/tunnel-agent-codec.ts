/** `TunnelAgent` of xylem.dev/v1alpha1: one node's claim of a key, an agent id and a port (docs/objects.md). */

import { parseAgentId } from "#src/model/agent-id.ts";
import { parsePort } from "#src/model/endpoint.ts";
import { parsePublicKey } from "#src/model/key.ts";
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
export const tunnelAgentObject = (options: {
  readonly node: { readonly name: string; readonly uid: string };
  readonly claim: Pick<AgentClaim, "publicKey" | "agentId" | "port">;
  readonly version: string;
}) => ({
  apiVersion: "xylem.dev/v1alpha1",
  kind: "TunnelAgent",
  metadata: {
    namespace: "kube-system",
    name: options.node.name,
    labels: { "app.kubernetes.io/managed-by": "xylem" },
    ownerReferences: [
      { apiVersion: "v1", kind: "Node", name: options.node.name, uid: options.node.uid },
    ],
  },
  spec: {
    publicKey: options.claim.publicKey,
    agentId: options.claim.agentId,
    port: options.claim.port,
    version: options.version,
  },
});
