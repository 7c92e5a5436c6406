//! Splitting of super packets: flags, lengths, checksums, and headers that lie.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests fail by panics.

mod offload_packets;

use offload_packets::{Family, Flow, TCP_HEADER, is_valid, split_all, udp_packet};
use proptest::prelude::*;
use xylem_dataplane::offload::{
    GSO_ECN, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, NEEDS_CSUM, SplitError, VNET, VnetHeader, split,
};

const FIN_PSH_ACK: u8 = 0x19;
const CWR: u8 = 0x80;

#[test]
fn tcp_segments_have_the_flags_ids_and_lengths_of_separate_sends() {
    for family in [Family::V4, Family::V6] {
        let (mut header, packet) =
            Flow::new(family, 1).super_packet(2_500, 1_000, FIN_PSH_ACK | CWR);
        header.gso_type |= GSO_ECN;
        let l4 = family.header();
        let got = split_all(&header, &packet).unwrap();
        let flags: Vec<u8> = got.iter().map(|p| p[l4 + 13]).collect();
        assert_eq!(flags, [0x10 | CWR, 0x10, FIN_PSH_ACK]);
        let sizes: Vec<usize> = got.iter().map(|p| p.len() - l4 - TCP_HEADER).collect();
        assert_eq!(sizes, [1_000, 1_000, 500]);
        let sequence = |p: &[u8]| u32::from_be_bytes(p[l4 + 4..l4 + 8].try_into().unwrap());
        assert_eq!(sequence(&got[2]), sequence(&got[0]).wrapping_add(2_000));
        assert!(got.iter().all(|p| is_valid(p)));
        if family == Family::V4 {
            let ids: Vec<u16> = got
                .iter()
                .map(|p| u16::from_be_bytes([p[4], p[5]]))
                .collect();
            assert_eq!(ids, [65_532, 65_533, 65_534]);
            assert!(
                got.iter().all(|p| p[1] & 3 == 2),
                "ECN of the IP header stays"
            );
        }
        let payload: Vec<u8> = got
            .iter()
            .flat_map(|p| p[l4 + TCP_HEADER..].to_vec())
            .collect();
        assert_eq!(payload, packet[l4 + TCP_HEADER..]);
    }
}

#[test]
fn udp_datagrams_have_their_own_lengths_and_checksums() {
    for family in [Family::V4, Family::V6] {
        let (header, packet) = udp_packet(family, 3_000, 1_400);
        let l4 = family.header();
        let got = split_all(&header, &packet).unwrap();
        let lens: Vec<u16> = got
            .iter()
            .map(|p| u16::from_be_bytes([p[l4 + 4], p[l4 + 5]]))
            .collect();
        assert_eq!(lens, [1_408, 1_408, 208]);
        assert!(got.iter().all(|p| is_valid(p)));
    }
}

#[test]
fn an_unfinished_checksum_of_a_plain_packet_is_finished() {
    for family in [Family::V4, Family::V6] {
        let (header, packet) = udp_packet(family, 777, 0);
        assert!(!is_valid(&packet));
        let got = split_all(&header, &packet).unwrap();
        assert_eq!(got.len(), 1);
        assert!(is_valid(&got[0]));
    }
}

#[test]
fn a_plain_packet_with_a_finished_checksum_is_left_alone() {
    let packet = Flow::new(Family::V6, 1).packet(100, 0x10);
    assert_eq!(
        split_all(&VnetHeader::default(), &packet).unwrap(),
        [packet]
    );
}

#[test]
fn a_udp_checksum_that_comes_out_as_zero_is_sent_as_ones() {
    let (header, mut packet) = udp_packet(Family::V4, 2, 0);
    // The payload that makes the whole sum 0xffff, so that its complement is zero.
    packet[28..30].copy_from_slice(&[0, 0]);
    let without = split_all(&header, &packet).unwrap().remove(0);
    packet[28..30].copy_from_slice(&without[26..28]);
    let got = split_all(&header, &packet).unwrap().remove(0);
    assert_eq!(got[26..28], [0xff, 0xff]);
}

#[test]
fn headers_that_lie_are_errors() {
    let (tcp, packet) = Flow::new(Family::V4, 1).super_packet(3_000, 1_000, 0x10);
    let (udp, datagrams) = udp_packet(Family::V6, 3_000, 1_000);
    let plain = VnetHeader {
        gso_type: 0,
        gso_size: 0,
        ..tcp
    };
    struct Case<'a> {
        name: &'static str,
        header: VnetHeader,
        packet: &'a [u8],
        want: SplitError,
    }
    let mut options_short = packet.clone();
    options_short[32] = 0x40;
    let mut options_long = packet[..60].to_vec();
    options_long[32] = 0xf0;
    let mut fragment = packet.clone();
    fragment[6] = 0x20;
    let cases = [
        Case {
            name: "empty",
            header: plain,
            packet: &[],
            want: SplitError::Malformed,
        },
        Case {
            name: "not IP",
            header: plain,
            packet: &[0x15; 40],
            want: SplitError::Malformed,
        },
        Case {
            name: "IPv4 cut off",
            header: plain,
            packet: &packet[..19],
            want: SplitError::Malformed,
        },
        Case {
            name: "checksum start behind the packet",
            header: VnetHeader {
                csum_start: 60_000,
                ..plain
            },
            packet: &packet,
            want: SplitError::ChecksumRange,
        },
        Case {
            name: "checksum field behind the packet",
            header: VnetHeader {
                csum_offset: 60_000,
                ..plain
            },
            packet: &packet,
            want: SplitError::ChecksumRange,
        },
        Case {
            name: "checksum start in the IP header",
            header: VnetHeader {
                csum_start: 12,
                ..plain
            },
            packet: &packet,
            want: SplitError::ChecksumRange,
        },
        Case {
            name: "checksum start is not the transport's",
            header: VnetHeader {
                csum_start: 24,
                ..tcp
            },
            packet: &packet,
            want: SplitError::ChecksumRange,
        },
        Case {
            name: "GSO size zero",
            header: VnetHeader { gso_size: 0, ..tcp },
            packet: &packet,
            want: SplitError::GsoSizeZero,
        },
        Case {
            name: "header longer than the packet",
            header: VnetHeader {
                hdr_len: 4_000,
                ..tcp
            },
            packet: &packet,
            want: SplitError::HeaderTooLong,
        },
        Case {
            name: "TCP cut off",
            header: VnetHeader { hdr_len: 0, ..tcp },
            packet: &packet[..30],
            want: SplitError::HeaderTooLong,
        },
        Case {
            name: "UDP cut off",
            header: VnetHeader { hdr_len: 0, ..udp },
            packet: &datagrams[..44],
            want: SplitError::HeaderTooLong,
        },
        Case {
            name: "TCP data offset too small",
            header: tcp,
            packet: &options_short,
            want: SplitError::Malformed,
        },
        Case {
            name: "TCP data offset too large",
            header: tcp,
            packet: &options_long,
            want: SplitError::HeaderTooLong,
        },
        Case {
            name: "wrong family",
            header: VnetHeader {
                gso_type: GSO_TCPV6,
                ..tcp
            },
            packet: &packet,
            want: SplitError::GsoType(GSO_TCPV6),
        },
        Case {
            name: "wrong protocol",
            header: VnetHeader {
                gso_type: GSO_UDP_L4,
                ..tcp
            },
            packet: &packet,
            want: SplitError::GsoType(GSO_UDP_L4),
        },
        Case {
            name: "UDP fragmentation offload",
            header: VnetHeader { gso_type: 3, ..udp },
            packet: &datagrams,
            want: SplitError::GsoType(3),
        },
        Case {
            name: "fragment",
            header: tcp,
            packet: &fragment,
            want: SplitError::GsoType(GSO_TCPV4),
        },
    ];
    for case in cases {
        assert_eq!(
            split_all(&case.header, case.packet),
            Err(case.want),
            "{}",
            case.name
        );
    }
}

#[test]
fn a_segment_longer_than_the_scratch_buffer_is_an_error() {
    let (header, mut packet) = Flow::new(Family::V4, 1).super_packet(3_000, 1_000, 0x10);
    let mut scratch = vec![0; 1_051];
    let result = split(&mut packet, &header, &mut scratch, &mut |_| {
        panic!("emitted")
    });
    assert_eq!(result, Err(SplitError::SegmentTooLong));
    let mut scratch = vec![0; 1_052];
    let mut count = 0;
    split(&mut packet, &header, &mut scratch, &mut |_| count += 1).unwrap();
    assert_eq!(count, 3);
}

#[test]
fn a_gso_packet_with_one_segment_or_no_data_gives_one_packet() {
    for payload in [0, 400] {
        let (header, packet) = Flow::new(Family::V6, 1).super_packet(payload, 1_000, FIN_PSH_ACK);
        let got = split_all(&header, &packet).unwrap();
        assert_eq!(got.len(), 1);
        assert!(is_valid(&got[0]));
        assert_eq!(got[0][40 + 13], FIN_PSH_ACK);
    }
}

#[test]
fn a_vnet_header_survives_its_bytes() {
    let header = VnetHeader {
        flags: 1,
        gso_type: 0x81,
        hdr_len: 2,
        gso_size: 3,
        csum_start: 4,
        csum_offset: 5,
    };
    assert_eq!(VnetHeader::parse(&header.bytes()), Some(header));
    assert_eq!(VnetHeader::parse(&[0; VNET - 1]), None);
}

fn header() -> impl Strategy<Value = VnetHeader> {
    let small = || prop_oneof![0u16..100, any::<u16>()];
    (
        any::<u8>(),
        prop_oneof![Just(0u8), Just(1), Just(4), Just(5), any::<u8>()],
        small(),
        small(),
        prop_oneof![Just(20u16), Just(40), small()],
        prop_oneof![Just(16u16), Just(6), small()],
    )
        .prop_map(
            |(flags, gso_type, hdr_len, gso_size, csum_start, csum_offset)| VnetHeader {
                flags: flags & NEEDS_CSUM,
                gso_type,
                hdr_len,
                gso_size,
                csum_start,
                csum_offset,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_header_and_no_packet_make_splitting_panic(
        h in header(),
        mut packet in proptest::collection::vec(any::<u8>(), 0..300),
        first in prop_oneof![Just(0x45u8), Just(0x46), Just(0x60)],
        protocol in prop_oneof![Just(6u8), Just(17), Just(0), Just(44), any::<u8>()],
        scratch in 0usize..400,
    ) {
        if packet.len() > 9 {
            packet[0] = first;
            packet[6] = if first == 0x60 { protocol } else { 0 };
            packet[7] = 0;
            packet[9] = protocol;
        }
        let mut scratch = vec![0; scratch];
        let mut emitted = 0usize;
        let result = split(&mut packet, &h, &mut scratch, &mut |_| emitted += 1);
        prop_assert_eq!(result.is_ok(), emitted > 0);
    }
}
