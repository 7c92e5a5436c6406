//! Paths in a simulated world: a balancer whose entries die under traffic.

use super::*;
use proptest::prelude::*;

/// A balancer with entries, some dead; each socket is pinned to an entry by its number.
struct World {
    paths: Paths,
    peers: Vec<Seen>,
    open: Vec<SocketId>,
    current: SocketId,
    next_socket: SocketId,
    seed: u64,
    alive: [bool; 3],
    /// Handshakes that were begun.
    initiations: usize,
}

impl World {
    /// So many peers behind one path whose socket is open, and three entries alive.
    fn new(peers: u32, seed: u64) -> World {
        World {
            paths: Paths::new(&[[Some(1), None]]),
            peers: (1..=peers).map(super::tests::peer).collect(),
            open: vec![1],
            current: 1,
            next_socket: 2,
            seed,
            alive: [true; 3],
            initiations: 0,
        }
    }

    fn is_alive(&self, socket: SocketId) -> bool {
        let hash = (socket ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        self.alive[(hash % 3) as usize]
    }

    fn ask(&mut self, peer: PeerId, socket: SocketId, now_ms: u64) {
        if !self.is_alive(socket) {
            return;
        }
        for seen in self.peers.iter_mut().filter(|s| s.peer == peer) {
            seen.heard_ms = now_ms;
            seen.waiting_ms = 0;
        }
        for effect in self.paths.heard(peer, socket, now_ms) {
            if let Effect::Adopt { socket, .. } = effect {
                self.current = socket;
            }
        }
    }

    fn step(&mut self, now_ms: u64) {
        if now_ms.is_multiple_of(50) {
            for seen in &mut self.peers {
                seen.asked_ms = now_ms;
                if seen.waiting_ms == 0 {
                    seen.waiting_ms = now_ms;
                }
            }
            for peer in self.peers.clone() {
                self.ask(peer.peer, self.current, now_ms);
            }
        }
        for effect in self.paths.step(&self.peers.clone(), now_ms).0 {
            match effect {
                Effect::Probe { peer, how } => {
                    self.initiations += usize::from(how == How::Initiate);
                    self.ask(peer, self.current, now_ms);
                }
                Effect::Hunt {
                    path,
                    is_v6,
                    count,
                    peers,
                } => {
                    let sockets: Vec<SocketId> =
                        (0..count as u64).map(|n| self.next_socket + n).collect();
                    self.next_socket += count as u64;
                    for socket in &sockets {
                        self.open.push(*socket);
                        self.paths.candidate(path, *socket, is_v6, now_ms);
                    }
                    for (peer, socket) in peers
                        .iter()
                        .flat_map(|p| sockets.iter().map(move |s| (*p, *s)))
                    {
                        self.ask(peer, socket, now_ms);
                    }
                }
                Effect::Close { socket } => {
                    assert_ne!(socket, self.current, "the path's own socket was closed");
                    self.open.retain(|s| *s != socket);
                }
                Effect::Witness { .. }
                | Effect::Adopt { .. }
                | Effect::Unanswered { .. }
                | Effect::Answered { .. } => {}
            }
        }
    }
}

/// Polls a dead peer, the only one of path 0, for 19 s while another answers on path 1 and on
/// the sockets of path 0 that are alive. Returns how often path 0 was replaced and the peer reported.
fn poll_a_dead_peer(is_alive: impl Fn(SocketId) -> bool) -> (usize, usize) {
    let mut paths = Paths::new(&[[Some(1), None], [Some(2), None]]);
    let (mut current, mut next_socket) = (1, 10);
    let (mut replaced, mut reported) = (0, 0);
    for now_ms in (1000..20_000).step_by(10) {
        let mut heard = Vec::new();
        if now_ms % 100 == 0 {
            heard.extend(paths.heard(2, 2, now_ms));
        }
        let live = Seen {
            path: 1,
            heard_ms: now_ms - now_ms % 100,
            ..super::tests::peer(2)
        };
        let dead = Seen {
            waiting_ms: 1000,
            asked_ms: now_ms,
            ..super::tests::peer(1)
        };
        for effect in paths.step(&[dead, live], now_ms).0 {
            match effect {
                Effect::Witness { peer, path } => {
                    assert_eq!((peer, path), (2, 0));
                    if is_alive(current) {
                        heard.extend(paths.heard(2, current, now_ms));
                    }
                }
                Effect::Hunt { path, count, .. } => {
                    let fresh = next_socket..next_socket + count as u64;
                    next_socket = fresh.end;
                    for socket in fresh.clone() {
                        paths.candidate(path, socket, false, now_ms);
                    }
                    for socket in fresh.filter(|s| is_alive(*s)) {
                        heard.extend(paths.heard(2, socket, now_ms));
                    }
                }
                Effect::Unanswered { peer, .. } => reported += usize::from(peer == 1),
                Effect::Probe { .. }
                | Effect::Adopt { .. }
                | Effect::Close { .. }
                | Effect::Answered { .. } => {}
            }
        }
        for effect in heard {
            if let Effect::Adopt { socket, .. } = effect {
                current = socket;
                replaced += 1;
            }
        }
    }
    (replaced, reported)
}

#[test]
fn a_path_whose_only_peer_is_dead_stays_while_a_peer_of_another_path_answers_on_it() {
    assert_eq!(poll_a_dead_peer(|_| true), (0, 1));
}

#[test]
fn a_path_that_died_with_its_only_peer_is_replaced_once() {
    assert_eq!(poll_a_dead_peer(|socket| socket != 1), (1, 1));
}

/// W52: they share the search for a new path instead of each making a session anew.
#[test]
fn w52_five_hundred_peers_that_lose_their_path_at_once_come_back_without_a_handshake() {
    for seed in 0..10 {
        let mut world = World::new(500, seed);
        for now_ms in (1000..1500).step_by(10) {
            world.step(now_ms);
        }
        for entry in 0..3 {
            world.alive = [true; 3];
            world.alive[entry] = false;
            if !world.is_alive(world.current) {
                break;
            }
        }
        let mut longest_ms = 0;
        for now_ms in (1500..4000).step_by(10) {
            world.step(now_ms);
            let oldest = world.peers.iter().map(|p| p.heard_ms).min();
            longest_ms = longest_ms.max(now_ms - oldest.unwrap_or(0));
            assert!(world.open.len() <= 1 + CANDIDATES_MAX, "seed {seed}");
        }
        assert!(world.is_alive(world.current), "seed {seed}");
        assert!(
            (500..900).contains(&longest_ms),
            "seed {seed}: {longest_ms} ms"
        );
        assert_eq!(world.initiations, 0, "seed {seed}");
    }
}

proptest! {
    #[test]
    fn whatever_entries_die_traffic_resumes_soon_and_sockets_stay_bounded(
        seed in any::<u64>(),
        deaths in prop::collection::vec(0usize..3, 1..6),
    ) {
        let mut world = World::new(5, seed);
        let mut now_ms = 1000;
        for dead in deaths {
            world.alive = [true; 3];
            world.alive[dead] = false;
            let since = now_ms;
            while now_ms < since + 4000 {
                world.step(now_ms);
                prop_assert!(world.open.len() <= 60, "{} sockets", world.open.len());
                now_ms += 10;
            }
            prop_assert!(world.is_alive(world.current), "the path is still dead after 4 s");
            prop_assert!(world.peers.iter().all(|p| now_ms - p.heard_ms <= 60));
        }
    }
}
