//! Looks after active peers only: session clocks, keepalives, probes and the search for paths.

use crate::inbound::{Arrival, Watched};
use crate::peer::Peer;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Milliseconds after the last packet during which a session's clock runs finely.
const WARM_MS: u64 = 20_000;
/// Milliseconds after which a session has expired and its keys are gone.
const COOL_MS: u64 = 200_000;
const WARM_TICK_MS: u64 = 250;
const COOL_TICK_MS: u64 = 5_000;

/// The peers looked after.
pub struct Timers {
    active: Vec<(Arc<Peer>, u64)>,
}

impl Timers {
    /// Nobody to look after yet.
    pub fn new(_shared: &Shared, _path_tokens: Vec<Vec<u64>>) -> Timers {
        Timers { active: Vec::new() }
    }

    /// Does what is due; returns when to come again.
    pub fn run(&mut self, shared: &Shared, _watched: &mut Watched, now_ms: u64) -> Option<u64> {
        let new = std::mem::take(&mut *shared.activated.lock());
        self.active.extend(new.into_iter().map(|peer| (peer, now_ms)));
        self.active.retain_mut(|(peer, due_ms)| {
            if peer.is_removed.load(Relaxed) {
                return false;
            }
            if now_ms < *due_ms {
                return true;
            }
            shared.tick(peer, peer.noise.lock().as_mut(), now_ms);
            let quiet = now_ms.saturating_sub(peer.heard_ms.load(Relaxed).max(peer.data_ms.load(Relaxed)));
            let step = if quiet < WARM_MS { WARM_TICK_MS } else { COOL_TICK_MS };
            *due_ms = now_ms + step;
            if quiet < COOL_MS {
                return true;
            }
            peer.is_active.store(false, SeqCst);
            false
        });
        self.active.iter().map(|(_, due_ms)| *due_ms).min()
    }

    /// An authentic datagram came from the peer.
    pub fn heard(&mut self, _shared: &Shared, _peer: &Arc<Peer>, _arrival: &Arrival<'_>) {}
}
