//! How long silence may last before a gateway does something about it.

use crate::paths::Seen;

/// An unanswered peer is probed after this long.
pub const PROBE_MS: u64 = 200;
/// A path on which nobody answers for this long is suspect.
pub const SUSPECT_MS: u64 = 500;
/// A peer that stays silent while its path answers for others is reported after this long.
pub const SILENT_MS: u64 = 700;
/// Any peer that stays silent is reported after this long.
pub const LOST_MS: u64 = 1_000;
/// A session that gets no answer is tried anew after this long: the peer may have restarted.
pub const INITIATE_MS: u64 = 900;
/// The same limits for foreign WireGuard, which does not answer probes but only handshakes.
const FOREIGN_INITIATE_MS: u64 = 600;
const FOREIGN_SUSPECT_MS: u64 = 1_500;
const FOREIGN_LOST_MS: u64 = 2_000;
/// How long a peer may stay silent before what.
pub struct Limits {
    pub suspect_ms: u64,
    pub initiate_ms: u64,
    pub silent_ms: u64,
    pub lost_ms: u64,
}

/// The limits for a peer as it is now.
pub fn limits(seen: &Seen) -> Limits {
    let is_foreign = seen.has_session && !seen.echoes;
    if is_foreign {
        return Limits {
            suspect_ms: FOREIGN_SUSPECT_MS,
            initiate_ms: FOREIGN_INITIATE_MS,
            silent_ms: FOREIGN_LOST_MS,
            lost_ms: FOREIGN_LOST_MS,
        };
    }
    Limits {
        suspect_ms: SUSPECT_MS,
        initiate_ms: if seen.has_session {
            INITIATE_MS
        } else {
            SUSPECT_MS
        },
        silent_ms: SILENT_MS,
        lost_ms: LOST_MS,
    }
}
