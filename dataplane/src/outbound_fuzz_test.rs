//! Random packets and headers from the kernel into the outbound path: nothing panics, and every packet is counted.

use super::*;
use crate::fuzz_bench::{SOURCE, packet_v4, with_device};
use crate::offload::{GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4};
use crate::shared::Role;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn header() -> impl Strategy<Value = VnetHeader> {
    let kind = prop_oneof![
        3 => Just(0u8),
        3 => prop_oneof![Just(GSO_TCPV4), Just(GSO_TCPV6), Just(GSO_UDP_L4)],
        1 => any::<u8>(),
    ];
    let word = || prop_oneof![3 => 0u16..100, 1 => any::<u16>()];
    (0u8..4, kind, word(), any::<u16>(), word(), word()).prop_map(
        |(flags, gso_type, hdr_len, gso_size, csum_start, csum_offset)| VnetHeader {
            flags,
            gso_type,
            hdr_len,
            gso_size: if flags == 3 {
                gso_size
            } else {
                gso_size % 1400
            },
            csum_start,
            csum_offset,
        },
    )
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    let destination = prop_oneof![
        3 => Just(SOURCE),
        1 => Just([198, 18, 0, 2]),
        1 => any::<[u8; 4]>(),
    ];
    let protocol = prop_oneof![Just(6u8), Just(17), any::<u8>()];
    let like_ip = (
        destination,
        protocol,
        vec(any::<u8>(), 0..6000),
        prop::option::of(0usize..40),
        any::<u8>(),
    )
        .prop_map(|(to, protocol, payload, at, byte)| {
            let mut p = packet_v4([10, 0, 0, 1], to, protocol, &payload);
            if let Some(at) = at.filter(|at| *at < p.len()) {
                p[at] = byte;
            }
            p
        });
    prop_oneof![3 => like_ip, 1 => vec(any::<u8>(), 0..3000)]
}

#[test]
fn every_packet_leaves_or_is_counted_as_lost_and_none_does_harm() {
    with_device(Role::Gateway { slot: 0 }, |bench| {
        let shared = bench.device.shared().clone();
        let peers: Vec<_> = shared.table.read().keys.values().cloned().collect();
        let sent = || {
            peers
                .iter()
                .map(|p| p.tx_packets.load(Relaxed))
                .sum::<u64>()
        };
        let drops = || bench.sum(&["drop_no_peer", "drop_no_endpoint", "drop_malformed"]);
        let buffers = std::cell::RefCell::new(Buffers::new());
        let config = Config {
            cases: 3000,
            failure_persistence: None,
            ..Config::default()
        };
        let run = TestRunner::new(config).run(&(header(), packet()), |(header, packet)| {
            let mut bytes = header.bytes().to_vec();
            bytes.extend_from_slice(&packet);
            let before = (sent(), drops());
            forward(&shared, &mut bytes, &mut buffers.borrow_mut());
            let (sent, lost) = (sent() - before.0, drops() - before.1);
            prop_assert!(
                (sent > 0) != (lost > 0) && lost <= 1,
                "{sent} sent, {lost} lost"
            );
            Ok(())
        });
        run.unwrap();
        assert!(sent() > 0 && drops() > 0);
        assert!(
            bench.sum(&["drop_queue"]) > 0,
            "a peer without a session keeps few packets"
        );
        for len in 0..VNET {
            forward(&shared, &mut vec![0; len], &mut buffers.borrow_mut());
        }
    });
}
