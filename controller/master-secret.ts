/** Makes a tunnel's master secret once and derives the public keys of its slots. */

import {
  MASTER_BYTES,
  parseMasterSecret,
  publicKeyOf,
  slotPrivateKey,
} from "#src/host/slot-keys.ts";
import type { PublicKey } from "#src/model/key.ts";
import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import { slotsUpTo } from "#src/model/slot.ts";
import type { Tunnel } from "#src/model/tunnel.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject } from "#src/ports/kube.ts";
import { SECRETS } from "#src/ports/kube-resource.ts";
import type { Random } from "#src/ports/random.ts";

/** `<tunnel>-xylem`, beside the Tunnel. */
export const masterSecretName = (tunnel: string): string => `${tunnel}-xylem`;

/**
 * Public keys of slots 0 to `slots - 1`. The Secret is made when it is absent and never changed: agents know
 * the keys of the one that is there. A Secret that can't be used is a problem with the fix in it.
 */
export const ensureSlotKeys = async (
  parts: { readonly kube: Kube; readonly random: Random },
  tunnel: Tunnel,
  owner: KubeObject,
): Promise<Parsed<readonly PublicKey[]>> => {
  const secret = await ensureSecret(parts, tunnel, owner);
  if (isOfAnother(secret, owner)) {
    return problem(
      `Secret ${tunnel.namespace}/${secret.metadata.name} belongs to a deleted Tunnel of the same name: waiting until garbage collection removes it; delete it if it stays`,
    );
  }
  const master = parseMasterSecret(secret);
  if (!master.ok) return master;
  const keys: PublicKey[] = [];
  for (const slot of slotsUpTo(tunnel.slots)) {
    const key = slotPrivateKey(master.value, slot);
    if (!key.ok) return key;
    keys.push(publicKeyOf(key.value));
  }
  master.value.fill(0);
  return parsed(keys);
};

/** A Tunnel made anew gets new keys: the garbage collector is about to remove those of the old one. */
const isOfAnother = (secret: KubeObject, owner: KubeObject): boolean =>
  (secret.metadata.ownerReferences ?? []).some((reference) => {
    const { kind, name, uid }: Record<string, unknown> = { ...Object(reference) };
    return kind === "Tunnel" && name === owner.metadata.name && uid !== owner.metadata.uid;
  });

const ensureSecret = async (
  { kube, random }: { readonly kube: Kube; readonly random: Random },
  tunnel: Tunnel,
  owner: KubeObject,
): Promise<KubeObject> => {
  const name = { namespace: tunnel.namespace, name: masterSecretName(tunnel.name) };
  try {
    return await kube.get(SECRETS, name);
  } catch (error) {
    if (!isHostError(error) || error.code !== "not-found") throw error;
  }
  const { uid } = owner.metadata;
  const reference = {
    apiVersion: "xylem.dev/v1alpha1",
    kind: "Tunnel",
    name: tunnel.name,
    uid,
    controller: true,
    blockOwnerDeletion: false,
  };
  try {
    return await kube.create(SECRETS, {
      metadata: {
        ...name,
        labels: { "app.kubernetes.io/managed-by": "xylem", "xylem.dev/tunnel": tunnel.name },
        ...(uid === undefined ? {} : { ownerReferences: [reference] }),
      },
      type: "xylem.dev/master",
      immutable: true,
      data: { master: Buffer.from(random.bytes(MASTER_BYTES)).toString("base64") },
    });
  } catch (error) {
    // Another controller was quicker: theirs counts.
    if (isHostError(error) && error.code === "already-exists") return await kube.get(SECRETS, name);
    throw error;
  }
};
