//! What the search for paths sees of the peers, and what it asks the engine to do.

/// Only what was sent within this time keeps probing and hunting alive.
const TRAFFIC_MS: u64 = 10_000;

/// A peer by the 24 bits of its indices.
pub type PeerId = u32;
/// A socket by a number that is never used twice.
pub type SocketId = u64;

/// What is known of one active peer now. Times in milliseconds, 0: never.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub peer: PeerId,
    pub path: usize,
    pub is_v6: bool,
    pub has_session: bool,
    /// Whether it ever answered a probe.
    pub echoes: bool,
    /// Since when data waits for an answer; 0: nothing waits.
    pub waiting_ms: u64,
    /// When something that deserves an answer was sent last.
    pub asked_ms: u64,
    pub heard_ms: u64,
}

/// How to ask whether a peer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Echo,
    Initiate,
}

/// What the engine must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask on the peer's own path.
    Probe {
        peer: PeerId,
        how: How,
    },
    /// Ask a peer of another path on this one, to see whether the path is alive.
    Witness {
        peer: PeerId,
        path: usize,
    },
    /// Open sockets, tell each to `candidate`, and send one same probe of each peer on all of them.
    Hunt {
        path: usize,
        is_v6: bool,
        count: usize,
        peers: Vec<PeerId>,
    },
    /// This candidate is the path's socket from now on.
    Adopt {
        path: usize,
        socket: SocketId,
        is_v6: bool,
    },
    Close {
        socket: SocketId,
    },
    Unanswered {
        peer: PeerId,
        for_ms: u64,
    },
    Answered {
        peer: PeerId,
    },
}

/// Whether something was sent lately that nothing has answered.
pub fn is_waiting(seen: &Seen, now_ms: u64) -> bool {
    seen.waiting_ms != 0 && now_ms.saturating_sub(seen.asked_ms) < TRAFFIC_MS
}

/// Peers that should answer a probe: heard most recently first.
pub fn witnesses(all: &[Seen], now_ms: u64) -> Vec<&Seen> {
    let mut found: Vec<&Seen> = all
        .iter()
        .filter(|s| s.has_session && s.echoes && s.heard_ms != 0 && !is_waiting(s, now_ms))
        .collect();
    found.sort_by_key(|s| std::cmp::Reverse(s.heard_ms));
    found
}
