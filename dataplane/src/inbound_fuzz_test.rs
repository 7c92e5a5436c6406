//! Random and mutated datagrams into the inbound path: nothing panics, and every datagram is counted once.

use super::*;
use crate::fuzz_bench::{Bench, OWN, SOURCE, packet_v4, with_device};
use crate::noise::DATA_OVERHEAD;
use crate::shared::Role;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::net::SocketAddr;

/// What one datagram is made of.
#[derive(Clone, Debug)]
enum Made {
    /// Any bytes at all.
    Noise(Vec<u8>),
    /// A type, an index and bytes behind them; `is_exact`: as long as that type must be.
    Shaped {
        kind: u8,
        index: u32,
        rest: Vec<u8>,
        is_exact: bool,
    },
    /// What the far end really says, then changed.
    Real { says: Says, change: Change },
}

#[derive(Clone, Copy, Debug)]
enum Says {
    Initiation,
    Keepalive,
    /// A packet of so many bytes behind IP, from its own address or from another's.
    Packet {
        size: usize,
        is_own: bool,
    },
    /// Bytes that are no IP packet.
    Nonsense,
}

#[derive(Clone, Debug)]
enum Change {
    Nothing,
    Flip { at: prop::sample::Index, bit: u8 },
    Cut(prop::sample::Index),
    Grow(Vec<u8>),
    Twice,
}

fn made() -> impl Strategy<Value = Made> {
    let index = prop_oneof![
        3 => any::<u8>().prop_map(|s| u32::from(OWN) << 16 | u32::from(s)),
        2 => (0u32..5, any::<u16>()).prop_map(|(agent, low)| agent << 16 | u32::from(low)),
        1 => any::<u32>(),
    ];
    let shaped = (0u8..6, index, vec(any::<u8>(), 0..1492), any::<bool>()).prop_map(
        |(kind, index, rest, is_exact)| Made::Shaped {
            kind,
            index,
            rest,
            is_exact,
        },
    );
    let says = prop_oneof![
        Just(Says::Initiation),
        Just(Says::Keepalive),
        (0usize..1400, any::<bool>()).prop_map(|(size, is_own)| Says::Packet { size, is_own }),
        Just(Says::Nonsense),
    ];
    let change = prop_oneof![
        Just(Change::Nothing),
        Just(Change::Twice),
        (any::<prop::sample::Index>(), 0u8..8).prop_map(|(at, bit)| Change::Flip { at, bit }),
        any::<prop::sample::Index>().prop_map(Change::Cut),
        vec(any::<u8>(), 1..64).prop_map(Change::Grow),
    ];
    prop_oneof![
        vec(any::<u8>(), 0..1500).prop_map(Made::Noise),
        shaped,
        (says, change).prop_map(|(says, change)| Made::Real { says, change }),
    ]
}

fn shaped(kind: u8, index: u32, rest: &[u8], is_exact: bool) -> Vec<u8> {
    let mut d = vec![kind, 0, 0, 0];
    d.extend_from_slice(&index.to_le_bytes());
    d.extend_from_slice(rest);
    match (kind, is_exact) {
        (1, true) => d.resize(148, 7),
        (2, true) => d.resize(92, 7),
        (3, true) => d.resize(64, 7),
        _ => {}
    }
    if kind == 2 && d.len() >= 12 {
        d[8..12].copy_from_slice(&index.to_le_bytes());
    }
    d
}

fn real(bench: &mut Bench, says: Says) -> Vec<u8> {
    let mut out = vec![0u8; 2048];
    let sealed = match says {
        Says::Initiation => bench.far.initiate(&mut out),
        Says::Keepalive => bench.far.seal(&[], &mut out),
        Says::Packet { size, is_own } => {
            let source = if is_own { SOURCE } else { [192, 0, 2, 77] };
            let packet = packet_v4(source, [10, 250, 0, 1], 17, &vec![5; size]);
            bench.far.seal(&packet, &mut out)
        }
        Says::Nonsense => bench.far.seal(&[0xff; 40], &mut out),
    };
    match sealed {
        Sealed::Data(n) | Sealed::Handshake(n) => out.truncate(n),
        Sealed::Nothing | Sealed::Full => out.clear(),
    }
    out
}

fn bytes(bench: &mut Bench, made: &Made) -> Vec<u8> {
    match made {
        Made::Noise(bytes) => bytes.clone(),
        Made::Shaped {
            kind,
            index,
            rest,
            is_exact,
        } => shaped(*kind, *index, rest, *is_exact),
        Made::Real { says, change } => {
            let mut d = real(bench, *says);
            match change {
                Change::Flip { at, bit } => {
                    let at = at.index(d.len());
                    d[at] ^= 1 << bit;
                }
                Change::Cut(at) => d.truncate(at.index(d.len())),
                Change::Grow(more) => d.extend_from_slice(more),
                Change::Twice => d.extend_from_within(..),
                Change::Nothing => {}
            }
            d
        }
    }
}

/// Where a datagram can end up; each counts once.
const ENDS: &[&str] = &[
    "drop_garbage",
    "drop_refused",
    "drop_handshake",
    "drop_unknown_agent",
    "drop_source",
    "relay_datagrams",
    "relay_refused",
    "cookies_sent",
    "cookies_received",
    "handshakes_done",
    "keepalives_received",
    "probes_echoed",
    "probes_answered",
];

fn throw(role: Role, cases: u32) {
    with_device(role, move |bench| {
        let shared = bench.device.shared().clone();
        let bench = std::cell::RefCell::new(bench);
        let watched = std::cell::RefCell::new(Watched::new(&shared).unwrap());
        let socket = shared.paths.read()[0].all().next().unwrap().clone();
        let inbound = std::cell::RefCell::new(Inbound::new(&shared, &[[Some(1), None]]));
        let mut runner = TestRunner::new(Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        });
        let strategy = (
            vec(made(), 1..12),
            prop::option::of(1usize..400),
            any::<u8>(),
        );
        let run = runner.run(&strategy, |(all, stride, host)| {
            let (mut bench, mut inbound) = (bench.borrow_mut(), inbound.borrow_mut());
            bench.renew();
            let from: SocketAddr = ([192, 0, 2, host], 4000 + u16::from(host)).into();
            let now_ms = shared.now_ms();
            let arrival = Arrival {
                token: 1,
                socket: &socket,
                from,
                local: None,
                now_ms,
            };
            let datagrams: Vec<_> = all.iter().map(|made| bytes(&mut bench, made)).collect();
            // With a stride: one message that a receive merged, cut where no sender would.
            let messages = match stride {
                Some(stride) => vec![(datagrams.concat(), stride)],
                None => datagrams
                    .into_iter()
                    .map(|d| (d.clone(), d.len().max(1)))
                    .collect(),
            };
            for (bytes, stride) in &messages {
                let before = bench.sum(ENDS) + bench.peer.rx_packets.load(Relaxed);
                let message = Message {
                    bytes,
                    stride: *stride,
                    from,
                    local: None,
                };
                inbound.message(&mut watched.borrow_mut(), &message, &arrival);
                let after = bench.sum(ENDS) + bench.peer.rx_packets.load(Relaxed);
                let want = bytes.len().div_ceil(*stride).max(1) as u64;
                prop_assert_eq!(
                    after - before,
                    want,
                    "of a message of {} bytes",
                    bytes.len()
                );
                inbound.relay.answer(&shared, 1, &message, now_ms);
            }
            inbound.merger.flush(&mut &shared.ip_side);
            Ok(())
        });
        run.unwrap();
        let bench = bench.into_inner();
        assert!(
            bench.peer.rx_packets.load(Relaxed) > 0,
            "no packet was genuine"
        );
        assert!(bench.sum(&["keepalives_received"]) > 0 && bench.sum(&["handshakes_done"]) > 0);
        let is_steering = matches!(role, Role::Agent { .. });
        assert_eq!(bench.sum(&["relay_datagrams"]) > 0, is_steering);
        assert!(
            !shared.is_stopped.load(SeqCst),
            "a thread of the device ended"
        );
    });
}

#[test]
fn an_agent_counts_every_datagram_once_and_none_does_harm() {
    throw(Role::Agent { id: OWN }, 600);
}

#[test]
fn a_gateway_counts_every_datagram_once_and_none_does_harm() {
    throw(Role::Gateway { slot: 0 }, 600);
}

#[test]
fn sizes_around_every_limit_are_harmless() {
    with_device(Role::Agent { id: OWN }, |bench| {
        let shared = bench.device.shared().clone();
        let mut watched = Watched::new(&shared).unwrap();
        let socket = shared.paths.read()[0].all().next().unwrap().clone();
        let mut inbound = Inbound::new(&shared, &[]);
        let from: SocketAddr = ([192, 0, 2, 9], 9).into();
        let arrival = Arrival {
            token: 1,
            socket: &socket,
            from,
            local: None,
            now_ms: shared.now_ms(),
        };
        let slot = inbound.merger.slot_size();
        for kind in 0..=5u8 {
            for len in [
                0,
                1,
                3,
                4,
                7,
                8,
                11,
                12,
                31,
                DATA_OVERHEAD,
                33,
                63,
                64,
                65,
                91,
                92,
                93,
                147,
                148,
                149,
                slot - 1,
                slot,
                slot + 1,
                65_507,
            ] {
                let mut datagram = vec![0u8; len];
                for (byte, value) in datagram.iter_mut().zip([kind, 0, 0, 0, 1, 0, OWN as u8, 0]) {
                    *byte = value;
                }
                let before = bench.sum(ENDS);
                let message = Message {
                    bytes: &datagram,
                    stride: len.max(1),
                    from,
                    local: None,
                };
                inbound.message(&mut watched, &message, &arrival);
                assert_eq!(bench.sum(ENDS) - before, 1, "type {kind}, {len} bytes");
            }
        }
    });
}
