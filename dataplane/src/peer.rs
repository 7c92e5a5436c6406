//! One peer: its session, where it is, and what was last heard and sent.

use crate::inner_flows::InnerFlows;
use crate::noise::{Key, Noise};
use crate::stats::PeerStats;
use crate::steering::pair_index;
use ip_network::IpNetwork;
use parking_lot::Mutex;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Where a peer is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// As `set` said last; only a change of this overwrites what was learned.
    pub configured: Option<SocketAddr>,
    pub endpoint: Option<SocketAddr>,
    /// The local address that the peer talks to, which answers must come from.
    pub local: Option<IpAddr>,
    /// What a changed configuration gave up: datagrams still under way from there don't bring it back.
    pub abandoned: Option<SocketAddr>,
}

/// A peer. Times are milliseconds since the device was opened, 0: never.
pub struct Peer {
    pub key: Key,
    pub agent: u16,
    pub slot: u8,
    pub noise: Mutex<Box<dyn Noise>>,
    pub place: Mutex<Place>,
    /// The path in use; 0 on an agent.
    pub path: AtomicUsize,
    /// Whether the timers look after this peer; idle ones are left alone.
    pub is_active: AtomicBool,
    pub has_session: AtomicBool,
    /// Whether it ever answered a path probe: foreign WireGuard does not.
    pub echoes: AtomicBool,
    pub is_removed: AtomicBool,
    /// The oldest data packet that nothing has answered.
    pub waiting_ms: AtomicU64,
    /// The last datagram sent that deserves an answer.
    pub asked_ms: AtomicU64,
    /// The last inner packet sent.
    pub data_ms: AtomicU64,
    /// The last inner packet received.
    pub received_ms: AtomicU64,
    /// The last datagram of any kind sent.
    pub sent_ms: AtomicU64,
    /// The last authenticated datagram.
    pub heard_ms: AtomicU64,
    pub handshake_ms: AtomicU64,
    pub rtt_us: AtomicU64,
    pub rx_bytes: AtomicU64,
    pub tx_bytes: AtomicU64,
    pub rx_packets: AtomicU64,
    pub tx_packets: AtomicU64,
    pub flows: InnerFlows,
}

/// What a new peer is made of.
pub struct NewPeer {
    pub key: Key,
    pub agent: u16,
    pub slot: u8,
    pub endpoint: Option<SocketAddr>,
    pub path: usize,
    pub noise: Box<dyn Noise>,
}

impl Peer {
    /// A peer that was never heard of.
    pub fn new(new: NewPeer) -> Peer {
        let place = Place {
            configured: new.endpoint,
            endpoint: new.endpoint,
            local: None,
            abandoned: None,
        };
        Peer {
            key: new.key,
            agent: new.agent,
            slot: new.slot,
            noise: Mutex::new(new.noise),
            place: Mutex::new(place),
            path: AtomicUsize::new(new.path),
            is_active: AtomicBool::new(false),
            has_session: AtomicBool::new(false),
            echoes: AtomicBool::new(false),
            is_removed: AtomicBool::new(false),
            waiting_ms: AtomicU64::new(0),
            asked_ms: AtomicU64::new(0),
            data_ms: AtomicU64::new(0),
            received_ms: AtomicU64::new(0),
            sent_ms: AtomicU64::new(0),
            heard_ms: AtomicU64::new(0),
            handshake_ms: AtomicU64::new(0),
            rtt_us: AtomicU64::new(0),
            rx_bytes: AtomicU64::new(0),
            tx_bytes: AtomicU64::new(0),
            rx_packets: AtomicU64::new(0),
            tx_packets: AtomicU64::new(0),
            flows: InnerFlows::default(),
        }
    }

    /// The 24 bits that every index of this pair starts with.
    pub fn pair(&self) -> u32 {
        pair_index(self.agent, self.slot)
    }

    /// Follows the peer to where an authenticated datagram came from; says whether it moved.
    pub fn roam(&self, from: SocketAddr, local: Option<IpAddr>) -> bool {
        let mut place = self.place.lock();
        if place.abandoned == Some(from) {
            return false;
        }
        let moved = place.endpoint != Some(from);
        place.endpoint = Some(from);
        place.local = local;
        moved
    }

    /// Takes a configured endpoint; only a changed one has an effect, which is said.
    pub fn configure(&self, endpoint: Option<SocketAddr>) -> bool {
        let mut place = self.place.lock();
        if place.configured == endpoint {
            return false;
        }
        place.configured = endpoint;
        if endpoint.is_some() {
            place.abandoned = place.endpoint.filter(|old| Some(*old) != endpoint);
            place.endpoint = endpoint;
            place.local = None;
        }
        true
    }

    /// What is known of the peer, as plain data.
    pub fn stats(&self, now_ms: u64, allowed_ips: Vec<IpNetwork>) -> PeerStats {
        let age = |at: &AtomicU64| match at.load(Relaxed) {
            0 => None,
            ms => Some(now_ms.saturating_sub(ms)),
        };
        PeerStats {
            key: self.key,
            agent: self.agent,
            slot: self.slot,
            endpoint: self.place.lock().endpoint,
            allowed_ips,
            rx_bytes: self.rx_bytes.load(Relaxed),
            tx_bytes: self.tx_bytes.load(Relaxed),
            rx_packets: self.rx_packets.load(Relaxed),
            tx_packets: self.tx_packets.load(Relaxed),
            handshake_age_ms: age(&self.handshake_ms),
            received_age_ms: age(&self.heard_ms),
            unanswered_ms: age(&self.waiting_ms),
            rtt_us: Some(self.rtt_us.load(Relaxed)).filter(|us| *us != 0),
            path: self.path.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Identity;

    fn peer(endpoint: Option<&str>) -> Peer {
        let noise = Identity::new([1; 32]).peer([2; 32], 0x0102);
        let endpoint = endpoint.map(|e| e.parse().unwrap());
        Peer::new(NewPeer {
            key: [2; 32],
            agent: 1,
            slot: 2,
            endpoint,
            path: 0,
            noise,
        })
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn w11_what_was_learned_survives_the_same_configuration() {
        let peer = peer(Some("192.0.2.1:1"));
        assert!(peer.roam(at("192.0.2.2:2"), None));
        assert!(!peer.roam(at("192.0.2.2:2"), None));
        assert!(!peer.configure(Some(at("192.0.2.1:1"))));
        assert_eq!(peer.place.lock().endpoint, Some(at("192.0.2.2:2")));
    }

    #[test]
    fn t19_a_new_configuration_wins_over_datagrams_that_are_still_under_way() {
        let peer = peer(Some("192.0.2.1:1"));
        assert!(peer.configure(Some(at("[2001:db8::1]:1"))));
        assert!(!peer.roam(at("192.0.2.1:1"), None));
        assert_eq!(peer.place.lock().endpoint, Some(at("[2001:db8::1]:1")));
        assert!(
            peer.roam(at("192.0.2.9:1"), None),
            "any other move is followed"
        );
        assert!(peer.configure(Some(at("192.0.2.1:1"))));
        assert_eq!(
            peer.place.lock().endpoint,
            Some(at("192.0.2.1:1")),
            "moved back on purpose"
        );
    }

    #[test]
    fn an_endpoint_that_is_no_longer_configured_stays_as_learned() {
        let peer = peer(Some("192.0.2.1:1"));
        assert!(peer.configure(None));
        assert_eq!(peer.place.lock().endpoint, Some(at("192.0.2.1:1")));
    }

    #[test]
    fn w20_the_address_that_was_asked_is_remembered() {
        let peer = peer(None);
        let asked = Some("192.0.2.7".parse().unwrap());
        assert!(peer.roam(at("198.51.100.1:9"), asked));
        assert_eq!(peer.place.lock().local, asked);
    }
}
