/** Gives tunnels their address maps and keeps the seed's list of them: what is stored never moves (compare and swap). */

import { addressMapsObject, parseAddressMaps } from "#src/codec/address-maps-codec.ts";
import { parseSeedNetwork } from "#src/codec/seed-network-codec.ts";
import { whatIsMissing } from "#src/host/kube/readings.ts";
import type { AddressMap, AddressMapLedger } from "#src/model/address-map.ts";
import type { SeedNetwork } from "#src/model/allocation.ts";
import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import type { Tunnel } from "#src/model/tunnel.ts";
import { planAddressMaps, releaseAddressMaps } from "#src/plan/allocation/address-map-plan.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject, Reflector } from "#src/ports/kube.ts";
import { ADDRESS_MAPS, SEED_NETWORKS, TUNNELS } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";

export interface AddressMapAnswer {
  readonly maps: readonly AddressMap[];
  /** Why a range has none, or one can't be used. */
  readonly problems: readonly string[];
}

export interface AddressMapKeeperParts {
  readonly kube: Kube;
  /** Name of the SeedNetwork that says what this seed is. */
  readonly seedNetwork: string;
  readonly log: Log;
  /** Hears that the seed's ranges or the list changed. */
  readonly onChange: () => void;
}

export class AddressMapKeeper {
  readonly #parts: AddressMapKeeperParts;
  readonly #seeds: Reflector;
  readonly #maps: Reflector;
  /** Tunnels of one controller write one after the other, or they would only be in each other's way. */
  #turn: Promise<unknown> = Promise.resolve();

  /** Starts to watch at once. */
  constructor(parts: AddressMapKeeperParts) {
    this.#parts = parts;
    const { kube, seedNetwork: name, onChange } = parts;
    const one = { fieldSelector: `metadata.name=${name}`, onChange };
    this.#seeds = kube.reflect(SEED_NETWORKS, one);
    this.#maps = kube.reflect(ADDRESS_MAPS, one);
  }

  /** Null once both were listed; else the sentence that says why not. */
  missing(): string | null {
    return whatIsMissing("the seed's API server", [this.#seeds, this.#maps]);
  }

  /**
   * What the tunnel has, after what it lacks was stored. No write when nothing is lacking. The problem says why nothing is
   * known; then what was published before stays. Throws HostError.
   */
  async ensure(tunnel: Tunnel, uid: string): Promise<Parsed<AddressMapAnswer>> {
    const missing = this.missing();
    if (missing !== null) return problem(missing);
    const seed = this.#seed();
    const shown = this.#shown();
    if (!seed.ok) return seed;
    if (!shown.ok) return shown;
    const facts = { tunnel, uid, seed: seed.value };
    const planned = planAddressMaps({ ...facts, stored: shown.value.entries });
    if (!planned.isChanged) return parsed(planned);
    return await this.#inTurn(async () => {
      if (!(await this.#lives(tunnel, uid))) {
        return problem(`Tunnel ${tunnel.namespace}/${tunnel.name} was made anew or is deleted`);
      }
      const held = await this.#read();
      if (!held.ok) return held;
      const fresh = planAddressMaps({ ...facts, stored: held.value.entries });
      if (fresh.isChanged) await this.#write({ ...held.value, entries: fresh.entries });
      return parsed(fresh);
    });
  }

  /** Gives back what the Tunnel of this UID had. Throws HostError. */
  async release(uid: string): Promise<void> {
    await this.#inTurn(async () => {
      const held = await this.#read();
      if (!held.ok) {
        // A list that nobody can read has to be repaired by hand; no Tunnel must wait for that.
        this.#parts.log.warn({ uid }, `Address maps were not given back: ${held.problem}`);
        return;
      }
      const entries = releaseAddressMaps(held.value.entries, uid);
      if (entries.length === held.value.entries.length) return;
      await this.#write({ ...held.value, entries });
    });
  }

  stop(): void {
    this.#seeds.stop();
    this.#maps.stop();
  }

  #seed(): Parsed<SeedNetwork> {
    const { seedNetwork } = this.#parts;
    const object = this.#seeds.items?.get(seedNetwork);
    return object === undefined
      ? problem(`SeedNetwork ${seedNetwork} does not exist: create it, or correct --seed-network`)
      : parseSeedNetwork(object);
  }

  #shown(): Parsed<AddressMapLedger> {
    const object = this.#maps.items?.get(this.#parts.seedNetwork);
    return object === undefined ? parsed(this.#empty()) : parseAddressMaps(object);
  }

  #empty(): AddressMapLedger {
    return { name: this.#parts.seedNetwork, resourceVersion: null, entries: [] };
  }

  async #read(): Promise<Parsed<AddressMapLedger>> {
    try {
      const object = await this.#parts.kube.get(ADDRESS_MAPS, { name: this.#parts.seedNetwork });
      return parseAddressMaps(object);
    } catch (error) {
      if (isHostError(error) && error.code === "not-found") return parsed(this.#empty());
      throw error;
    }
  }

  /** A list that changed meanwhile is a conflict, which is tried again. */
  async #write(ledger: AddressMapLedger): Promise<void> {
    const { kube, log } = this.#parts;
    const object: KubeObject = addressMapsObject(ledger);
    if (ledger.resourceVersion === null) await kube.create(ADDRESS_MAPS, object);
    else await kube.replace(ADDRESS_MAPS, object);
    log.info({ seedNetwork: ledger.name, entries: ledger.entries.length }, "Address maps written");
  }

  /** A watch that lags must give nothing to a Tunnel that is gone: its maps would be nobody's to give back. */
  async #lives(tunnel: Tunnel, uid: string): Promise<boolean> {
    const { namespace, name } = tunnel;
    try {
      const { metadata } = await this.#parts.kube.get(TUNNELS, { namespace, name });
      return metadata.uid === uid && metadata.deletionTimestamp === undefined;
    } catch (error) {
      if (isHostError(error) && error.code === "not-found") return false;
      throw error;
    }
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return await done;
  }
}
