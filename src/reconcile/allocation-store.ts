/** The allocator's calls to the API server: each may be repeated by anybody at any time, and says who was quicker. */

import { blockLabels } from "#src/codec/allocation-fields.ts";
import { networkBlockObject } from "#src/codec/network-block-codec.ts";
import {
  DOMAIN_FINALIZER,
  networkDomainObject,
  newDomainObject,
} from "#src/codec/network-domain-codec.ts";
import type { BlockGrant, ClaimRef, NetworkBlock, NetworkDomain } from "#src/model/allocation.ts";
import { blockName } from "#src/model/allocation-name.ts";
import { HostError, isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeErrorCode, KubeObject } from "#src/ports/kube.ts";
import { NETWORK_BLOCKS, NETWORK_CLAIMS, NETWORK_DOMAINS } from "#src/ports/kube-resource.ts";
import { codecReadings, type AllocationReadings } from "./allocation-readings.ts";

/** A block's name is fought over at most with leftovers of one deleted claim after another. */
const TRIES_MAX = 4;

export class AllocationStore {
  readonly #kube: Kube;
  readonly #readings: AllocationReadings;
  /** UIDs of claims that the API server said are gone; a UID never comes back. */
  readonly #gone = new Set<string>();

  constructor(kube: Kube, readings: AllocationReadings = codecReadings) {
    this.#kube = kube;
    this.#readings = readings;
  }

  get goneUids(): ReadonlySet<string> {
    return this.#gone;
  }

  /** Forgets the gone owners that nothing names any more, so that the set is bounded by what exists. */
  keepGone(isNamed: (uid: string) => boolean): void {
    for (const uid of this.#gone) if (!isNamed(uid)) this.#gone.delete(uid);
  }

  /** Asks the API server itself, because a cache that lags must not free anything. */
  async isGone({ namespace, name, uid }: ClaimRef): Promise<boolean> {
    if (this.#gone.has(uid)) return true;
    const object = await orNull(this.#kube.get(NETWORK_CLAIMS, { namespace, name }));
    const isGone = object?.metadata.uid !== uid;
    if (isGone) this.#gone.add(uid);
    return isGone;
  }

  /** Reads a VPC's domain, or makes it. */
  async domain(vpc: string): Promise<NetworkDomain> {
    const held = await orNull(this.#kube.get(NETWORK_DOMAINS, { name: vpc }));
    return this.#readDomain(held ?? (await this.#newDomain(vpc)));
  }

  async #newDomain(vpc: string): Promise<KubeObject> {
    try {
      return await this.#kube.create(NETWORK_DOMAINS, newDomainObject(vpc));
    } catch (error) {
      if (!hasCode(error, "already-exists")) throw error;
      return await this.#kube.get(NETWORK_DOMAINS, { name: vpc });
    }
  }

  #readDomain(object: KubeObject): NetworkDomain {
    const read = this.#readings.domain(object);
    if (read.ok) return read.value;
    throw new HostError<KubeErrorCode>("invalid", read.problem);
  }

  /** Compare and swap. Null: somebody else was quicker; else the domain as it is now. */
  async replaceDomain(domain: NetworkDomain): Promise<NetworkDomain | null> {
    try {
      return this.#readDomain(
        await this.#kube.replace(NETWORK_DOMAINS, networkDomainObject(domain)),
      );
    } catch (error) {
      if (hasCode(error, "conflict", "not-found")) return null;
      throw error;
    }
  }

  /** Lets a domain go that somebody deleted; only when its VPC has no block any more. */
  async releaseDomain(object: KubeObject): Promise<void> {
    const read = this.#readings.domain(object);
    if (read.ok && read.value.pending.length > 0) {
      const owed = await Promise.all(read.value.pending.map(({ owner }) => this.isGone(owner)));
      if (owed.includes(false)) return;
    }
    if ((await this.blocksOf(object.metadata.name)).length > 0) return;
    const held: unknown = object.metadata["finalizers"];
    const finalizers = (Array.isArray(held) ? held : []).filter((one) => one !== DOMAIN_FINALIZER);
    try {
      const metadata = { ...object.metadata, finalizers };
      await this.#kube.replace(NETWORK_DOMAINS, { ...object, metadata });
    } catch (error) {
      if (!hasCode(error, "conflict", "not-found")) throw error;
    }
  }

  /** All blocks of a VPC at one moment after the call began. Throws `invalid` for one that can't be read. */
  async blocksOf(vpc: string): Promise<readonly NetworkBlock[]> {
    const labelSelector = `xylem.dev/vpc=${blockLabels(vpc)["xylem.dev/vpc"] ?? vpc}`;
    const objects = await this.#kube.list(NETWORK_BLOCKS, { labelSelector });
    return objects.map((object) => {
      const read = this.#readings.block(object);
      if (read.ok) return read.value;
      throw new HostError<KubeErrorCode>("invalid", read.problem);
    });
  }

  /** Makes a promised block; done by somebody else is success. */
  async makeBlock(grant: BlockGrant): Promise<void> {
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      try {
        await this.#kube.create(NETWORK_BLOCKS, networkBlockObject(grant));
        return;
      } catch (error) {
        if (!hasCode(error, "already-exists")) throw error;
      }
      if (await this.#isOurs(grant)) return;
    }
    throw new HostError<KubeErrorCode>(
      "conflict",
      `NetworkBlock ${blockName(grant)} is made anew by others as often as it is freed: trying again later`,
    );
  }

  /** False: it is free now. A create that was long on its way can land after its owner is gone: such a leftover goes. */
  async #isOurs(grant: BlockGrant): Promise<boolean> {
    const name = blockName(grant);
    const object = await orNull(this.#kube.get(NETWORK_BLOCKS, { name }));
    if (object === null) return false;
    const read = this.#readings.block(object);
    if (!read.ok) throw new HostError<KubeErrorCode>("invalid", read.problem);
    if (read.value.owner.uid === grant.owner.uid) return true;
    if (await this.isGone(read.value.owner)) {
      await this.free(read.value);
      return false;
    }
    const { owner } = read.value;
    throw new HostError<KubeErrorCode>(
      "conflict",
      `NetworkBlock ${name} belongs to NetworkClaim ${owner.namespace}/${owner.name}, but NetworkDomain ${grant.vpc} promised it to ${grant.owner.namespace}/${grant.owner.name}: somebody changed one of them by hand; delete the claim that should not have it`,
    );
  }

  /** Deletes this very object; another one of its name stays. */
  async free(block: NetworkBlock): Promise<void> {
    try {
      await this.#kube.delete(NETWORK_BLOCKS, { name: block.name }, { uid: block.uid });
    } catch (error) {
      if (!hasCode(error, "conflict", "not-found")) throw error;
    }
  }

  /** False: the claim has changed or is gone, so that its status must be planned anew. */
  async writeStatus(claim: KubeObject, status: object): Promise<boolean> {
    const { namespace, name, resourceVersion } = claim.metadata;
    const key = namespace === undefined ? { name } : { namespace, name };
    try {
      await this.#kube.patchStatus(NETWORK_CLAIMS, key, { metadata: { resourceVersion }, status });
      return true;
    } catch (error) {
      if (hasCode(error, "conflict", "not-found")) return false;
      throw error;
    }
  }
}

const hasCode = (error: unknown, ...codes: readonly KubeErrorCode[]): boolean =>
  isHostError(error) && codes.some((code) => code === error.code);

const orNull = async (asked: Promise<KubeObject>): Promise<KubeObject | null> => {
  try {
    return await asked;
  } catch (error) {
    if (hasCode(error, "not-found")) return null;
    throw error;
  }
};
