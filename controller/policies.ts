/** Keeps the NetworkPolicies of tunnels as the declared flows say: what is missing, changed or too much is put right. */

import { parseEndpointSlice, parseServiceEndpoints } from "#src/codec/endpoint-slice-codec.ts";
import { parseObservedPolicy, printNetworkPolicy } from "#src/codec/network-policy-codec.ts";
import { parseSeedNetwork } from "#src/codec/seed-network-codec.ts";
import { whatIsMissing } from "#src/host/kube/readings.ts";
import type { Endpoint } from "#src/model/endpoint.ts";
import type { Finding } from "#src/model/finding.ts";
import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import type { NetworkPolicy, ObservedPolicy } from "#src/model/policy.ts";
import type { Tunnel } from "#src/model/tunnel.ts";
import { flowMark } from "#src/plan/policy/flow-mark.ts";
import { ENDPOINT_FLOW } from "#src/plan/policy/flows.ts";
import {
  isOurs,
  planPolicyDrift,
  takenName,
  type PolicyChange,
} from "#src/plan/policy/policy-drift.ts";
import { tunnelPolicyFacts, type PolicyInstallation } from "#src/plan/policy/policy-facts.ts";
import { planPolicies } from "#src/plan/policy/policy-plan.ts";
import type { PoliciesStatus } from "#src/plan/tunnel-status.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject, Reflector } from "#src/ports/kube.ts";
import {
  ENDPOINT_SLICES,
  NETWORK_POLICIES,
  SEED_NETWORKS,
  SERVICES,
} from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import { OUR_POLICIES } from "./policy-removal.ts";
import type { PolicySettings } from "./policy-options.ts";

export interface PolicyKeeperParts {
  readonly kube: Kube;
  readonly settings: PolicySettings;
  readonly log: Log;
  /** Undefined: all namespaces. */
  readonly namespace: string | undefined;
  /** Hears that a policy, or what policies are made from, changed. */
  readonly onChange: () => void;
}

/** Where every API server tells how it is reached. */
const SEED_API = { namespace: "default", name: "kubernetes" };
/** What a person can read in a condition; the rest is in the log. */
const FINDINGS_SHOWN = 4;

export class PolicyKeeper {
  readonly #parts: PolicyKeeperParts;
  readonly #policies: Reflector;
  readonly #seeds: Reflector;
  readonly #service: Reflector;
  readonly #slices: Reflector;

  /** Starts to watch at once. */
  constructor(parts: PolicyKeeperParts) {
    this.#parts = parts;
    const { kube, settings, namespace, onChange } = parts;
    this.#policies = kube.reflect(NETWORK_POLICIES, {
      ...(namespace === undefined ? {} : { namespace }),
      labelSelector: OUR_POLICIES,
      onChange,
      prune: withoutManagedFields,
    });
    this.#seeds = kube.reflect(SEED_NETWORKS, {
      fieldSelector: `metadata.name=${settings.seedNetwork}`,
      onChange,
    });
    this.#service = kube.reflect(SERVICES, {
      namespace: SEED_API.namespace,
      fieldSelector: `metadata.name=${SEED_API.name}`,
      onChange,
    });
    this.#slices = kube.reflect(ENDPOINT_SLICES, {
      namespace: SEED_API.namespace,
      labelSelector: `kubernetes.io/service-name=${SEED_API.name}`,
      onChange,
    });
  }

  /** Null once everything was listed; else the sentence that says why not. */
  missing(): string | null {
    return whatIsMissing("the seed's API server", this.#reflectors());
  }

  /** Resolves once everything was listed. */
  async synced(): Promise<void> {
    await Promise.all(this.#reflectors().map((reflector) => reflector.synced()));
  }

  /**
   * Makes the tunnel's policies what they should be; no write when they are. `endpoints` null: where its agents are is not
   * known, then what is there for them stays. Never throws: what fails becomes the status.
   */
  async ensure(options: {
    readonly tunnel: Tunnel;
    /** Of the Tunnel object. */
    readonly uid: string;
    readonly endpoints: readonly Endpoint[] | null;
  }): Promise<PoliciesStatus> {
    const { tunnel, endpoints } = options;
    const installation = this.#installation();
    if (!installation.ok) {
      return { status: "Unknown", reason: "SeedUnknown", message: installation.problem };
    }
    const { facts, findings } = tunnelPolicyFacts({
      ...options,
      endpoints: endpoints ?? [],
      installation: installation.value,
    });
    const plan = planPolicies(facts);
    const observed = this.#observed(tunnel.namespace);
    // A shoot that can't be asked now has nothing closed that was open.
    const isKept = endpoints === null && observed.some((policy) => isOfEndpoint(policy, tunnel));
    const drift = planPolicyDrift({
      subject: tunnel.name,
      wanted: plan.policies,
      observed,
      ...(endpoints === null ? { keep: [ENDPOINT_FLOW] } : {}),
    });
    try {
      const taken = await this.#apply(drift.changes);
      const unknown = isKept ? [] : findings;
      const closed = [...unknown, ...plan.findings, ...drift.findings, ...taken];
      return statusOf(closed, plan.policies.length + (isKept ? 1 : 0));
    } catch (error) {
      if (!isHostError(error)) throw error;
      return { status: "False", reason: "ApplyFailed", message: error.message };
    }
  }

  stop(): void {
    for (const reflector of this.#reflectors()) reflector.stop();
  }

  #reflectors(): readonly Reflector[] {
    return [this.#policies, this.#seeds, this.#service, this.#slices];
  }

  #observed(namespace: string): readonly ObservedPolicy[] {
    return [...(this.#policies.items?.values() ?? [])].flatMap((object) => {
      if (object.metadata.namespace !== namespace) return [];
      const read = parseObservedPolicy(object);
      // Only an odd name or UID makes one unreadable, and no API server takes those.
      return read.ok ? [read.value] : [];
    });
  }

  #installation(): Parsed<PolicyInstallation> {
    const { settings } = this.#parts;
    const object = this.#seeds.items?.get(settings.seedNetwork);
    if (object === undefined) {
      return problem(
        `SeedNetwork ${settings.seedNetwork} does not exist: create it, or correct --seed-network`,
      );
    }
    const seed = parseSeedNetwork(object);
    if (!seed.ok) return seed;
    const seedApi: Endpoint[] = [];
    const objects = [
      ...[...(this.#service.items?.values() ?? [])].map(parseServiceEndpoints),
      ...[...(this.#slices.items?.values() ?? [])].map(parseEndpointSlice),
    ];
    for (const read of objects) {
      if (!read.ok) return read;
      seedApi.push(...read.value);
    }
    if (seedApi.length === 0) {
      return problem(
        `Service ${SEED_API.namespace}/${SEED_API.name} has no address: where the seed's API server is reached is not known`,
      );
    }
    const { nodes: seedNodes, pods: podRanges } = seed.value;
    return parsed({ ...settings, seedApi, seedNodes, podRanges });
  }

  /** In order; answers what could not be made because its name is taken. Throws HostError. */
  async #apply(changes: readonly PolicyChange[]): Promise<readonly Finding[]> {
    const taken: Finding[] = [];
    for (const change of changes) {
      if (!(await this.#change(change))) {
        if (change.kind === "create") taken.push(takenName(change.policy));
        continue;
      }
      this.#parts.log.info({ change: change.kind }, change.reason);
    }
    return taken;
  }

  /** Answers whether it changed anything. */
  async #change(change: PolicyChange): Promise<boolean> {
    const { kube } = this.#parts;
    switch (change.kind) {
      case "create":
        return await this.#create(change.policy);
      case "replace": {
        const { namespace, name } = change.policy;
        const held = this.#policies.items?.get(`${namespace}/${name}`);
        const { uid, resourceVersion } = change;
        await kube.replace(
          NETWORK_POLICIES,
          policyObject(change.policy, { held, uid, resourceVersion }),
        );
        return true;
      }
      case "remove": {
        const { namespace, name, uid } = change;
        await kube.delete(NETWORK_POLICIES, { namespace, name }, { uid });
        return true;
      }
    }
  }

  /** False: the name is somebody else's. Another replica may have been faster; the watch tells. */
  async #create(policy: NetworkPolicy): Promise<boolean> {
    const { kube } = this.#parts;
    const { namespace, name } = policy;
    try {
      await kube.create(NETWORK_POLICIES, policyObject(policy));
      return true;
    } catch (error) {
      if (!isHostError(error) || error.code !== "already-exists") throw error;
    }
    const there = parseObservedPolicy(await kube.get(NETWORK_POLICIES, { namespace, name }));
    return there.ok && isOurs(there.value);
  }
}

/** Labels and annotations of others stay. */
const policyObject = (
  policy: NetworkPolicy,
  before?: {
    readonly held: KubeObject | undefined;
    readonly uid: string;
    readonly resourceVersion: string;
  },
): KubeObject => {
  const printed = printNetworkPolicy(policy);
  if (before === undefined) return printed;
  const { held, uid, resourceVersion } = before;
  return {
    ...printed,
    metadata: {
      ...printed.metadata,
      uid,
      resourceVersion,
      labels: { ...held?.metadata.labels, ...policy.labels },
      annotations: { ...held?.metadata.annotations, ...policy.annotations },
    },
  };
};

const isOfEndpoint = ({ name }: ObservedPolicy, { name: subject }: Tunnel): boolean => {
  const mark = flowMark(name);
  return mark?.flow === ENDPOINT_FLOW && mark.subject === subject;
};

const statusOf = (findings: readonly Finding[], count: number): PoliciesStatus => {
  if (findings.length === 0) {
    const message = `${count} NetworkPolicies are as the declared flows say`;
    return { status: "True", reason: "Applied", message };
  }
  const shown = findings.slice(0, FINDINGS_SHOWN).map(({ message }) => message);
  const more = findings.length - shown.length;
  const message = [...shown, ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
  return { status: "False", reason: "FlowsClosed", message };
};

const withoutManagedFields = (object: KubeObject): KubeObject => {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata: { ...metadata, name: object.metadata.name } };
};
