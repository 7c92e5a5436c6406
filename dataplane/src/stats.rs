//! Counters since the device was opened, and the plain data that `stats` answers with.

use crate::noise::Key;
use ip_network::IpNetwork;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters by name; all are monotonic.
        #[derive(Default)]
        pub struct Counters { $($(#[$doc])* pub $name: Counter,)* }

        impl Counters {
            /// Every counter with its name.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get()),)*]
            }
        }
    };
}

/// One atomic counter.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn one(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

counters! {
    /// Inner packets without a peer for their destination.
    drop_no_peer,
    /// Inner packets for a peer whose endpoint is not known.
    drop_no_endpoint,
    /// Inner packets from the kernel that make no sense.
    drop_malformed,
    /// Authenticated packets whose source is not the peer's.
    drop_source,
    /// Data messages for no session, replayed, or damaged.
    drop_refused,
    /// Handshake messages that are for nobody, damaged, or too many.
    drop_handshake,
    /// Datagrams that are no WireGuard message, or too long.
    drop_garbage,
    /// Datagrams whose index names an agent that is not known.
    drop_unknown_agent,
    /// Answers on a relay flow that come from no known agent.
    drop_relay_stranger,
    /// Packets for a peer for whose session too many wait already.
    drop_queue,
    /// Datagrams that the kernel would not send.
    drop_send,
    /// Packets that the TUN would not take.
    drop_tun,
    /// Datagrams passed on to their owner.
    relay_datagrams,
    /// Datagrams passed back to a client.
    relay_answers,
    /// Datagrams not passed on: too many new flows in one second.
    relay_refused,
    /// Relay flows that were pushed out by newer ones.
    relay_evicted,
    /// TCP handshakes whose segment size was lowered.
    mss_clamped,
    /// Cookie replies sent under load.
    cookies_sent,
    handshakes_started,
    handshakes_done,
    keepalives_sent,
    keepalives_received,
    cookies_received,
    /// Path probes sent; a probe on several sockets counts once.
    probes_sent,
    probes_answered,
    /// Path probes of others that were answered.
    probes_echoed,
    /// Sockets opened in search of a living path.
    candidates_opened,
    /// Connections that a stack without TUN began, and what came of those that did not come about.
    stack_dialed,
    stack_refused,
    stack_unreachable,
    stack_timed_out,
    stack_full,
    /// Events that were not told: too many waited already.
    events_lost,
    /// Wake-ups of the inbound thread, and of the stack's.
    wakeups,
}

/// What one `set` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub peers_added: u32,
    pub peers_updated: u32,
    pub peers_removed: u32,
    pub steering_changed: u32,
    pub conflicts: Vec<crate::allowed_ips::Conflict>,
}

/// See `PeerStats` of `src/model/device.ts`.
#[derive(Clone, Debug)]
pub struct PeerStats {
    pub key: Key,
    pub agent: u16,
    pub slot: u8,
    pub endpoint: Option<SocketAddr>,
    pub allowed_ips: Vec<IpNetwork>,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub handshake_age_ms: Option<u64>,
    pub received_age_ms: Option<u64>,
    pub unanswered_ms: Option<u64>,
    pub rtt_us: Option<u64>,
    pub path: usize,
}

/// See `PathStats` of `src/model/device.ts`.
#[derive(Clone, Copy, Debug)]
pub struct PathStats {
    pub path: usize,
    pub local_port: u16,
    pub replaced: u64,
}

/// See `DeviceStats` of `src/model/device.ts`.
#[derive(Clone, Debug)]
pub struct DeviceStats {
    pub listen_port: u16,
    pub interface: String,
    pub tun_offload: bool,
    pub udp_send_offload: bool,
    pub udp_receive_offload: bool,
    pub peers: Vec<PeerStats>,
    pub paths: Vec<PathStats>,
    pub relay_flows: usize,
    pub counters: Vec<(&'static str, u64)>,
}
