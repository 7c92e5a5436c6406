/** One pass over one Tunnel: secret, publication in the shoot, status; zero writes when nothing changed. */

import { parseTunnelMaps } from "#src/codec/address-map-fields.ts";
import { parseSlotLease } from "#src/codec/lease-codec.ts";
import { parseTunnel } from "#src/codec/tunnel-codec.ts";
import type { AddressMap } from "#src/model/address-map.ts";
import { containsIp } from "#src/model/cidr.ts";
import { parseIp } from "#src/model/ip.ts";
import { parseSlot } from "#src/model/slot.ts";
import type { Tunnel } from "#src/model/tunnel.ts";
import type { AuditSummary } from "#src/plan/injection/audit-plan.ts";
import { type Bridging, planBridging } from "#src/plan/bridging.ts";
import { slotAddresses } from "#src/plan/transit.ts";
import {
  type GatewayStatus,
  type PoliciesStatus,
  type Publication,
  planTunnelStatus,
} from "#src/plan/tunnel-status.ts";
import type { Clock } from "#src/ports/clock.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject } from "#src/ports/kube.ts";
import { TUNNELS } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import type { RunResult } from "#src/reconcile/loop.ts";
import type { AddressMapAnswer, AddressMapKeeper } from "./address-maps.ts";
import type { TunnelName } from "./config.ts";
import { FINALIZER, hasFinalizer, removeTunnel } from "./removal.ts";
import { ensureSlotKeys } from "./master-secret.ts";
import type { PolicyKeeper } from "./policies.ts";
import type { Shoot } from "./shoot.ts";

export interface TunnelPassParts {
  readonly seed: Kube;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** What the audit says of a tunnel's pods, null before its first look; left out: nothing is injected here. */
  readonly audit?: (tunnel: TunnelName) => AuditSummary | null;
  /** Gives address maps; left out: this controller was not told which seed it is in, and no tunnel has any. */
  readonly maps?: AddressMapKeeper;
  /** Keeps the tunnel's NetworkPolicies; left out: nobody does. */
  readonly policies?: Pick<PolicyKeeper, "ensure">;
}

export interface TunnelPassFacts {
  readonly object: KubeObject;
  readonly leases: readonly KubeObject[];
  /** Opened at the first call: a Tunnel with a bad spec needs no shoot. */
  readonly shoot: () => Shoot;
}

/** Runs the pass. Throws HostError when the seed's API server fails; the shoot's failures become the status. */
export const passTunnel = async (
  parts: TunnelPassParts,
  facts: TunnelPassFacts,
): Promise<RunResult> => {
  const { object } = facts;
  if (object.metadata.deletionTimestamp !== undefined) return await remove(parts, facts);
  const spec = parseTunnel(object);
  if (!spec.ok) {
    await writeStatus(parts, facts, { kind: "pending", message: "the spec is not valid" });
    return { kind: "rejected", problem: spec.problem };
  }
  await ensureFinalizer(parts, object);
  const answer = await mapsOf(parts, object, spec.value);
  // Before the shoot is spoken to: under default-deny its API server may be closed to us until then.
  const policies = await policiesOf(parts, facts, spec.value);
  const publication = await publish(parts, facts, { tunnel: spec.value, maps: answer.maps });
  await writeStatus(parts, facts, publication, { ...answer, ...(policies && { policies }) });
  if (publication.kind === "failed") return { kind: "retry", problem: publication.message };
  return policies?.reason === "ApplyFailed"
    ? { kind: "retry", problem: policies.message }
    : { kind: "reached" };
};

const policiesOf = async (
  { policies }: TunnelPassParts,
  { object, shoot }: TunnelPassFacts,
  tunnel: Tunnel,
): Promise<PoliciesStatus | undefined> => {
  if (policies === undefined) return undefined;
  const endpoints = tunnel.endpoint === null ? shoot().endpoints() : [tunnel.endpoint];
  return await policies.ensure({ tunnel, uid: object.metadata.uid ?? "", endpoints });
};

/** Before anything is made: a Tunnel must not go while the shoot still knows its keys. */
const ensureFinalizer = async ({ seed }: TunnelPassParts, object: KubeObject): Promise<void> => {
  if (hasFinalizer(object)) return;
  const { namespace, name, resourceVersion } = object.metadata;
  const key = namespace === undefined ? { name } : { namespace, name };
  const held: unknown = object.metadata["finalizers"];
  const finalizers = [...(Array.isArray(held) ? held : []), FINALIZER];
  await seed.patch(TUNNELS, key, { metadata: { resourceVersion, finalizers } });
};

/** What could not be planned leaves what was published: a map is never taken back. */
const mapsOf = async (
  { maps: keeper }: TunnelPassParts,
  object: KubeObject,
  tunnel: Tunnel,
): Promise<AddressMapAnswer> => {
  if (keeper === undefined) return { maps: mapsBefore(object), problems: [] };
  const answer = await keeper.ensure(tunnel, object.metadata.uid ?? "");
  return answer.ok ? answer.value : { maps: mapsBefore(object), problems: [answer.problem] };
};

const mapsBefore = (object: KubeObject): readonly AddressMap[] => {
  const read = parseTunnelMaps(object);
  return read.ok ? read.value : [];
};

const remove = async (parts: TunnelPassParts, facts: TunnelPassFacts): Promise<RunResult> => {
  const waitsFor = await removeTunnel(parts, facts);
  if (waitsFor === null) return { kind: "reached" };
  await writeStatus(parts, facts, { kind: "withdrawing", message: waitsFor });
  return { kind: "retry", problem: waitsFor };
};

const publish = async (
  parts: TunnelPassParts,
  facts: TunnelPassFacts,
  { tunnel, maps }: { readonly tunnel: Tunnel; readonly maps: readonly AddressMap[] },
): Promise<Publication> => {
  const keys = await ensureSlotKeys(
    { kube: parts.seed, random: parts.random },
    tunnel,
    facts.object,
  );
  if (!keys.ok) return { kind: "failed", message: keys.problem };
  try {
    const owner = facts.object.metadata.uid ?? "";
    const hasWritten = await facts.shoot().publish({ tunnel, keys: keys.value, maps }, owner);
    if (hasWritten) {
      const name = `${tunnel.namespace}/${tunnel.name}`;
      parts.log.info({ tunnel: name, slots: tunnel.slots }, "The shoot was told of its gateways");
    }
    return { kind: "published" };
  } catch (error) {
    if (!isHostError(error)) throw error;
    return { kind: "failed", message: `The shoot can't be told of its gateways: ${error.message}` };
  }
};

const writeStatus = async (
  parts: TunnelPassParts,
  facts: TunnelPassFacts,
  publication: Publication,
  answer: AddressMapAnswer & { readonly policies?: PoliciesStatus } = {
    maps: mapsBefore(facts.object),
    problems: [],
  },
): Promise<void> => {
  const { object, leases } = facts;
  const spec = parseTunnel(object);
  const nowMs = parts.clock.wallMs();
  const { namespace, name } = object.metadata;
  const key = namespace === undefined ? { name } : { namespace, name };
  const { status, isChanged } = planTunnelStatus({
    generation: object.metadata.generation ?? 0,
    spec,
    publication,
    gateways: spec.ok ? holdersOf(spec.value, leases, nowMs) : gatewaysBefore(object),
    agents: (spec.ok ? facts.shoot().agents() : null) ?? agentsBefore(object),
    injection:
      parts.audit === undefined
        ? null
        : (parts.audit({ namespace: namespace ?? "", name }) ?? "not-looked-yet"),
    bridging: spec.ok ? bridgingOf(spec.value, facts, answer) : null,
    maps: answer.maps,
    ...(answer.policies && { policies: answer.policies }),
    lastHandshakeMs: lastHandshakeOf(object, leases, nowMs),
    previous: object["status"],
    nowMs,
  });
  if (!isChanged) return;
  await parts.seed.patchStatus(TUNNELS, key, { status });
};

/** Services are only asked for where an address that the seed needs could be one. */
const bridgingOf = (
  tunnel: Tunnel,
  { shoot }: TunnelPassFacts,
  { maps, problems }: AddressMapAnswer,
): Bridging | null => {
  const { seedAddresses, ranges } = tunnel;
  const isServiceNeeded = seedAddresses.some(({ address }) =>
    ranges.services.some((range) => containsIp(range, address)),
  );
  const services = isServiceNeeded ? shoot().services() : null;
  return planBridging({ tunnel, maps, problems, nodes: shoot().nodes(), services });
};

/** Who holds which slot now: released and expired Leases are nobody's. */
const holdersOf = (
  tunnel: Tunnel,
  leases: readonly KubeObject[],
  nowMs: number,
): readonly GatewayStatus[] =>
  leases.flatMap((object) => {
    const read = parseSlotLease(object);
    if (!read.ok || object.metadata.namespace !== tunnel.namespace) return [];
    const { slot, holder, gatewayName, expiresMs } = read.value;
    if (read.value.tunnel !== tunnel.name || slot >= tunnel.slots) return [];
    const [address] = slotAddresses(tunnel.transit, slot);
    if (holder === null || expiresMs <= nowMs || address === undefined) return [];
    return [{ slot, holder: gatewayName ?? holder, address }];
  });

/** The newest that a gateway told with its Lease; a clock that is ahead must not stop the status from moving. */
const lastHandshakeOf = (
  object: KubeObject,
  leases: readonly KubeObject[],
  nowMs: number,
): number | null => {
  const { namespace, name } = object.metadata;
  const told = leases.flatMap((lease) => {
    const read = parseSlotLease(lease);
    if (!read.ok || lease.metadata.namespace !== namespace || read.value.tunnel !== name) return [];
    return read.value.lastHandshakeMs ?? [];
  });
  return told.length === 0 ? null : Math.min(nowMs, Math.max(...told));
};

/** What the status said last: a spec that is not taken ends no gateway. Only we write the status, the CRD checks it. */
const gatewaysBefore = (object: KubeObject): readonly GatewayStatus[] => {
  const before = member(object["status"], "gateways");
  return (Array.isArray(before) ? before : []).flatMap((entry: unknown) => {
    const slot = parseSlot(member(entry, "slot"));
    const address = parseIp(member(entry, "address"));
    const holder = member(entry, "holder");
    if (!slot.ok || !address.ok || typeof holder !== "string") return [];
    return [{ slot: slot.value, holder, address: address.value }];
  });
};

/** Type and status of what the status says now. */
export const conditionsOf = (
  object: KubeObject,
): readonly { readonly type: string; readonly status: string }[] => {
  const conditions = member(object["status"], "conditions");
  return (Array.isArray(conditions) ? conditions : []).flatMap((condition: unknown) => {
    const [type, status] = [member(condition, "type"), member(condition, "status")];
    return typeof type === "string" && typeof status === "string" ? [{ type, status }] : [];
  });
};

/** What the status said last, while the shoot has not been listed. */
const agentsBefore = (object: KubeObject): { readonly ready: number; readonly total: number } => {
  const agents: unknown = member(object["status"], "agents");
  const count = (name: string): number => {
    const value = member(agents, name);
    return typeof value === "number" ? value : 0;
  };
  return { ready: count("ready"), total: count("total") };
};

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;
