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
}

impl World {
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
                Effect::Probe { peer, .. } => self.ask(peer, self.current, now_ms),
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
                Effect::Adopt { .. } | Effect::Unanswered { .. } | Effect::Answered { .. } => {}
            }
        }
    }
}

proptest! {
    #[test]
    fn whatever_entries_die_traffic_resumes_soon_and_sockets_stay_bounded(
        seed in any::<u64>(),
        deaths in prop::collection::vec(0usize..3, 1..6),
    ) {
        let mut world = World {
            paths: Paths::new(&[[Some(1), None]]),
            peers: (1..=5).map(super::tests::peer).collect(),
            open: vec![1],
            current: 1,
            next_socket: 2,
            seed,
            alive: [true; 3],
        };
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
