//! Decides when a gateway probes a peer, when a path through the balancer is given up, and which fresh socket takes over.
//!
//! ```text
//!              an answer on its own socket
//!        +-------------------------------------+
//!        v                                     |
//!     living --- data waits 500 ms and ------> hunting --- an answer on a candidate ---> living
//!                nobody on the path answers    | ^                                       (new socket)
//!                                              +-+ fresh candidates every 200 ms, 1 s after 5 s
//! ```

pub use crate::path_effects::{Effect, How, PeerId, Seen, SocketId};
use crate::path_effects::{is_waiting, witnesses};
use crate::path_limits::{INITIATE_MS, LOST_MS, PROBE_MS, SILENT_MS, SUSPECT_MS, limits};
use std::collections::HashMap;

/// Peers that others are judged by are probed this often at most.
const WITNESS_MS: u64 = 300;
const WITNESSES: usize = 2;
/// Candidates of one round; after three the balancer's hash has missed a dead third of entries only once in 27.
pub const CANDIDATES: usize = 3;
const CANDIDATES_MAX: usize = 15;
const CANDIDATE_LIFE_MS: u64 = 1_000;
const ROUND_MS: u64 = 200;
const SLOW_ROUND_MS: u64 = 1_000;
const FAST_FOR_MS: u64 = 5_000;
/// Peers probed on the candidates of one round.
const HUNTERS: usize = 8;
/// How long a socket that was replaced still listens.
const DRAIN_MS: u64 = 5_000;
const BACKOFF_MAX_MS: u64 = 5_000;

#[derive(Default)]
struct Path {
    current: [Option<SocketId>; 2],
    heard_ms: u64,
    /// When a peer of another path was asked on this one.
    asked_ms: u64,
    hunt: Option<Hunt>,
}

struct Hunt {
    since_ms: u64,
    next_ms: u64,
    candidates: Vec<Candidate>,
}

#[derive(Clone, Copy)]
struct Candidate {
    socket: SocketId,
    is_v6: bool,
    until_ms: u64,
}

#[derive(Default)]
struct Watch {
    echo_ms: u64,
    initiate_ms: u64,
    initiations: u32,
    is_reported: bool,
}

/// The state of all paths of a gateway.
pub struct Paths {
    paths: Vec<Path>,
    watches: HashMap<PeerId, Watch>,
    draining: Vec<(SocketId, u64)>,
}

impl Paths {
    /// Living paths with these sockets, per path IPv4 and IPv6.
    pub fn new(sockets: &[[Option<SocketId>; 2]]) -> Paths {
        let path = |current: &[Option<SocketId>; 2]| Path {
            current: *current,
            ..Path::default()
        };
        Paths {
            paths: sockets.iter().map(path).collect(),
            watches: HashMap::new(),
            draining: Vec::new(),
        }
    }

    /// A socket that was opened for `Effect::Hunt`.
    pub fn candidate(&mut self, path: usize, socket: SocketId, is_v6: bool, now_ms: u64) {
        if let Some(hunt) = self.paths.get_mut(path).and_then(|p| p.hunt.as_mut()) {
            let until_ms = now_ms + CANDIDATE_LIFE_MS;
            hunt.candidates.push(Candidate {
                socket,
                is_v6,
                until_ms,
            });
        }
    }

    /// An authentic datagram of `peer` came in on `socket`.
    pub fn heard(&mut self, peer: PeerId, socket: SocketId, now_ms: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (index, path) in self.paths.iter_mut().enumerate() {
            if path.current.contains(&Some(socket)) {
                path.heard_ms = now_ms;
                if let Some(hunt) = path.hunt.take() {
                    let left = hunt
                        .candidates
                        .iter()
                        .map(|c| (c.socket, now_ms + DRAIN_MS));
                    self.draining.extend(left);
                }
                break;
            }
            let Some(hunt) = &path.hunt else { continue };
            let Some(winner) = hunt.candidates.iter().find(|c| c.socket == socket).copied() else {
                continue;
            };
            let losers = hunt
                .candidates
                .iter()
                .map(|c| c.socket)
                .filter(|s| *s != socket);
            let family = usize::from(winner.is_v6);
            let old = path.current[family].replace(socket);
            self.draining
                .extend(losers.chain(old).map(|s| (s, now_ms + DRAIN_MS)));
            path.hunt = None;
            path.heard_ms = now_ms;
            effects.push(Effect::Adopt {
                path: index,
                socket,
                is_v6: winner.is_v6,
            });
            break;
        }
        if self.watches.remove(&peer).is_some_and(|w| w.is_reported) {
            effects.push(Effect::Answered { peer });
        }
        effects
    }

    /// Forgets a peer that was removed.
    pub fn forget(&mut self, peer: PeerId) {
        self.watches.remove(&peer);
    }

    /// Decides what is due now, and when to come again.
    pub fn step(&mut self, seen: &[Seen], now_ms: u64) -> (Vec<Effect>, Option<u64>) {
        let mut effects = Vec::new();
        self.close_old(&mut effects, now_ms);
        let waiting: Vec<&Seen> = seen.iter().filter(|s| is_waiting(s, now_ms)).collect();
        let lively = if waiting.is_empty() {
            Vec::new()
        } else {
            witnesses(seen, now_ms)
        };
        for peer in &waiting {
            self.probe(peer, &lively, &mut effects, now_ms);
        }
        for path in 0..self.paths.len() {
            self.hunt(path, &waiting, &lively, &mut effects, now_ms);
        }
        let deadline = self.deadline(&waiting, now_ms);
        (effects, deadline)
    }

    fn close_old(&mut self, effects: &mut Vec<Effect>, now_ms: u64) {
        for hunt in self.paths.iter_mut().filter_map(|p| p.hunt.as_mut()) {
            hunt.candidates.retain(|c| {
                let is_old = now_ms >= c.until_ms;
                if is_old {
                    self.draining.push((c.socket, now_ms + CANDIDATE_LIFE_MS));
                }
                !is_old
            });
        }
        self.draining.retain(|(socket, until_ms)| {
            let is_over = now_ms >= *until_ms;
            if is_over {
                effects.push(Effect::Close { socket: *socket });
            }
            !is_over
        });
    }

    /// Probes one waiting peer and those that its path is judged by, and reports its silence.
    fn probe(&mut self, peer: &Seen, lively: &[&Seen], effects: &mut Vec<Effect>, now_ms: u64) {
        let age = now_ms.saturating_sub(peer.waiting_ms);
        if age < PROBE_MS {
            return;
        }
        let limits = limits(peer);
        let path_heard_ms = self.paths.get(peer.path).map_or(0, |p| p.heard_ms);
        let watch = self.watches.entry(peer.peer).or_default();
        let echo_step = if age < LOST_MS {
            PROBE_MS
        } else {
            SLOW_ROUND_MS
        };
        if peer.has_session && now_ms.saturating_sub(watch.echo_ms) >= echo_step {
            watch.echo_ms = now_ms;
            effects.push(Effect::Probe {
                peer: peer.peer,
                how: How::Echo,
            });
        }
        let pause = (SUSPECT_MS << watch.initiations.min(8)).min(BACKOFF_MAX_MS);
        if age >= limits.initiate_ms && now_ms.saturating_sub(watch.initiate_ms) >= pause {
            watch.initiate_ms = now_ms;
            watch.initiations += 1;
            effects.push(Effect::Probe {
                peer: peer.peer,
                how: How::Initiate,
            });
        }
        let is_path_alive = path_heard_ms > peer.waiting_ms;
        let is_silent = is_path_alive && age >= limits.silent_ms || age >= limits.lost_ms;
        if is_silent && !watch.is_reported {
            watch.is_reported = true;
            effects.push(Effect::Unanswered {
                peer: peer.peer,
                for_ms: age,
            });
        }
        let is_own = |w: &&&Seen| w.path == peer.path && w.is_v6 == peer.is_v6;
        if !lively.iter().any(|w| is_own(&w)) {
            return self.ask_others(peer, lively, effects, now_ms);
        }
        for witness in lively.iter().filter(is_own).take(WITNESSES) {
            let watch = self.watches.entry(witness.peer).or_default();
            if now_ms.saturating_sub(watch.echo_ms.max(witness.heard_ms)) >= WITNESS_MS {
                watch.echo_ms = now_ms;
                effects.push(Effect::Probe {
                    peer: witness.peer,
                    how: How::Echo,
                });
            }
        }
    }

    /// A path that only silent peers use is judged by those of other paths: without them nobody could
    /// tell a dead peer from a dead path, and a path would be replaced for ever for one peer's sake.
    fn ask_others(
        &mut self,
        peer: &Seen,
        lively: &[&Seen],
        effects: &mut Vec<Effect>,
        now_ms: u64,
    ) {
        let Some(path) = self.paths.get_mut(peer.path) else {
            return;
        };
        if now_ms.saturating_sub(path.asked_ms.max(path.heard_ms)) < WITNESS_MS {
            return;
        }
        let same = lively.iter().filter(|w| w.is_v6 == peer.is_v6);
        for witness in same.take(WITNESSES) {
            path.asked_ms = now_ms;
            effects.push(Effect::Witness {
                peer: witness.peer,
                path: peer.path,
            });
        }
    }

    fn hunt(
        &mut self,
        index: usize,
        waiting: &[&Seen],
        lively: &[&Seen],
        effects: &mut Vec<Effect>,
        now_ms: u64,
    ) {
        let Some(path) = self.paths.get_mut(index) else {
            return;
        };
        let heard_ms = path.heard_ms;
        let is_suspect = |s: &&&Seen| {
            let limit = limits(s).suspect_ms;
            s.path == index
                && now_ms.saturating_sub(s.waiting_ms) >= limit
                && now_ms.saturating_sub(heard_ms) >= limit
        };
        let mut hunters: Vec<&Seen> = waiting.iter().filter(is_suspect).copied().collect();
        hunters.sort_by_key(|s| s.waiting_ms);
        let Some(first) = hunters.first() else {
            if let Some(hunt) = path.hunt.take() {
                let left = hunt
                    .candidates
                    .iter()
                    .map(|c| (c.socket, now_ms + DRAIN_MS));
                self.draining.extend(left);
            }
            return;
        };
        let is_v6 = first.is_v6;
        let fresh = Hunt {
            since_ms: now_ms,
            next_ms: now_ms,
            candidates: Vec::new(),
        };
        let hunt = path.hunt.get_or_insert(fresh);
        if now_ms < hunt.next_ms {
            return;
        }
        let is_fast = now_ms.saturating_sub(hunt.since_ms) < FAST_FOR_MS;
        hunt.next_ms = now_ms + if is_fast { ROUND_MS } else { SLOW_ROUND_MS };
        let count = CANDIDATES.min(CANDIDATES_MAX.saturating_sub(hunt.candidates.len()));
        if count == 0 {
            return;
        }
        let same = |s: &&Seen| s.is_v6 == is_v6;
        let own = hunters
            .iter()
            .copied()
            .filter(same)
            .take(HUNTERS)
            .map(|s| s.peer);
        let others = lively
            .iter()
            .copied()
            .filter(same)
            .take(WITNESSES)
            .map(|s| s.peer);
        let peers = own.chain(others).collect();
        effects.push(Effect::Hunt {
            path: index,
            is_v6,
            count,
            peers,
        });
    }

    fn deadline(&self, waiting: &[&Seen], now_ms: u64) -> Option<u64> {
        let steps = [
            PROBE_MS,
            2 * PROBE_MS,
            SUSPECT_MS,
            SILENT_MS,
            INITIATE_MS,
            LOST_MS,
        ];
        let next = |s: &&Seen| {
            let due = steps
                .iter()
                .map(|step| s.waiting_ms + step)
                .find(|at| *at > now_ms);
            due.unwrap_or(now_ms + ROUND_MS / 2)
        };
        let hunts = self.paths.iter().filter_map(|p| p.hunt.as_ref());
        let rounds = hunts.clone().map(|h| h.next_ms.max(now_ms + 1));
        let candidates = hunts.flat_map(|h| h.candidates.iter().map(|c| c.until_ms));
        let drains = self.draining.iter().map(|(_, until_ms)| *until_ms);
        waiting
            .iter()
            .map(next)
            .chain(rounds)
            .chain(candidates)
            .chain(drains)
            .min()
    }
}

#[cfg(test)]
#[path = "paths_test.rs"]
mod tests;

#[cfg(test)]
#[path = "paths_world_test.rs"]
mod world_tests;
