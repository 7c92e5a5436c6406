//! Handshake floods into the inbound path of an agent that has a session: what is counted, and that the session lives.

use super::*;
use crate::fuzz_bench::{Bench, OWN, SOURCE, packet_v4, with_device};
use crate::lazy_noise::LazyNoise;
use crate::noise::Identity;
use crate::shared::Role;
use crate::steering::{Mac1Key, pair_index};
use std::net::SocketAddr;

const HOME: &str = "192.0.2.1:51820";

/// An initiation of whoever has this private key, for the device.
fn initiation(private_key: u8, slot: u8) -> Vec<u8> {
    let identity = Arc::new(Identity::new([private_key; 32]));
    let device = Identity::new([1; 32]).public_key();
    let mut noise = LazyNoise::new(identity, device, pair_index(OWN, slot));
    let mut out = [0; HANDSHAKE_MAX];
    assert_eq!(noise.initiate(&mut out), Sealed::Handshake(HANDSHAKE_MAX));
    out.to_vec()
}

struct Flood<'a> {
    bench: Bench,
    inbound: Inbound<'a>,
    watched: Watched,
    now_ms: u64,
}

impl Flood<'_> {
    fn take(&mut self, datagram: &[u8], from: SocketAddr) {
        let socket = self.inbound.shared.paths.read()[0]
            .all()
            .next()
            .unwrap()
            .clone();
        let arrival = Arrival {
            token: 1,
            socket: &socket,
            from,
            local: None,
            now_ms: self.now_ms,
        };
        let message = Message {
            bytes: datagram,
            stride: datagram.len(),
            from,
            local: None,
        };
        self.inbound.message(&mut self.watched, &message, &arrival);
    }

    /// Sends `datagram` 3,000 times from as many addresses, each time with another index and a right mac1.
    fn flood(&mut self, mut datagram: Vec<u8>) {
        let mac1 = Mac1Key::new(&Identity::new([1; 32]).public_key());
        for n in 0..3_000u32 {
            datagram[4] = n as u8;
            datagram[5] = (n >> 8) as u8;
            mac1.stamp(&mut datagram);
            let from = ((0x0a00_0000 + n).to_be_bytes(), 4_000).into();
            self.take(&datagram, from);
        }
    }

    /// The session's peer sends a packet, and then renews its session, from where it is.
    fn session_lives(&mut self) {
        let home = HOME.parse().unwrap();
        let mut out = [0; 512];
        let (packets, done) = (
            self.bench.peer.rx_packets.load(Relaxed),
            self.bench.sum(&["handshakes_done"]),
        );
        let packet = packet_v4(SOURCE, [10, 250, 0, 1], 17, &[5; 100]);
        let Sealed::Data(n) = self.bench.far.seal(&packet, &mut out) else {
            panic!("no session");
        };
        self.take(&out[..n], home);
        assert_eq!(self.bench.peer.rx_packets.load(Relaxed), packets + 1);
        let Sealed::Handshake(n) = self.bench.far.initiate(&mut out) else {
            panic!("no initiation");
        };
        self.take(&out[..n], home);
        assert_eq!(self.bench.sum(&["handshakes_done"]), done + 1);
    }
}

fn with_flood(test: impl FnOnce(&mut Flood<'_>) + Send + 'static) {
    with_device(Role::Agent { id: OWN }, |mut bench| {
        let shared = bench.device.shared().clone();
        let mut out = [0; HANDSHAKE_MAX];
        let mut flood = Flood {
            inbound: Inbound::new(&shared, &[[Some(1), None]]),
            watched: Watched::new(&shared).unwrap(),
            now_ms: shared.now_ms(),
            bench: {
                bench.renew();
                bench
            },
        };
        // One handshake over the inbound path: the agent learns where the peer is.
        assert_eq!(
            flood.bench.far.initiate(&mut out),
            Sealed::Handshake(HANDSHAKE_MAX)
        );
        flood.take(&out, HOME.parse().unwrap());
        assert_eq!(flood.bench.sum(&["handshakes_done"]), 1);
        flood.bench.renew();
        test(&mut flood);
    });
}

#[test]
fn s1_a_session_carries_and_renews_itself_in_a_flood_of_unknown_keys() {
    with_flood(|flood| {
        flood.flood(initiation(99, 7));
        assert_eq!(flood.bench.sum(&["cookies_sent"]), 1_000);
        assert_eq!(flood.bench.sum(&["drop_handshake"]), 2_000);
        flood.session_lives();
    });
}

#[test]
fn s1_a_flood_in_the_name_of_a_peer_at_rest_makes_no_state_for_it() {
    with_flood(|flood| {
        // The second peer's key is public; who lacks its private key can't make the last part.
        let mut claim = initiation(3, 1);
        claim[90] ^= 1;
        flood.flood(claim);
        let table = flood.inbound.shared.table.read().clone();
        let claimed = &table.keys[&Identity::new([3; 32]).public_key()];
        assert!(!claimed.noise.lock().is_needed());
        assert_eq!(flood.bench.sum(&["drop_handshake"]), 2_000);
        flood.session_lives();
    });
}
