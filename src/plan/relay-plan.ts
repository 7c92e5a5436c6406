/** Which agent a gateway uses for what no single node owns: its own choice, by what it measures, without flapping. */

import { fnv1a } from "./agent-id-plan.ts";

/** One node as the gateway sees it. */
export interface RelayCandidate {
  readonly node: string;
  readonly isReady: boolean;
  /** Its TunnelAgent is known, so that it can be a peer. */
  readonly hasClaim: boolean;
  /** Since the oldest packet that nothing has answered; null: nothing waits. */
  readonly unansweredMs: number | null;
  /** Since the last authenticated packet; null: never. */
  readonly receivedAgeMs: number | null;
  /** Last measured round trip; null: never measured. */
  readonly rttUs: number | null;
}

export interface RelayObservation {
  readonly nowMs: number;
  readonly candidates: readonly RelayCandidate[];
}

/** A node that was left because it did not answer; it may come back when its time is over. */
interface LeftNode {
  readonly untilMs: number;
  readonly times: number;
}

/**
 * ```
 *            first usable node                relay silent, gone or not Ready: at once
 *   no relay ----------------> relay, standby ------------------> another node, the old one waits
 *      ^                         |      ^ |
 *      +--- no usable node ------+      | | challenger clearly faster for 30 s
 *                                       +-+
 * ```
 */
export interface RelayState {
  /** Spreads gateways over nodes: each seed has its own order of preference. */
  readonly seed: number;
  readonly relay: string | null;
  /** Faster than the relay since then. */
  readonly challenger: { readonly node: string; readonly sinceMs: number } | null;
  /** Only nodes that still exist; dropped 60 s after their time. */
  readonly left: ReadonlyMap<string, LeftNode>;
}

export type RelayReason =
  | "kept"
  | "first"
  | "unanswered"
  | "not-usable"
  | "faster"
  /** No node has a claim. */
  | "none";

export interface RelayStep {
  readonly state: RelayState;
  readonly relay: string | null;
  /** Kept warm, so that a failover need not wait for a handshake; null: there is no second node. */
  readonly standby: string | null;
  readonly reason: RelayReason;
}

/** Within the 1 s that a failover may take (T18), and above the round trips of bad links. */
const UNANSWERED_MS = 400;
/** Longer than any jitter: then even a node that was just left is better. */
const DEAD_MS = 2000;
/** Heard within this time: most probably alive. */
const HEARD_MS = 5000;
/** How long a silent relay is not returned to, doubled at each repetition. */
const AWAY_MS = 5000;
const AWAY_MS_MAX = 80_000;
const FORGET_MS = 60_000;
/** A change of relay breaks open service connections: only a lasting, large gain is worth it. */
const FASTER_FOR_MS = 30_000;
const FASTER_MARGIN_US = 5000;

/** `seed`: e.g. the slot, so that gateways differ. */
export const newRelayState = (seed: number): RelayState => ({
  seed,
  relay: null,
  challenger: null,
  left: new Map(),
});

/** Chooses the relay anew; to be called at every event and every second or so while there is traffic. */
export const stepRelay = (state: RelayState, observation: RelayObservation): RelayStep => {
  const { nowMs } = observation;
  const left = prune(state.left, observation);
  const ranked = rank(state.seed, { left, ...observation });
  const best = pickNext(ranked, state.relay);
  const current = ranked.find(({ node }) => node === state.relay);
  if (best === undefined)
    return settle({ ...state, left, challenger: null }, { next: null, ranked, reason: "none" });
  if (current === undefined) {
    const reason = state.relay === null ? "first" : "not-usable";
    return settle({ ...state, left, challenger: null }, { next: best.node, ranked, reason });
  }
  const leave = reasonToLeave(current, best);
  if (leave !== null) {
    const isSilent = leave === "unanswered";
    const nextLeft = isSilent ? markLeft(left, { node: current.node, nowMs }) : left;
    return settle(
      { ...state, left: nextLeft, challenger: null },
      { next: best.node, ranked, reason: leave },
    );
  }
  return considerFaster({ ...state, left }, { nowMs, current, ranked });
};

/** Of the best tier: a node that was heard a moment ago, else the first; so a failover seldom meets a second dead node. */
const pickNext = (
  ranked: readonly RankedCandidate[],
  except: string | null,
): RankedCandidate | undefined => {
  const others = ranked.filter(({ node }) => node !== except);
  const candidates = others.length === 0 ? ranked : others;
  const top = candidates.filter(({ tier }) => tier === candidates[0]?.tier);
  return top.find(({ receivedAgeMs }) => (receivedAgeMs ?? HEARD_MS) < HEARD_MS) ?? top[0];
};

interface RankedCandidate extends RelayCandidate {
  readonly tier: number;
}

/**
 * 0: Ready and answering; 1: the same, but was left a short time ago; 2: not Ready but answering, for a shoot whose
 * nodes are all not Ready because its API can't be written (S3); 3: silent. Nodes without a claim are no candidates.
 */
const tierOf = (candidate: RelayCandidate, isAway: boolean): number => {
  if (isSilent(candidate, UNANSWERED_MS)) return 3;
  if (!candidate.isReady) return 2;
  return isAway ? 1 : 0;
};

const isSilent = ({ unansweredMs }: RelayCandidate, forMs: number): boolean =>
  unansweredMs !== null && unansweredMs >= forMs;

/** Best first: by tier, then in the order that is this seed's own (rendezvous hashing). */
const rank = (
  seed: number,
  facts: RelayObservation & { readonly left: ReadonlyMap<string, LeftNode> },
): RankedCandidate[] =>
  facts.candidates
    .filter(({ hasClaim }) => hasClaim)
    .map((candidate) => {
      const isAway = (facts.left.get(candidate.node)?.untilMs ?? 0) > facts.nowMs;
      const weight = mix(fnv1a(`${seed}/${candidate.node}`));
      return { weight, candidate: { ...candidate, tier: tierOf(candidate, isAway) } };
    })
    .toSorted(
      (a, b) =>
        a.candidate.tier - b.candidate.tier ||
        a.weight - b.weight ||
        (a.candidate.node < b.candidate.node ? -1 : 1),
    )
    .map(({ candidate }) => candidate);

/** Spreads similar hashes: FNV-1a alone orders `node1`, `node2` alike for all seeds (fmix32 of MurmurHash3). */
const mix = (hash: number): number => {
  let mixed = hash ^ (hash >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
};

/** Null: the relay may stay. A relay is never left for a node that is not better off. */
const reasonToLeave = (current: RankedCandidate, best: RankedCandidate): RelayReason | null => {
  if (best.node === current.node) return null; // there is no other
  if (isSilent(current, UNANSWERED_MS)) {
    const isBetter = best.tier === 0 || (best.tier < 3 && isSilent(current, DEAD_MS));
    return isBetter ? "unanswered" : null;
  }
  return !current.isReady && best.tier < 2 ? "not-usable" : null;
};

/** Keeps the relay unless one challenger has been clearly faster for long enough. */
const considerFaster = (
  state: RelayState,
  facts: {
    readonly nowMs: number;
    readonly current: RankedCandidate;
    readonly ranked: readonly RankedCandidate[];
  },
): RelayStep => {
  const { nowMs, current, ranked } = facts;
  const faster = ranked
    .filter((candidate) => candidate.tier === 0 && isClearlyFaster(candidate, current))
    .toSorted((a, b) => (a.rttUs ?? 0) - (b.rttUs ?? 0));
  const same = faster.find(({ node }) => node === state.challenger?.node);
  const node = (same ?? faster[0])?.node;
  if (node === undefined) {
    return settle({ ...state, challenger: null }, { next: current.node, ranked, reason: "kept" });
  }
  const sinceMs =
    same !== undefined && state.challenger !== null ? state.challenger.sinceMs : nowMs;
  if (nowMs - sinceMs >= FASTER_FOR_MS) {
    return settle({ ...state, challenger: null }, { next: node, ranked, reason: "faster" });
  }
  const challenger = { node, sinceMs };
  return settle({ ...state, challenger }, { next: current.node, ranked, reason: "kept" });
};

/** Less than half of the relay's round trip, and 5 ms at least. */
const isClearlyFaster = (candidate: RelayCandidate, current: RelayCandidate): boolean =>
  candidate.node !== current.node &&
  candidate.rttUs !== null &&
  current.rttUs !== null &&
  candidate.rttUs * 2 < current.rttUs &&
  candidate.rttUs + FASTER_MARGIN_US < current.rttUs;

const settle = (
  state: RelayState,
  choice: {
    readonly next: string | null;
    readonly ranked: readonly RankedCandidate[];
    readonly reason: RelayReason;
  },
): RelayStep => ({
  state: { ...state, relay: choice.next },
  relay: choice.next,
  standby: standbyOf(choice.ranked, choice.next),
  reason: choice.reason,
});

const standbyOf = (ranked: readonly RankedCandidate[], relay: string | null): string | null => {
  const next = pickNext(ranked, relay);
  return next === undefined || next.node === relay ? null : next.node;
};

const markLeft = (
  left: ReadonlyMap<string, LeftNode>,
  mark: { readonly node: string; readonly nowMs: number },
): ReadonlyMap<string, LeftNode> => {
  const times = (left.get(mark.node)?.times ?? 0) + 1;
  const awayMs = Math.min(AWAY_MS * 2 ** (times - 1), AWAY_MS_MAX);
  return new Map(left).set(mark.node, { times, untilMs: mark.nowMs + awayMs });
};

const prune = (
  left: ReadonlyMap<string, LeftNode>,
  { candidates, nowMs }: RelayObservation,
): ReadonlyMap<string, LeftNode> => {
  if (left.size === 0) return left;
  const existing = new Set(candidates.map(({ node }) => node));
  return new Map(
    [...left].filter(([node, { untilMs }]) => existing.has(node) && nowMs < untilMs + FORGET_MS),
  );
};
