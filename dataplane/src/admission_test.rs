//! Handshake floods against the limits alone: who still gets in, and that memory stays what it was.

use super::*;
use crate::lazy_noise::LazyNoise;
use crate::noise::{HANDSHAKE_MAX, Identity, Key, Noise, Opened, Screened, Sealed};
use crate::steering::{Mac1Key, pair_index};
use std::sync::Arc;

const NOW: u64 = 5_000_000;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The n-th forged address.
fn forged(n: u32) -> SocketAddr {
    (
        (0x0a00_0000 + n * 7).to_be_bytes(),
        4_000 + n as u16 % 50_000,
    )
        .into()
}

/// An agent, and initiations of somebody whom it does not know, all with a valid mac1.
struct Flooded {
    agent: Arc<Identity>,
    admission: Admission,
    initiation: Vec<u8>,
    mac1: Mac1Key,
    sent: u32,
    /// Key agreements, cookie replies, nothing.
    cost: [usize; 3],
}

impl Flooded {
    fn new() -> Flooded {
        let agent = Arc::new(Identity::new([1; 32]));
        let mut stranger = gateway(99, &agent.public_key());
        Flooded {
            admission: Admission::seeded(1, false),
            initiation: initiation(&mut stranger),
            mac1: Mac1Key::new(&agent.public_key()),
            agent,
            sent: 0,
            cost: [0; 3],
        }
    }

    fn flood(&mut self, from: SocketAddr, now_ms: u64) {
        self.sent += 1;
        self.initiation[4..8].copy_from_slice(&self.sent.to_le_bytes());
        self.mac1.stamp(&mut self.initiation);
        let datagram = self.initiation.clone();
        let mut out = [0; HANDSHAKE_MAX];
        let kind = match self.screen(&datagram, from, now_ms, &mut out) {
            Screened::From(_) | Screened::ByIndex(_) => 0,
            Screened::Cookie(_) => 1,
            Screened::Refused => 2,
        };
        self.cost[kind] += 1;
    }

    fn screen<'a>(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        now_ms: u64,
        out: &'a mut [u8],
    ) -> Screened<'a> {
        self.agent
            .screen(datagram, from, &mut self.admission, now_ms, out)
    }

    /// Tries to get in as an honest gateway does, at most twice; says how many tries it took.
    fn tries(&mut self, gateway: &mut LazyNoise, key: Key, from: SocketAddr) -> Option<u32> {
        for n in 1..=2 {
            let datagram = initiation(gateway);
            let mut out = [0; HANDSHAKE_MAX];
            match self.screen(&datagram, from, NOW, &mut out) {
                Screened::From(of) => {
                    assert_eq!(of, key);
                    return Some(n);
                }
                Screened::Cookie(cookie) => {
                    let reply = cookie.to_vec();
                    let mut room = [0; 512];
                    assert_eq!(gateway.open(&reply, &mut room), Opened::Cookie);
                }
                Screened::ByIndex(_) | Screened::Refused => return None,
            }
        }
        None
    }
}

fn key(n: u8) -> Key {
    Identity::new([n; 32]).public_key()
}

fn gateway(n: u8, agent: &Key) -> LazyNoise {
    LazyNoise::new(Arc::new(Identity::new([n; 32])), *agent, pair_index(1, n))
}

fn initiation(gateway: &mut LazyNoise) -> Vec<u8> {
    let mut out = [0; HANDSHAKE_MAX];
    assert_eq!(gateway.initiate(&mut out), Sealed::Handshake(HANDSHAKE_MAX));
    out.to_vec()
}

#[test]
fn s1_a_flood_from_forged_addresses_costs_a_bounded_number_of_key_agreements_and_replies() {
    let mut flooded = Flooded::new();
    for n in 0..10_000 {
        flooded.flood(forged(n), NOW + u64::from(n % 1000));
    }
    assert_eq!(flooded.cost, [300, 1_000, 8_700]);
    for n in 0..2_000 {
        flooded.flood(forged(n), NOW + 1000);
    }
    assert_eq!(flooded.cost, [600, 2_000, 9_400], "and so in each second");
    assert!(flooded.admission.known.is_empty() && flooded.admission.prefixes.is_empty());
}

#[test]
fn s1_a_flood_from_one_port_or_one_address_leaves_others_their_share() {
    let mut flooded = Flooded::new();
    for _ in 0..5_000 {
        flooded.flood(at("198.51.100.9:5"), NOW);
    }
    assert_eq!(flooded.cost, [5, 0, 4_995]);
    for port in 1..5_000 {
        flooded.flood(SocketAddr::new(at("198.51.100.9:1").ip(), port), NOW);
    }
    assert_eq!(flooded.cost[..2], [100, 0], "of one address");
    for n in 0..5_000u16 {
        let host: std::net::Ipv6Addr = [0x2001, 0xdb8, 1, 1, n, 1, n, n].into();
        flooded.flood((host, n).into(), NOW);
    }
    assert_eq!(flooded.cost[..2], [200, 0], "of one IPv6 /64");
    let mut honest = gateway(2, &flooded.agent.public_key());
    assert_eq!(
        flooded.tries(&mut honest, key(2), at("192.0.2.2:1")),
        Some(1)
    );
}

#[test]
fn s1_a_peer_renews_its_session_from_where_it_is_whatever_strangers_send() {
    let mut flooded = Flooded::new();
    let home = at("192.0.2.2:1111");
    flooded.admission.remember(home, NOW);
    for n in 0..20_000 {
        flooded.flood(forged(n), NOW);
    }
    let mut peer = gateway(2, &flooded.agent.public_key());
    assert_eq!(flooded.tries(&mut peer, key(2), home), Some(1));
}

#[test]
fn s1_a_second_gateway_gets_in_behind_an_address_that_floods() {
    let mut flooded = Flooded::new();
    flooded.admission.remember(at("192.0.2.2:1111"), NOW);
    for n in 0..20_000 {
        flooded.flood(forged(n), NOW);
    }
    for n in 0..20_000u32 {
        let port = 20_000 + n as u16 % 64;
        flooded.flood(SocketAddr::new(at("192.0.2.2:1").ip(), port), NOW);
    }
    let mut second = gateway(3, &flooded.agent.public_key());
    let tries = flooded.tries(&mut second, key(3), at("192.0.2.2:2222"));
    assert_eq!(tries, Some(2), "by a cookie");
}

#[test]
fn s1_a_cookie_is_worth_nothing_from_another_address_and_another_is_sent() {
    let mut flooded = Flooded::new();
    let (one, two) = (at("192.0.2.2:1"), at("192.0.2.3:1"));
    for peer in [one, two] {
        flooded.admission.remember(peer, NOW);
    }
    for n in 0..20_000 {
        flooded.flood(forged(n), NOW);
    }
    let mut moving = gateway(3, &flooded.agent.public_key());
    assert_eq!(
        flooded.tries(&mut moving, key(3), at("192.0.2.2:9")),
        Some(2)
    );
    let stale = initiation(&mut moving);
    let mut out = [0; HANDSHAKE_MAX];
    let screened = flooded.screen(&stale, at("192.0.2.3:9"), NOW, &mut out);
    assert!(matches!(screened, Screened::Cookie(_)));
    assert_eq!(
        flooded.tries(&mut moving, key(3), at("192.0.2.3:9")),
        Some(2)
    );
}

#[test]
fn s1_a_stranger_with_a_real_address_and_its_cookie_is_limited_too() {
    let mut flooded = Flooded::new();
    for n in 0..20_000 {
        flooded.flood(forged(n), NOW);
    }
    let owned = at("198.51.100.9:5").ip();
    let costs = (1..20_000)
        .filter(|port| flooded.admission.proven(SocketAddr::new(owned, *port), NOW))
        .count();
    assert_eq!(costs, 100);
    let many = (0..20_000).filter(|n| flooded.admission.proven(forged(*n), NOW));
    assert_eq!(many.count(), 400, "500 together");
}

#[test]
fn responses_of_thousands_of_agents_behind_one_balancer_are_taken() {
    let mut admission = Admission::seeded(1, false);
    let taken = (0..2_500)
        .filter(|_| admission.response(false, NOW) == Admitted::Yes)
        .count();
    assert_eq!(taken, 2_000);
    assert_eq!(admission.response(false, NOW), Admitted::Cookie);
    assert_eq!(admission.response(true, NOW), Admitted::Yes);
}

#[test]
fn addresses_of_peers_are_bounded_and_the_oldest_is_forgotten_first() {
    let mut admission = Admission::seeded(1, false);
    for n in 0..5_000 {
        admission.remember(forged(n), u64::from(n));
    }
    assert_eq!(admission.known.len(), KNOWN_MAX);
    assert_eq!(admission.prefixes.values().sum::<usize>(), KNOWN_MAX);
    assert!(admission.known.contains_key(&forged(4_999)));
    assert!(!admission.known.contains_key(&forged(0)));
}

#[test]
fn initiations_of_hundreds_of_agents_behind_one_balancer_reach_a_gateway() {
    let mut admission = Admission::seeded(1, true);
    let balancer = at("198.51.100.1:51820");
    admission.remember(balancer, NOW);
    let taken = (0..1_000)
        .filter(|_| admission.unproven(balancer, NOW) == Admitted::Yes)
        .count();
    assert_eq!(taken, 250);
    assert!((0..250).all(|_| admission.proven(balancer, NOW)));
}
