//! Looks after active peers only: session clocks, keepalives, probes and the search for paths. Idle peers cost nothing.

use crate::echo;
use crate::event::Event;
use crate::noise::{HANDSHAKE_MAX, Noise, Sealed};
use crate::paths::{Effect, How, Paths, PeerId, Seen, SocketId};
use crate::peer::Peer;
use crate::shared::Shared;
use crate::sockets::bind;
use crate::watched::{Arrival, Use, Watched};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Milliseconds after the last packet during which a session's clock runs finely.
const WARM_MS: u64 = 20_000;
/// Milliseconds after which a session has expired and its keys are gone.
const COOL_MS: u64 = 200_000;
/// All peers are looked at together, at multiples of these: one wake-up for however many.
const WARM_TICK_MS: u64 = 500;
const COOL_TICK_MS: u64 = 5_000;
/// While a connection inside is open, something is sent to its peer this often: below every NAT's patience.
const KEEPALIVE_MS: u64 = 10_000;
/// Peers that are told of a new path at once; the others learn with their next packet.
const TOLD_MAX: usize = 256;

struct Active {
    peer: Arc<Peer>,
    due_ms: u64,
}

/// The peers looked after, and on a gateway its paths.
pub struct Timers {
    active: HashMap<PeerId, Active>,
    paths: Option<Paths>,
    pending: Vec<Effect>,
    /// When something is due next.
    next_ms: Option<u64>,
}

impl Timers {
    /// Nobody to look after yet; `sockets` are the tokens of each path's, IPv4 and IPv6.
    pub fn new(shared: &Shared, sockets: &[[Option<SocketId>; 2]]) -> Timers {
        let paths = shared.is_gateway().then(|| Paths::new(sockets));
        Timers {
            active: HashMap::new(),
            paths,
            pending: Vec::new(),
            next_ms: None,
        }
    }

    /// Whether there is something to do: packets alone are no reason to look at every peer.
    pub fn is_due(&self, now_ms: u64) -> bool {
        !self.pending.is_empty() || self.next_ms.is_some_and(|at| now_ms >= at)
    }

    /// When something is due next, as of the last run.
    pub fn next_ms(&self) -> Option<u64> {
        self.next_ms
    }

    /// Does what is due.
    pub fn run(&mut self, shared: &Shared, watched: &mut Watched, now_ms: u64) {
        let activated = std::mem::take(&mut *shared.activated.lock());
        for peer in activated {
            if let Some(paths) = self.paths.as_mut()
                && self
                    .active
                    .get(&peer.pair())
                    .is_some_and(|a| !Arc::ptr_eq(&a.peer, &peer))
            {
                paths.forget(peer.pair());
            }
            self.active.insert(
                peer.pair(),
                Active {
                    peer,
                    due_ms: now_ms,
                },
            );
        }
        self.tick(shared, now_ms);
        let mut deadline = self.active.values().map(|a| a.due_ms).min();
        for effect in std::mem::take(&mut self.pending) {
            self.perform(shared, watched, effect, now_ms);
        }
        if let Some(paths) = self.paths.as_mut() {
            let seen: Vec<Seen> = self.active.values().map(|a| look(&a.peer)).collect();
            let (effects, at) = paths.step(&seen, now_ms);
            for effect in effects {
                self.perform(shared, watched, effect, now_ms);
            }
            deadline = deadline.into_iter().chain(at).min();
        }
        self.next_ms = deadline;
    }

    /// An authentic datagram came from the peer.
    pub fn heard(&mut self, peer: &Peer, arrival: &Arrival<'_>) {
        if let Some(paths) = self.paths.as_mut() {
            self.pending
                .extend(paths.heard(peer.pair(), arrival.token, arrival.now_ms));
        }
    }

    /// A session was made: finds out whether the other end answers probes.
    pub fn greeted(&mut self, peer: &Peer) {
        if self.paths.is_some() && !peer.echoes.load(Relaxed) {
            self.pending.push(Effect::Probe {
                peer: peer.pair(),
                how: How::Echo,
            });
        }
    }

    fn tick(&mut self, shared: &Shared, now_ms: u64) {
        self.active.retain(|_, active| {
            let peer = &active.peer;
            if peer.is_removed.load(Relaxed) {
                return false;
            }
            if now_ms < active.due_ms {
                return true;
            }
            let traffic_ms = peer.data_ms.load(Relaxed).max(peer.heard_ms.load(Relaxed));
            let quiet = now_ms.saturating_sub(traffic_ms);
            let flow_ms = peer
                .data_ms
                .load(Relaxed)
                .max(peer.received_ms.load(Relaxed));
            let is_open = shared.is_gateway() && peer.flows.is_any_open(flow_ms, now_ms);
            // In silence nothing is renewed: the next packet moves the clock itself.
            if quiet < WARM_MS || is_open {
                shared.tick(peer, peer.noise.lock().as_mut(), now_ms);
            }
            let step = if quiet < WARM_MS {
                WARM_TICK_MS
            } else {
                COOL_TICK_MS
            };
            active.due_ms = (now_ms / step + 1) * step;
            if is_open {
                if now_ms.saturating_sub(peer.sent_ms.load(Relaxed)) >= KEEPALIVE_MS {
                    keep_alive(shared, peer, now_ms);
                }
                let keep_ms = peer.sent_ms.load(Relaxed) + KEEPALIVE_MS;
                let keep_ms = keep_ms.max(now_ms + 1).next_multiple_of(WARM_TICK_MS);
                active.due_ms = active.due_ms.min(keep_ms);
                return true;
            }
            // What was sent last may have been an initiation: the other end remembers it as long.
            let silent = now_ms.saturating_sub(peer.sent_ms.load(Relaxed));
            if quiet.min(silent) < COOL_MS {
                return true;
            }
            peer.is_active.store(false, SeqCst);
            // A packet that was sent meanwhile found the peer still active.
            let is_idle = peer.data_ms.load(SeqCst).max(peer.heard_ms.load(SeqCst)) == traffic_ms;
            if is_idle {
                let mut noise = peer.noise.lock();
                if !noise.rest() {
                    // Ends a handshake that was never answered; whatever it would say is too late.
                    noise.tick(&mut [0u8; HANDSHAKE_MAX]);
                    noise.rest();
                }
            }
            !is_idle && !peer.is_active.swap(true, SeqCst)
        });
    }

    fn perform(&mut self, shared: &Shared, watched: &mut Watched, effect: Effect, now_ms: u64) {
        match effect {
            Effect::Probe { peer, how } => {
                if let Some(active) = self.active.get(&peer) {
                    let mut out = [0u8; HANDSHAKE_MAX];
                    let sealed = probe(shared, &active.peer, how, &mut out, now_ms);
                    shared.send_sealed(&active.peer, sealed, &out, now_ms);
                }
            }
            Effect::Witness { peer, path } => {
                if let Some(active) = self.active.get(&peer) {
                    ask_on(shared, &active.peer, path, now_ms);
                }
            }
            Effect::Hunt {
                path,
                is_v6,
                count,
                peers,
            } => {
                self.hunt(shared, watched, path, is_v6, count, &peers, now_ms);
            }
            Effect::Adopt {
                path,
                socket,
                is_v6,
            } => {
                self.adopt(shared, watched, path, socket, is_v6, now_ms);
            }
            Effect::Close { socket } => watched.remove(socket),
            Effect::Unanswered { peer, for_ms } => {
                if let Some(active) = self.active.get(&peer) {
                    shared.tell(Event::Unanswered {
                        key: active.peer.key,
                        for_ms,
                    });
                }
            }
            Effect::Answered { peer } => {
                if let Some(active) = self.active.get(&peer) {
                    shared.tell(Event::Answered {
                        key: active.peer.key,
                    });
                }
            }
        }
    }

    /// Opens fresh sockets and asks each peer with one same datagram on all of them: the first copy
    /// that arrives is answered, the others are replays to the peer.
    #[allow(clippy::too_many_arguments)]
    fn hunt(
        &mut self,
        shared: &Shared,
        watched: &mut Watched,
        path: usize,
        is_v6: bool,
        count: usize,
        peers: &[PeerId],
        now_ms: u64,
    ) {
        let Some(paths) = self.paths.as_mut() else {
            return;
        };
        let mut sockets = Vec::with_capacity(count);
        for _ in 0..count {
            let made = bind(0, is_v6, shared.offload)
                .and_then(|socket| Ok((watched.add(socket.clone(), Use::Peers)?, socket)));
            let Ok((token, socket)) = made else {
                return shared.counters.drop_send.one();
            };
            paths.candidate(path, token, is_v6, now_ms);
            shared.counters.candidates_opened.one();
            sockets.push(socket);
        }
        for peer in peers
            .iter()
            .filter_map(|id| self.active.get(id))
            .map(|a| &a.peer)
        {
            let place = *peer.place.lock();
            // What was learned may be what died: the configured endpoint is asked too.
            let learned = place.endpoint.filter(|to| to.is_ipv6() == is_v6);
            let configured = place.configured.filter(|to| to.is_ipv6() == is_v6);
            let places = learned
                .into_iter()
                .chain(configured.filter(|c| learned != Some(*c)));
            if learned.or(configured).is_none() {
                continue;
            }
            let has_session = peer.has_session.load(Relaxed);
            let how = if has_session && peer.echoes.load(Relaxed) {
                How::Echo
            } else {
                How::Initiate
            };
            let mut out = [0u8; HANDSHAKE_MAX];
            let (Sealed::Data(n) | Sealed::Handshake(n)) =
                probe(shared, peer, how, &mut out, now_ms)
            else {
                continue;
            };
            for to in places {
                for socket in &sockets {
                    shared.send_on(socket, &out[..n], None, to, None);
                }
            }
        }
    }

    fn adopt(
        &mut self,
        shared: &Shared,
        watched: &Watched,
        path: usize,
        token: SocketId,
        is_v6: bool,
        now_ms: u64,
    ) {
        let Some((socket, _)) = watched.sockets.get(&token) else {
            return;
        };
        if let Some(pair) = shared.paths.write().get_mut(path) {
            let place = if is_v6 { &mut pair.v6 } else { &mut pair.v4 };
            *place = Some(socket.clone());
        }
        if let Some(replaced) = shared.replaced.get(path) {
            replaced.fetch_add(1, Relaxed);
        }
        shared.tell(Event::Path {
            path,
            local_port: socket.local_port(),
        });
        // Who has something to say learns the new way back at once.
        let concerned = self.active.values().map(|a| &a.peer).filter(|p| {
            let traffic_ms = p.data_ms.load(Relaxed).max(p.received_ms.load(Relaxed));
            p.path.load(Relaxed) == path
                && p.has_session.load(Relaxed)
                && (p.waiting_ms.load(Relaxed) != 0 || p.flows.is_any_open(traffic_ms, now_ms))
        });
        for peer in concerned.take(TOLD_MAX) {
            keep_alive(shared, peer, now_ms);
        }
    }
}

/// What the paths need to know of a peer.
fn look(peer: &Peer) -> Seen {
    Seen {
        peer: peer.pair(),
        path: peer.path.load(Relaxed),
        is_v6: peer.place.lock().endpoint.is_some_and(|to| to.is_ipv6()),
        has_session: peer.has_session.load(Relaxed),
        echoes: peer.echoes.load(Relaxed),
        waiting_ms: peer.waiting_ms.load(SeqCst),
        asked_ms: peer.asked_ms.load(Relaxed),
        heard_ms: peer.heard_ms.load(Relaxed),
    }
}

/// Makes a probe; without a session only a handshake can ask.
fn probe(shared: &Shared, peer: &Peer, how: How, out: &mut [u8], now_ms: u64) -> Sealed {
    let mut noise = peer.noise.lock();
    shared.tick(peer, noise.as_mut(), now_ms);
    match how {
        How::Echo if noise.session_age().is_some() => {
            shared.counters.probes_sent.one();
            noise.seal(&echo::request(shared.now_us()), out)
        }
        How::Echo | How::Initiate => noise.initiate(out),
    }
}

/// Probes a peer on a path that is not its own.
fn ask_on(shared: &Shared, peer: &Peer, path: usize, now_ms: u64) {
    let Some(to) = peer.place.lock().endpoint else {
        return;
    };
    let socket = shared
        .paths
        .read()
        .get(path)
        .and_then(|pair| pair.of(to))
        .cloned();
    let mut out = [0u8; HANDSHAKE_MAX];
    let sealed = probe(shared, peer, How::Echo, &mut out, now_ms);
    if let (Some(socket), Sealed::Data(n) | Sealed::Handshake(n)) = (socket, sealed) {
        shared.send_on(&socket, &out[..n], None, to, None);
    }
}

/// Something for NAT and balancer to remember, answered where the other end can.
fn keep_alive(shared: &Shared, peer: &Arc<Peer>, now_ms: u64) {
    let mut out = [0u8; HANDSHAKE_MAX];
    let can_answer = peer.echoes.load(Relaxed) && peer.has_session.load(Relaxed);
    let sealed = if can_answer {
        probe(shared, peer, How::Echo, &mut out, now_ms)
    } else {
        let mut noise = peer.noise.lock();
        shared.tick(peer, noise.as_mut(), now_ms);
        seal_keepalive(noise.as_mut(), &mut out)
    };
    shared.send_sealed(peer, sealed, &out, now_ms);
    // Whatever came of it, the next one is a full interval away.
    peer.sent_ms.store(now_ms, Relaxed);
    if can_answer {
        shared.note_waiting(peer, now_ms);
    }
}

fn seal_keepalive(noise: &mut dyn Noise, out: &mut [u8]) -> Sealed {
    if noise.session_age().is_some() {
        noise.seal(&[], out)
    } else {
        noise.initiate(out)
    }
}
