//! W1, W2: the MSS of a handshake is lowered to what the tunnel carries.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Tests fail by panics.

mod offload_packets;

use offload_packets::{Family, is_valid};
use proptest::prelude::*;
use xylem_dataplane::checksum;
use xylem_dataplane::mss::clamp;

const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const ACK: u8 = 0x10;

/// A TCP packet with `options` (padded to words) and a right checksum; `extension` bytes go before TCP in IPv6.
fn handshake(family: Family, flags: u8, options: &[u8], extension: &[u8]) -> Vec<u8> {
    let mut options = options.to_vec();
    options.resize(options.len().next_multiple_of(4), 0);
    let l4 = family.header() + extension.len();
    let mut p = vec![0u8; l4 + 20 + options.len()];
    let len = p.len() as u16;
    match family {
        Family::V4 => {
            p[0] = 0x45;
            p[2..4].copy_from_slice(&len.to_be_bytes());
            p[8] = 64;
            p[9] = 6;
            p[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        }
        Family::V6 => {
            p[0] = 0x60;
            p[4..6].copy_from_slice(&(len - 40).to_be_bytes());
            p[6] = if extension.is_empty() { 6 } else { 0 };
            p[8] = 0xfd;
            p[24] = 0xfd;
            p[40..l4].copy_from_slice(extension);
        }
    }
    p[l4..l4 + 4].copy_from_slice(&[0x30, 0x39, 0x28, 0x0a]);
    p[l4 + 12] = (5 + options.len() as u8 / 4) << 4;
    p[l4 + 13] = flags;
    p[l4 + 20..].copy_from_slice(&options);
    if extension.is_empty() {
        offload_packets::finish(&mut p);
    } else {
        let value =
            !checksum::fold(checksum::pseudo_header(&p, 6, p.len() - l4) + checksum::sum(&p[l4..]));
        checksum::store(&mut p, l4 + 16, value);
    }
    p
}

#[test]
fn w1_an_mss_beyond_the_tunnel_is_lowered_and_the_checksum_stays_right() {
    struct Case {
        name: &'static str,
        family: Family,
        flags: u8,
        options: &'static [u8],
        mss_at: usize,
        want: Option<u16>,
    }
    let cases = [
        Case {
            name: "v4 SYN",
            family: Family::V4,
            flags: SYN,
            options: &[2, 4, 5, 180],
            mss_at: 2,
            want: Some(1_380),
        },
        Case {
            name: "v4 SYN/ACK",
            family: Family::V4,
            flags: SYN_ACK,
            options: &[2, 4, 5, 180],
            mss_at: 2,
            want: Some(1_380),
        },
        Case {
            name: "v6 SYN",
            family: Family::V6,
            flags: SYN,
            options: &[2, 4, 5, 160],
            mss_at: 2,
            want: Some(1_360),
        },
        Case {
            name: "v6 SYN/ACK, jumbo",
            family: Family::V6,
            flags: SYN_ACK,
            options: &[2, 4, 35, 4],
            mss_at: 2,
            want: Some(1_360),
        },
        Case {
            name: "behind other options",
            family: Family::V4,
            flags: SYN,
            options: &[4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 2, 4, 5, 180],
            mss_at: 14,
            want: Some(1_380),
        },
        Case {
            name: "at an odd offset",
            family: Family::V4,
            flags: SYN,
            options: &[1, 2, 4, 5, 180],
            mss_at: 3,
            want: Some(1_380),
        },
        Case {
            name: "v6 at an odd offset",
            family: Family::V6,
            flags: SYN,
            options: &[1, 1, 1, 2, 4, 5, 160],
            mss_at: 5,
            want: Some(1_360),
        },
        Case {
            name: "small already",
            family: Family::V4,
            flags: SYN,
            options: &[2, 4, 5, 100],
            mss_at: 2,
            want: None,
        },
        Case {
            name: "equal",
            family: Family::V6,
            flags: SYN,
            options: &[2, 4, 5, 80],
            mss_at: 2,
            want: None,
        },
        Case {
            name: "no option",
            family: Family::V4,
            flags: SYN,
            options: &[],
            mss_at: 0,
            want: None,
        },
        Case {
            name: "no SYN",
            family: Family::V4,
            flags: ACK,
            options: &[2, 4, 5, 180],
            mss_at: 2,
            want: None,
        },
        Case {
            name: "behind the end of options",
            family: Family::V4,
            flags: SYN,
            options: &[0, 0, 0, 0, 2, 4, 5, 180],
            mss_at: 6,
            want: None,
        },
        Case {
            name: "wrong length",
            family: Family::V4,
            flags: SYN,
            options: &[2, 3, 5, 180],
            mss_at: 2,
            want: None,
        },
        Case {
            name: "option of length zero",
            family: Family::V4,
            flags: SYN,
            options: &[8, 0, 2, 4, 5, 180],
            mss_at: 4,
            want: None,
        },
        Case {
            name: "option cut off",
            family: Family::V4,
            flags: SYN,
            options: &[1, 1, 1, 2],
            mss_at: 0,
            want: None,
        },
    ];
    for case in cases {
        let before = handshake(case.family, case.flags, case.options, &[]);
        let mut p = before.clone();
        assert_eq!(clamp(&mut p, 1_420), case.want.is_some(), "{}", case.name);
        assert!(is_valid(&p), "{}", case.name);
        match case.want {
            None => assert_eq!(p, before, "{}", case.name),
            Some(mss) => {
                let at = case.family.header() + 20 + case.mss_at;
                assert_eq!(p[at..at + 2], mss.to_be_bytes(), "{}", case.name);
            }
        }
    }
}

#[test]
fn w1_extension_headers_are_walked() {
    let hop_by_hop = [6, 0, 1, 4, 0, 0, 0, 0];
    let mut p = handshake(Family::V6, SYN, &[2, 4, 5, 160], &hop_by_hop);
    assert!(clamp(&mut p, 1_420));
    assert_eq!(p[48 + 22..48 + 24], 1_360u16.to_be_bytes());
    assert!(checksum::is_transport_valid(&p, 48, 6));
}

#[test]
fn w1_later_fragments_and_other_protocols_are_left_alone() {
    let mut later = handshake(Family::V4, SYN, &[2, 4, 5, 180], &[]);
    later[7] = 100;
    assert!(!clamp(&mut later, 1_420));
    let mut udp = handshake(Family::V4, SYN, &[2, 4, 5, 180], &[]);
    udp[9] = 17;
    assert!(!clamp(&mut udp, 1_420));
}

#[test]
fn w1_an_mtu_too_small_for_headers_changes_nothing() {
    let mut p = handshake(Family::V6, SYN, &[2, 4, 5, 160], &[]);
    assert!(!clamp(&mut p, 60));
    assert!(!clamp(&mut p, 0));
}

proptest! {
    #[test]
    fn a_clamped_handshake_stays_valid(mss: u16, mtu in 576u16..9_000, nops in 0usize..5, v6: bool) {
        let family = if v6 { Family::V6 } else { Family::V4 };
        let mut options = vec![1u8; nops];
        options.extend_from_slice(&[2, 4]);
        options.extend_from_slice(&mss.to_be_bytes());
        let mut p = handshake(family, SYN, &options, &[]);
        let most = mtu - if v6 { 60 } else { 40 };
        prop_assert_eq!(clamp(&mut p, mtu), mss > most);
        prop_assert!(is_valid(&p));
        let at = family.header() + 22 + nops;
        prop_assert_eq!(u16::from_be_bytes([p[at], p[at + 1]]), mss.min(most));
        prop_assert!(!clamp(&mut p, mtu));
    }

    #[test]
    fn no_bytes_make_clamping_panic(mut p in proptest::collection::vec(any::<u8>(), 0..120), first in prop_oneof![Just(0x45u8), Just(0x60)], mtu: u16) {
        if p.len() > 9 {
            p[0] = first;
            p[6] = if first == 0x60 { 6 } else { 0 };
            p[7] = 0;
            p[9] = 6;
        }
        let _ = clamp(&mut p, mtu);
    }
}
