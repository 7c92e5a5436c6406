/** What the seed says of this gateway's tunnel: the Tunnel itself, the slot that this gateway holds, and its key. */

import { join } from "node:path";
import { parseTunnelMaps } from "#src/codec/address-map-fields.ts";
import { parseTunnel } from "#src/codec/tunnel-codec.ts";
import { whatIsMissing, whatIsStale } from "#src/host/kube/readings.ts";
import { parseMasterSecret, slotPrivateKey } from "#src/host/slot-keys.ts";
import { slotMemoryFile, slotMemoryNone } from "#src/host/slot-memory-file.ts";
import type { AddressMap } from "#src/model/address-map.ts";
import type { Finding } from "#src/model/finding.ts";
import type { PrivateKey } from "#src/model/key.ts";
import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import type { Slot } from "#src/model/slot.ts";
import type { Tunnel } from "#src/model/tunnel.ts";
import type { Clock } from "#src/ports/clock.ts";
import type { Kube, KubeObject, Reflector } from "#src/ports/kube.ts";
import { SECRETS, TUNNELS } from "#src/ports/kube-resource.ts";
import type { Log } from "#src/ports/log.ts";
import type { Random } from "#src/ports/random.ts";
import { SlotClaim } from "#src/reconcile/slot-claim.ts";
import type { GatewayConfig } from "./config.ts";

/** The controller's, docs/objects.md: while it is there, the shoot still knows this tunnel. */
const FINALIZER = "xylem.dev/tunnel";

export interface TunnelViewParts {
  readonly config: GatewayConfig;
  readonly kube: Kube;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly onChange: (what: string) => void;
}

export interface GatewayIdentity {
  readonly slot: Slot;
  readonly privateKey: PrivateKey;
}

export class TunnelView {
  readonly #parts: TunnelViewParts;
  readonly #tunnels: Reflector;
  readonly #secrets: Reflector;
  #claim: SlotClaim | null = null;
  /** The last spec that could be read, and whose it was: a Tunnel made anew under the name is another one. */
  #accepted: { readonly uid: string | undefined; readonly tunnel: Tunnel } | null = null;
  /** The last key that could be derived. */
  #identity: GatewayIdentity | null = null;
  /** Whose slot is claimed. */
  #claimedUid: string | undefined;
  #lastHandshakeMs: number | null = null;
  #specFinding: Finding | null = null;
  #keyFinding: Finding | null = null;
  #maps: readonly AddressMap[] = [];
  #mapsFinding: Finding | null = null;

  constructor(parts: TunnelViewParts) {
    const { config, kube, onChange } = parts;
    this.#parts = parts;
    this.#tunnels = kube.reflect(TUNNELS, {
      namespace: config.namespace,
      fieldSelector: `metadata.name=${config.tunnel}`,
      onChange: () => onChange("tunnel"),
    });
    this.#secrets = kube.reflect(SECRETS, {
      namespace: config.namespace,
      fieldSelector: `metadata.name=${this.#secretName()}`,
      onChange: () => onChange("secret"),
    });
  }

  /** Null once everything was listed; else the sentence that says what is missing. */
  missing(): string | null {
    return whatIsMissing("the seed's API server", [this.#tunnels, this.#secrets]);
  }

  /** Says when the seed can't be heard any more. */
  stale(): readonly Finding[] {
    return whatIsStale("the seed's API server", [this.#tunnels, this.#secrets]);
  }

  /**
   * Null while the Tunnel is there or not known yet; else the sentence that says why nothing of it may be left here.
   * A Tunnel that is being deleted is carried for as long as the controller needs it.
   */
  gone(): string | null {
    const { namespace, tunnel } = this.#parts.config;
    if (this.#tunnels.items === null) return null;
    const object = this.#object();
    const which = `Tunnel ${namespace}/${tunnel}`;
    if (object === undefined) {
      return `${which} does not exist in the seed: nothing of it is left here; create it, or stop this gateway`;
    }
    const { deletionTimestamp, finalizers, uid } = object.metadata;
    const isHeld = Array.isArray(finalizers) && finalizers.includes(FINALIZER);
    if (deletionTimestamp !== undefined && !isHeld) {
      return `${which} is deleted, only others' finalizers hold it: nothing of it is left here`;
    }
    return this.#claim !== null && this.#claimedUid !== uid
      ? `${which} was made anew: leaving the old one`
      : null;
  }

  /** Forgets a Tunnel that is gone and gives its slot back; its device must be closed before. Idempotent. */
  async leave(): Promise<void> {
    const claim = this.#claim;
    this.#claim = null;
    this.#accepted = null;
    this.#identity = null;
    this.#specFinding = null;
    this.#keyFinding = null;
    this.#maps = [];
    this.#mapsFinding = null;
    this.#lastHandshakeMs = null;
    if (claim === null) return;
    await claim.release();
    this.#parts.onChange("tunnel left");
  }

  /** Notes a handshake; the first one since the claim is told to the seed at once, the others with the next renewal. */
  heardHandshake(): void {
    const isFirst = this.#lastHandshakeMs === null;
    this.#lastHandshakeMs = this.#parts.clock.wallMs();
    if (isFirst) this.#claim?.renew();
  }

  /**
   * The Tunnel as it must be carried. A spec that can't be read does not end a tunnel that works: the last good one
   * stays, and `findings` says so.
   */
  tunnel(): Parsed<Tunnel> {
    const { namespace, tunnel } = this.#parts.config;
    const missing = whatIsMissing("the seed's API server", [this.#tunnels]);
    if (missing !== null) return problem(missing);
    const object = this.#object();
    if (object === undefined)
      return problem(`Tunnel ${namespace}/${tunnel} does not exist in the seed: create it`);
    const { uid } = object.metadata;
    const read = parseTunnel(object);
    this.#specFinding = null;
    if (read.ok) this.#accepted = { uid, tunnel: read.value };
    if (read.ok || this.#accepted === null || this.#accepted.uid !== uid) return read;
    this.#specFinding = {
      code: "spec-not-taken",
      object: `Tunnel ${namespace}/${tunnel}`,
      message: `${read.problem} (until then the tunnel stays as generation ${this.#accepted.tunnel.generation} of its spec says)`,
    };
    return parsed(this.#accepted.tunnel);
  }

  /** The address maps that the controller published; those that can't be read leave the last ones. */
  maps(): readonly AddressMap[] {
    const read = parseTunnelMaps(this.#object());
    this.#mapsFinding = null;
    if (read.ok) this.#maps = read.value;
    else {
      const { namespace, tunnel } = this.#parts.config;
      const message = `${read.problem} (until then the address maps stay as they were)`;
      const object = `Tunnel ${namespace}/${tunnel}`;
      this.#mapsFinding = { code: "maps-not-taken", object, message };
    }
    return this.#maps;
  }

  /** What the last `tunnel`, `identity` and `maps` had to say besides their answers. */
  findings(): readonly Finding[] {
    return [this.#specFinding, this.#keyFinding, this.#mapsFinding].filter(
      (finding) => finding !== null,
    );
  }

  /** Claims a slot at the first call; until it is held, says what it waits for. */
  identity(tunnel: Tunnel): Parsed<GatewayIdentity> {
    this.#claim ??= this.#startClaim(tunnel);
    const { state } = this.#claim;
    switch (state.kind) {
      case "claiming":
        return problem(state.problem ?? "claiming a slot");
      case "lost":
        return problem(state.problem);
      case "released":
        return problem("the slot was released: the gateway is stopping");
      case "held": {
        return this.#identityOf(state.slot);
      }
    }
  }

  /** False from the moment that somebody else has the slot: its key must not be used any more. */
  holdsSlot(): boolean {
    return this.#claim?.state.kind === "held";
  }

  /** Gives the slot back. */
  async close(): Promise<void> {
    await this.#claim?.release();
  }

  /** A Secret that went away or was spoilt ends no tunnel that works: the slot's last key stays. */
  #identityOf(slot: Slot): Parsed<GatewayIdentity> {
    const key = this.#key(slot);
    this.#keyFinding = null;
    if (key.ok) {
      this.#identity = { slot, privateKey: key.value };
      return parsed(this.#identity);
    }
    if (this.#identity?.slot !== slot) return key;
    const object = `Secret ${this.#parts.config.namespace}/${this.#secretName()}`;
    const message = `${key.problem} (until then this gateway keeps the key that it has)`;
    this.#keyFinding = { code: "secret-not-usable", object, message };
    return parsed(this.#identity);
  }

  #key(slot: Slot): Parsed<PrivateKey> {
    const { namespace } = this.#parts.config;
    const name = this.#secretName();
    const missing = whatIsMissing("the seed's API server", [this.#secrets]);
    if (missing !== null) return problem(missing);
    const object = this.#secrets.items?.get(`${namespace}/${name}`);
    if (object === undefined) {
      return problem(
        `Secret ${namespace}/${name} does not exist yet: the controller makes it from the Tunnel`,
      );
    }
    const master = parseMasterSecret(object);
    return master.ok ? slotPrivateKey(master.value, slot) : master;
  }

  #object(): KubeObject | undefined {
    const { namespace, tunnel } = this.#parts.config;
    return this.#tunnels.items?.get(`${namespace}/${tunnel}`);
  }

  #secretName(): string {
    return `${this.#parts.config.tunnel}-xylem`;
  }

  #startClaim(tunnel: Tunnel): SlotClaim {
    const { config, kube, clock, random, log, onChange } = this.#parts;
    this.#claimedUid = this.#accepted?.uid;
    const claim = new SlotClaim({
      kube,
      clock,
      random,
      log,
      memory:
        config.stateDir === null
          ? slotMemoryNone()
          : slotMemoryFile(join(config.stateDir, `${config.namespace}_${config.tunnel}.slot.json`)),
      namespace: config.namespace,
      tunnel: config.tunnel,
      slots: tunnel.slots,
      identity: config.identity,
      gatewayName: config.identity,
      lastHandshakeMs: () => this.#lastHandshakeMs,
      onLost: () => {
        this.#claim = null;
        onChange("slot lost");
      },
    }).start();
    claim.held().then(
      () => onChange("slot held"),
      () => undefined,
    );
    return claim;
  }
}
