/** Remembers the relay between passes and asks the plan for the next one by what the data plane measured. */

import type { PeerMeasurement } from "#src/model/device.ts";
import type { Slot } from "#src/model/slot.ts";
import type { AgentClaim, NodeFacts } from "#src/model/tunnel.ts";
import {
  newRelayState,
  type RelayCandidate,
  type RelayState,
  stepRelay,
} from "#src/plan/relay-plan.ts";

export interface RelayFacts {
  readonly slot: Slot;
  readonly nodes: readonly NodeFacts[];
  readonly claims: readonly AgentClaim[];
  /** Peers that are left out were never heard, timed, or waited for. */
  readonly measured: readonly PeerMeasurement[];
}

export class RelayKeeper {
  readonly #nowMs: () => number;
  #state: RelayState | null = null;
  relay: string | null = null;
  standby: string | null = null;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Updates `relay` and `standby`. */
  choose({ slot, nodes, claims, measured }: RelayFacts): void {
    const peers = new Map(measured.map((peer) => [peer.publicKey, peer]));
    const claimOf = new Map(claims.map((claim) => [claim.node, claim]));
    const candidates = nodes.map((node): RelayCandidate => {
      const claim = claimOf.get(node.name);
      const peer = claim === undefined ? undefined : peers.get(claim.publicKey);
      return {
        node: node.name,
        isReady: node.isReady,
        hasClaim: claim !== undefined,
        unansweredMs: peer?.unansweredMs ?? null,
        receivedAgeMs: peer?.receivedAgeMs ?? null,
        rttUs: peer?.rttUs ?? null,
      };
    });
    this.#state ??= newRelayState(slot);
    const step = stepRelay(this.#state, { nowMs: this.#nowMs(), candidates });
    this.#state = step.state;
    this.relay = step.relay;
    this.standby = step.standby;
  }
}
