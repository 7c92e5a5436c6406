/** Takes back what a Tunnel made in its shoot and in the seed before the Tunnel itself may go (its finalizer). */

import { parseSlotLease } from "#src/codec/lease-codec.ts";
import { formatTimestamp, parseTimestamp } from "#src/model/timestamp.ts";
import type { Clock } from "#src/ports/clock.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeName, KubeObject } from "#src/ports/kube.ts";
import { EVENTS, LEASES, TUNNELS } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import type { AddressMapKeeper } from "./address-maps.ts";
import { removePolicies } from "./policy-removal.ts";
import type { Shoot } from "./shoot.ts";

/** Keeps a Tunnel until its shoot was told; set before anything is made for it. */
export const FINALIZER = "xylem.dev/tunnel";

/** The annotation with which a person says "true": the shoot is gone, don't wait for it. */
export const FORCE_DELETE = "xylem.dev/force-delete";

/**
 * A shoot that can't be told for so long most probably is gone itself, and nobody may be stuck for ever: longer than a
 * restart of an API server takes, shorter than the patience of whoever deletes a namespace.
 */
export const GIVE_UP_MS = 10 * 60_000;

export interface RemovalParts {
  readonly seed: Kube;
  readonly clock: Clock;
  readonly log: Log;
  /** Where address maps are given back. */
  readonly maps?: Pick<AddressMapKeeper, "release">;
  /** Left out: no NetworkPolicies are kept, and what an earlier controller kept goes by its owner reference. */
  readonly policies?: unknown;
}

export interface RemovalFacts {
  /** With a deletionTimestamp. */
  readonly object: KubeObject;
  /** Opened at the first call. */
  readonly shoot: () => Shoot;
}

export const hasFinalizer = (object: KubeObject): boolean =>
  finalizersOf(object).includes(FINALIZER);

/**
 * Removes TunnelGateways from the shoot, then the tunnel's Leases, then the finalizer; the Secret goes by its owner
 * reference. In this order, because the way into the shoot is needed for as long as admission there calls webhooks.
 * Null: done; else why the shoot could not be told. Throws HostError when the seed's API server fails.
 */
export const removeTunnel = async (
  parts: RemovalParts,
  facts: RemovalFacts,
): Promise<string | null> => {
  const { object } = facts;
  if (!hasFinalizer(object)) return null;
  const problem = isForced(object) ? null : await withdraw(parts, facts);
  if (problem !== null && !isOverdue(parts, object)) {
    const untilMs = deletedMs(parts, object) + GIVE_UP_MS;
    return `${problem}; tried until ${formatTimestamp(untilMs)}, annotate the Tunnel with ${FORCE_DELETE}=true to leave the shoot as it is at once`;
  }
  if (problem !== null) await tellGivenUp(parts, object, problem);
  await removeLeases(parts, object);
  // Last of what gateways need: until here they may have had to speak.
  if (parts.policies !== undefined) await removePoliciesOf(parts, object);
  await parts.maps?.release(object.metadata.uid ?? "");
  const { resourceVersion } = object.metadata;
  const finalizers = finalizersOf(object).filter((name) => name !== FINALIZER);
  await parts.seed.patch(TUNNELS, nameOf(object), { metadata: { resourceVersion, finalizers } });
  parts.log.info({ tunnel: describe(object), isForced: isForced(object) }, "The Tunnel is removed");
  return null;
};

const withdraw = async (
  { log }: RemovalParts,
  { object, shoot }: RemovalFacts,
): Promise<string | null> => {
  try {
    const hadOne = await shoot().withdraw(object.metadata.uid ?? "");
    if (hadOne) log.info({ tunnel: describe(object) }, "TunnelGateways is removed from the shoot");
    return null;
  } catch (error) {
    if (!isHostError(error)) throw error;
    return `TunnelGateways can't be removed from the shoot: ${error.message}`;
  }
};

const removePoliciesOf = async ({ seed }: RemovalParts, object: KubeObject): Promise<void> => {
  const { namespace, name } = object.metadata;
  await removePolicies(seed, { namespace, tunnel: name });
};

/** Leases of gateways that did not release them; those that run see the Tunnel go and stop. */
const removeLeases = async ({ seed }: RemovalParts, object: KubeObject): Promise<void> => {
  const { namespace, name } = object.metadata;
  const leases = await seed.list(LEASES, {
    ...(namespace === undefined ? {} : { namespace }),
    labelSelector: `xylem.dev/tunnel=${name}`,
  });
  for (const lease of leases) {
    const read = parseSlotLease(lease);
    if (read.ok && read.value.tunnel === name) await seed.delete(LEASES, nameOf(lease));
  }
};

/** For people, in the log and as an Event; that one can't be written ends nothing (the namespace may be going too). */
const tellGivenUp = async (
  { seed, clock, log }: RemovalParts,
  object: KubeObject,
  problem: string,
): Promise<void> => {
  const message = `${problem}; given up after ${GIVE_UP_MS / 60_000} minutes: if that cluster still lives, delete its TunnelGateways kube-system/xylem by hand`;
  log.warn({ tunnel: describe(object) }, message);
  const { namespace, name, uid = "" } = object.metadata;
  const at = formatTimestamp(clock.wallMs());
  const event = {
    metadata: { namespace: namespace ?? "default", name: `${name}.${uid.slice(0, 8)}.given-up` },
    involvedObject: { apiVersion: "xylem.dev/v1alpha1", kind: "Tunnel", namespace, name, uid },
    type: "Warning",
    reason: "ShootNotTold",
    message: message.slice(0, EVENT_MESSAGE_CHARS_MAX),
    source: { component: "xylem-controller" },
    firstTimestamp: at,
    lastTimestamp: at,
    count: 1,
  };
  try {
    await seed.create(EVENTS, event);
  } catch (error) {
    if (!isHostError(error)) throw error;
    log.debug({ code: error.code }, `The Event was not written: ${error.message}`);
  }
};

/** The API server's limit on an Event's message, in bytes. */
const EVENT_MESSAGE_CHARS_MAX = 1_024;

const isForced = ({ metadata }: KubeObject): boolean =>
  metadata.annotations?.[FORCE_DELETE] === "true";

const isOverdue = (parts: RemovalParts, object: KubeObject): boolean =>
  parts.clock.wallMs() - deletedMs(parts, object) >= GIVE_UP_MS;

/** The API server writes the timestamp; one that can't be read is no reason to wait for ever. */
const deletedMs = ({ clock }: RemovalParts, { metadata }: KubeObject): number => {
  const read = parseTimestamp(metadata.deletionTimestamp);
  return read.ok ? read.value : clock.wallMs() - GIVE_UP_MS;
};

const finalizersOf = ({ metadata }: KubeObject): readonly unknown[] => {
  const finalizers = metadata["finalizers"];
  return Array.isArray(finalizers) ? finalizers : [];
};

const nameOf = ({ metadata: { namespace, name } }: KubeObject): KubeName =>
  namespace === undefined ? { name } : { namespace, name };

const describe = ({ metadata: { namespace, name } }: KubeObject): string => `${namespace}/${name}`;
